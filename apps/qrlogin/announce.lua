-- Lets ingest find attempts: puts them into the index by the time from which ingest should look at them.
-- KEYS 1 the index · ARGV 1 seconds from now · 2 the time to live of the index · then attempts
local time = redis.call('TIME')
local at = string.format('%.6f', time[1] + time[2] / 1000000 + ARGV[1])
for i = 3, #ARGV do redis.call('ZADD', KEYS[1], at, ARGV[i]) end
redis.call('EXPIRE', KEYS[1], ARGV[2])
return #ARGV - 2
