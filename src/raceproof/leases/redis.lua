-- Leases on Redis and Valkey: one hash for each, one run of this script for one decision about it.
--
-- KEYS  1 the lease
-- ARGV  1 acquire, renew, release or look · 2 by · 3 the lease in seconds · 4 the epoch · 5 the time in seconds, '' for the
--       server's
-- returns {won, holder or '', epoch, until or ''}

local action, by, lease, epoch, moment = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[5]
if moment == '' then
  local time = redis.call('TIME')
  moment = string.format('%s.%06d', time[1], tonumber(time[2]))
end
local now = tonumber(moment)
local found = redis.call('HMGET', KEYS[1], 'holder', 'epoch', 'until')
local ends = tonumber(found[3] or nil)
local held = ends and ends > now
local won = 0

if action == 'acquire' and not held then
  -- P10: grows with every change of holder, also where a lossy failover has forgotten the last ones
  found[2] = string.format('%.0f', math.max((tonumber(found[2] or nil) or 0) + 1, math.floor(now * 1000000)))
  found[1], held, won = by, true, 1
  redis.call('HSET', KEYS[1], 'holder', by, 'epoch', found[2], 'since', moment)
elseif (action == 'release' or (action == 'renew' and ends)) and found[1] == by and found[2] == epoch then
  -- P10: only the holder, and only in its own epoch
  won = 1
end
if won == 1 and action == 'release' then
  redis.call('HDEL', KEYS[1], 'until')
  held = false
elseif won == 1 then
  ends = now + lease
  held = true
  redis.call('HSET', KEYS[1], 'until', string.format('%.6f', ends))
end
return {won, held and found[1] or '', found[2] or '0', ends and string.format('%.6f', ends) or ''}
