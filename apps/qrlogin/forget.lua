-- Removes one attempt that has ended, or of which nothing is left, from everywhere; an open one is not touched.
-- KEYS 1 the pointer of its user · 2 the set of the user's attempts · 3 its row · 4 its history
-- ARGV 1 its id · then the statuses that are an end
local status = redis.call('HGET', KEYS[3], 'status')
if status then
  local ended = false
  for i = 2, #ARGV do ended = ended or ARGV[i] == status end
  if not ended then return 0 end
end
redis.call('DEL', KEYS[3], KEYS[4])
redis.call('ZREM', KEYS[2], ARGV[1])
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return 1
