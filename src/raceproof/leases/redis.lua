-- Leases on Redis and Valkey: one hash for each, one run of a script for one decision about it.
--
-- KEYS  1 the lease
-- ARGV  what the caller gives, each by its name: by, lease in seconds, epoch, given_now (in seconds, instead of the server's
--       clock)
-- returns {1 if won (2 for the first holder ever), holder or '', epoch, until or ''}

local moment = given_now or clock()
local now = tonumber(moment)

-- The lease as it is: holder, epoch, when it ends, and whether it is held now.
local function read()
  local found = redis.call('HMGET', KEYS[1], 'holder', 'epoch', 'until')
  local ends = found[3] and tonumber(found[3])
  -- P13: a lease that ends more than twice its length from now was taken before the clock was set back; a longer one than
  -- this caller's ends far ahead too, but its epoch is no later than the clock
  local ahead = ends and ends > now + 2 * lease and (tonumber(found[2]) or 0) > now * 1000000
  return found[1], found[2], found[3], ends and ends > now and not ahead
end

local function look()
  local holder, current, ends, held = read()
  return {0, held and holder or '', current or '0', ends or ''}
end

local function acquire()
  local _, last, _, held = read()
  if held then return look() end
  local won, started = last and 1 or 2, string.format('%.0f', math.floor(now * 1000000))
  -- P10: grows with every change of holder
  local next_epoch = grown(last, now)
  -- only a lease that was never held starts with the clock itself
  if won == 1 and next_epoch == started then next_epoch = one_more(next_epoch) end
  local ends = string.format('%.6f', now + lease)
  redis.call('HSET', KEYS[1], 'holder', by, 'epoch', next_epoch, 'since', moment, 'until', ends)
  return {won, by, next_epoch, ends}
end

local function renew()
  local holder, current, ends = read()
  -- P10: only the holder, and only in its own epoch
  if not ends or holder ~= by or current ~= epoch then return look() end
  ends = string.format('%.6f', now + lease)
  redis.call('HSET', KEYS[1], 'until', ends)
  return {1, by, current, ends}
end

local function release()
  local holder, current, ends = read()
  -- P10: as above
  if holder ~= by or current ~= epoch then return look() end
  redis.call('HDEL', KEYS[1], 'until')
  return {1, '', current, ends or ''}
end
