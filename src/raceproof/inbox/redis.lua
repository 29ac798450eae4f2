-- The inbox on Redis and Valkey: each event is a hash, which is made once, and stands in the index of the claim from then on.
--
-- KEYS  1 the index of the claim · 2 which line each event is in · then for each event its row and its line
-- ARGV  1 the time to use in seconds, '' for the server's
--       then for each event: member, source, event id, ordering key or '', body, headers
-- returns 1 for each that is new, 0 for each that was there

local moment = ARGV[1]
if moment == '' then
  local time = redis.call('TIME')
  moment = string.format('%s.%06d', time[1], tonumber(time[2]))
end
local answers = {}
local events = (#KEYS - 2) / 2
for i = 1, events do
  local member, row, line, at = ARGV[i * 6 - 4], KEYS[i * 2 + 1], KEYS[i * 2 + 2], i * 6 - 4
  -- P8: the same event once, however often and by however many it is brought
  if redis.call('EXISTS', row) == 1 then
    answers[i] = 0
  else
    redis.call('HSET', row, 'source', ARGV[at + 1], 'event_id', ARGV[at + 2], 'body', ARGV[at + 4], 'headers', ARGV[at + 5],
      'status', 'received', 'received_at', moment)
    -- events that come together keep their order, and none comes before one that is in its line already
    local when = tonumber(moment) - (events - i) * 0.000001
    local first = member
    if ARGV[at + 3] == '' then
      redis.call('HSET', KEYS[2], member, '')
    else
      redis.call('HSET', row, 'ordering_key', ARGV[at + 3])
      redis.call('HSET', KEYS[2], member, line)
      local last = redis.call('ZRANGE', line, -1, -1, 'WITHSCORES')[2]
      if last then when = math.max(when, tonumber(last) + 0.000001) end
      redis.call('ZADD', line, 'NX', string.format('%.6f', when), member)
      first = redis.call('ZRANGE', line, 0, 0)[1]
    end
    if first == member then redis.call('ZADD', KEYS[1], 'NX', string.format('%.6f', when), member) end
    answers[i] = 1
  end
end
redis.call('PUBLISH', KEYS[1], '')
return answers
