-- start: attempt.start
-- attempt.start
-- given_now = ARGV[2]
-- key = ARGV[1]
-- new_fields = 'device', ARGV[3], 'login_id', ARGV[4], 'user_id', ARGV[5], 'status', 'pending', 'started_at', moment
-- ended_fields = 'status', 'superseded', 'superseded_at', moment, 'superseded_by', ARGV[1]
-- looked_at = 'status', 'started_at'
local open = {['pending'] = true, ['scanned'] = true}
-- ttl = 900
-- old_row = 'logins:' .. pointed
-- old_history = 'logins/history:' .. pointed

local pointer, row, stream = KEYS[1], KEYS[3], KEYS[4]

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local moment = ARGV[2] or clock()

local now = tonumber(moment)

-- Whether an attempt that started then still has time left.
local function fresh(started)
  if 900 then
    started = tonumber(started)
    return not started or started + 900 > now
  end
  return true
end

-- The answer if the row of the new attempt is there already.
local function already(found, pointed)
  if pointed == ARGV[1] and open[found[1]] and fresh(found[2]) then return {'replayed'} end
  -- P9: an attempt that has ended is never started again, nor taken from another owner
  return {'rejected', found[1]}
end

-- Ends the open attempt, which the new one supersedes, with the claim on it.
local function end_attempt(old, old_stream, found)
  local revision = ''
  redis.call('HSET', old, 'status', 'superseded', 'superseded_at', moment, 'superseded_by', ARGV[1])
end

-- Writes the new attempt and points to it.
local function begin()
  redis.call('HSET', row, 'device', ARGV[3], 'login_id', ARGV[4], 'user_id', ARGV[5], 'status', 'pending', 'started_at', moment)
  redis.call('SET', pointer, ARGV[1])
  redis.call('ZADD', KEYS[2], moment, ARGV[1])
end

local function start()
  local pointed = redis.call('GET', pointer) or ''
  local found = redis.call('HMGET', row, 'status', 'started_at')
  if found[1] then return already(found, pointed) end
  local old, old_stream = 'logins:' .. pointed, 'logins/history:' .. pointed
  found = pointed ~= '' and redis.call('HMGET', old, 'status', 'started_at') or {}
  local is_open = found[1] and open[found[1]]
  redis.call('ZCARD', KEYS[2])
  -- P9: a new attempt ends an open one, and never one that has ended
  if is_open then end_attempt(old, old_stream, found) end
  begin()
  return is_open and pointed or ''
end

return start()

-- start, superseding: attempt.start
-- attempt.start
-- given_now = ARGV[2]
-- key = ARGV[1]
-- new_fields = 'login_id', ARGV[3], 'user_id', ARGV[4], 'status', 'pending', 'started_at', moment
-- ended_fields = 'status', 'superseded', 'superseded_at', moment, 'superseded_by', ARGV[1]
-- looked_at = 'status', 'started_at'
local open = {['pending'] = true, ['scanned'] = true}
-- ttl = 900
-- old_row = 'logins:' .. pointed
-- old_history = 'logins/history:' .. pointed

local pointer, row, stream = KEYS[1], KEYS[3], KEYS[4]

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local moment = ARGV[2] or clock()

local now = tonumber(moment)

-- Whether an attempt that started then still has time left.
local function fresh(started)
  if 900 then
    started = tonumber(started)
    return not started or started + 900 > now
  end
  return true
end

-- The answer if the row of the new attempt is there already.
local function already(found, pointed)
  if pointed == ARGV[1] and open[found[1]] and fresh(found[2]) then return {'replayed'} end
  -- P9: an attempt that has ended is never started again, nor taken from another owner
  return {'rejected', found[1]}
end

-- Ends the open attempt, which the new one supersedes, with the claim on it.
local function end_attempt(old, old_stream, found)
  local revision = ''
  redis.call('HSET', old, 'status', 'superseded', 'superseded_at', moment, 'superseded_by', ARGV[1])
end

-- Writes the new attempt and points to it.
local function begin()
  redis.call('HSET', row, 'login_id', ARGV[3], 'user_id', ARGV[4], 'status', 'pending', 'started_at', moment)
  redis.call('SET', pointer, ARGV[1])
  redis.call('ZADD', KEYS[2], moment, ARGV[1])
end

local function start()
  local pointed = redis.call('GET', pointer) or ''
  local found = redis.call('HMGET', row, 'status', 'started_at')
  if found[1] then return already(found, pointed) end
  local old, old_stream = 'logins:' .. pointed, 'logins/history:' .. pointed
  found = pointed ~= '' and redis.call('HMGET', old, 'status', 'started_at') or {}
  local is_open = found[1] and open[found[1]]
  redis.call('ZCARD', KEYS[2])
  -- P9: a new attempt ends an open one, and never one that has ended
  if is_open then end_attempt(old, old_stream, found) end
  begin()
  return is_open and pointed or ''
end

return start()

-- start by the store's clock: attempt.start
-- attempt.start
-- given_now = false
-- key = ARGV[1]
-- new_fields = 'login_id', ARGV[2], 'user_id', ARGV[3], 'status', 'pending', 'started_at', moment
-- ended_fields = 'status', 'superseded', 'superseded_at', moment, 'superseded_by', ARGV[1]
-- looked_at = 'status', 'started_at'
local open = {['pending'] = true, ['scanned'] = true}
-- ttl = 900
-- old_row = 'logins:' .. pointed
-- old_history = 'logins/history:' .. pointed

local pointer, row, stream = KEYS[1], KEYS[3], KEYS[4]

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local moment = false or clock()

local now = tonumber(moment)

-- Whether an attempt that started then still has time left.
local function fresh(started)
  if 900 then
    started = tonumber(started)
    return not started or started + 900 > now
  end
  return true
end

-- The answer if the row of the new attempt is there already.
local function already(found, pointed)
  if pointed == ARGV[1] and open[found[1]] and fresh(found[2]) then return {'replayed'} end
  -- P9: an attempt that has ended is never started again, nor taken from another owner
  return {'rejected', found[1]}
end

-- Ends the open attempt, which the new one supersedes, with the claim on it.
local function end_attempt(old, old_stream, found)
  local revision = ''
  redis.call('HSET', old, 'status', 'superseded', 'superseded_at', moment, 'superseded_by', ARGV[1])
end

-- Writes the new attempt and points to it.
local function begin()
  redis.call('HSET', row, 'login_id', ARGV[2], 'user_id', ARGV[3], 'status', 'pending', 'started_at', moment)
  redis.call('SET', pointer, ARGV[1])
  redis.call('ZADD', KEYS[2], moment, ARGV[1])
end

local function start()
  local pointed = redis.call('GET', pointer) or ''
  local found = redis.call('HMGET', row, 'status', 'started_at')
  if found[1] then return already(found, pointed) end
  local old, old_stream = 'logins:' .. pointed, 'logins/history:' .. pointed
  found = pointed ~= '' and redis.call('HMGET', old, 'status', 'started_at') or {}
  local is_open = found[1] and open[found[1]]
  redis.call('ZCARD', KEYS[2])
  -- P9: a new attempt ends an open one, and never one that has ended
  if is_open then end_attempt(old, old_stream, found) end
  begin()
  return is_open and pointed or ''
end

return start()

-- start, keeping: attempt.start
-- attempt.start
-- given_now = ARGV[2]
-- key = ARGV[1]
-- new_fields = 'login_id', ARGV[3], 'user_id', ARGV[4], 'status', 'pending', 'started_at', moment
-- ended_fields = 'status', 'superseded', 'superseded_at', moment, 'superseded_by', ARGV[1]
-- looked_at = 'status', 'started_at'
local open = {['pending'] = true, ['scanned'] = true}
-- when_open = 'active'
-- ttl = 900
-- old_row = 'logins:' .. pointed
-- old_history = 'logins/history:' .. pointed

local pointer, row, stream = KEYS[1], KEYS[3], KEYS[4]

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local moment = ARGV[2] or clock()

local now = tonumber(moment)

-- Whether an attempt that started then still has time left.
local function fresh(started)
  if 900 then
    started = tonumber(started)
    return not started or started + 900 > now
  end
  return true
end

-- The answer if the row of the new attempt is there already.
local function already(found, pointed)
  if pointed == ARGV[1] and open[found[1]] and fresh(found[2]) then return {'replayed'} end
  -- P9: an attempt that has ended is never started again, nor taken from another owner
  return {'rejected', found[1]}
end

-- Ends the open attempt, which the new one supersedes, with the claim on it.
local function end_attempt(old, old_stream, found)
  local revision = ''
  redis.call('HSET', old, 'status', 'superseded', 'superseded_at', moment, 'superseded_by', ARGV[1])
end

-- Writes the new attempt and points to it.
local function begin()
  redis.call('HSET', row, 'login_id', ARGV[3], 'user_id', ARGV[4], 'status', 'pending', 'started_at', moment)
  redis.call('SET', pointer, ARGV[1])
  redis.call('ZADD', KEYS[2], moment, ARGV[1])
end

local function start()
  local pointed = redis.call('GET', pointer) or ''
  local found = redis.call('HMGET', row, 'status', 'started_at')
  if found[1] then return already(found, pointed) end
  local old, old_stream = 'logins:' .. pointed, 'logins/history:' .. pointed
  found = pointed ~= '' and redis.call('HMGET', old, 'status', 'started_at') or {}
  local is_open = found[1] and open[found[1]]
  if is_open and fresh(found[2]) then return {'active', found[1], pointed} end
  redis.call('ZCARD', KEYS[2])
  -- P9: a new attempt ends an open one, and never one that has ended
  if is_open then end_attempt(old, old_stream, found) end
  begin()
  return is_open and pointed or ''
end

return start()

-- start, rejecting: attempt.start
-- attempt.start
-- given_now = ARGV[2]
-- key = ARGV[1]
-- new_fields = 'login_id', ARGV[3], 'user_id', ARGV[4], 'status', 'pending', 'started_at', moment
-- ended_fields = 'status', 'superseded', 'superseded_at', moment, 'superseded_by', ARGV[1]
-- looked_at = 'status', 'started_at'
local open = {['pending'] = true, ['scanned'] = true}
-- when_open = 'rejected'
-- ttl = 900
-- old_row = 'logins:' .. pointed
-- old_history = 'logins/history:' .. pointed

local pointer, row, stream = KEYS[1], KEYS[3], KEYS[4]

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local moment = ARGV[2] or clock()

local now = tonumber(moment)

-- Whether an attempt that started then still has time left.
local function fresh(started)
  if 900 then
    started = tonumber(started)
    return not started or started + 900 > now
  end
  return true
end

-- The answer if the row of the new attempt is there already.
local function already(found, pointed)
  if pointed == ARGV[1] and open[found[1]] and fresh(found[2]) then return {'replayed'} end
  -- P9: an attempt that has ended is never started again, nor taken from another owner
  return {'rejected', found[1]}
end

-- Ends the open attempt, which the new one supersedes, with the claim on it.
local function end_attempt(old, old_stream, found)
  local revision = ''
  redis.call('HSET', old, 'status', 'superseded', 'superseded_at', moment, 'superseded_by', ARGV[1])
end

-- Writes the new attempt and points to it.
local function begin()
  redis.call('HSET', row, 'login_id', ARGV[3], 'user_id', ARGV[4], 'status', 'pending', 'started_at', moment)
  redis.call('SET', pointer, ARGV[1])
  redis.call('ZADD', KEYS[2], moment, ARGV[1])
end

local function start()
  local pointed = redis.call('GET', pointer) or ''
  local found = redis.call('HMGET', row, 'status', 'started_at')
  if found[1] then return already(found, pointed) end
  local old, old_stream = 'logins:' .. pointed, 'logins/history:' .. pointed
  found = pointed ~= '' and redis.call('HMGET', old, 'status', 'started_at') or {}
  local is_open = found[1] and open[found[1]]
  if is_open and fresh(found[2]) then return {'rejected', found[1], pointed} end
  redis.call('ZCARD', KEYS[2])
  -- P9: a new attempt ends an open one, and never one that has ended
  if is_open then end_attempt(old, old_stream, found) end
  begin()
  return is_open and pointed or ''
end

return start()

-- current attempt: attempt.pointer, read, time, attempt.pointer
-- attempt.pointer
GET

-- read
HGETALL

-- time
TIME

-- current attempt at a given time: attempt.pointer, read, time
