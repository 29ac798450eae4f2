-- Leases on Redis and Valkey: one hash for each, one run of this script for one decision about it.
--
-- KEYS  1 the lease
-- ARGV  what the caller gives, each by its name: by, lease in seconds, epoch, given_now (in seconds, instead of the server's
--       clock)
-- returns {1 if won (2 by the first holder that there is), holder or '', epoch, until or ''}

-- for: all
local time = redis.call('TIME') -- if: not given_now
local moment = string.format('%s.%06d', time[1], time[2]) -- if: not given_now
local moment = given_now -- if: given_now
local now = tonumber(moment)
local found = redis.call('HMGET', KEYS[1], 'holder', 'epoch', 'until')
local holder, led, ends = found[1], found[2], found[3]
-- P13: a lease that ends more than twice its length from now was taken before the clock was set back; a longer one than this
-- caller's ends far ahead too, but its epoch is no later than the clock
local ahead = ends and tonumber(ends) > now + 2 * lease and (tonumber(led) or 0) > now * 1000000
local held = ends and tonumber(ends) > now and not ahead

-- for: acquire
if not held then
  local won, clock = led and 1 or 2, string.format('%.0f', math.floor(now * 1000000))
  -- P10: grows with every change of holder
  led = grown(led, now)
  -- only a lease that was never held begins with the clock itself
  if won == 1 and led == clock then led = one_more(led) end
  ends = string.format('%.6f', now + lease)
  redis.call('HSET', KEYS[1], 'holder', by, 'epoch', led, 'since', moment, 'until', ends)
  return {won, by, led, ends}
end
-- for: renew
-- P10: only the holder, and only in its own epoch
if ends and holder == by and led == epoch then
  ends = string.format('%.6f', now + lease)
  redis.call('HSET', KEYS[1], 'until', ends)
  return {1, by, led, ends}
end
-- for: release
-- P10: as above
if holder == by and led == epoch then
  redis.call('HDEL', KEYS[1], 'until')
  return {1, '', led, ends or ''}
end
-- for: all
return {0, held and holder or '', led or '0', ends or ''}
