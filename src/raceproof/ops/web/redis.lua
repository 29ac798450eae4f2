-- The same fields of many hashes, in one go; it only reads.
-- KEYS  the hashes · ARGV  the names of the fields
-- returns for each hash the values in that order
local found = {}
for place, key in ipairs(KEYS) do
  found[place] = redis.call('HMGET', key, unpack(ARGV))
end
return found
