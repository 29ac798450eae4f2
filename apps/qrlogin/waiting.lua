-- The attempts that ingest should look at now, the longest waiting first.
-- KEYS 1 the index · ARGV 1 how many at most · 2 the time to live of the index
local time = redis.call('TIME')
local now = string.format('%.6f', time[1] + time[2] / 1000000)
redis.call('EXPIRE', KEYS[1], ARGV[2])
return redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, ARGV[1])
