-- start: attempt.start
-- attempt.start
-- key = ARGV[1]
-- given_now = ARGV[2]
-- new_fields = 'device', ARGV[3], 'login_id', ARGV[4], 'user_id', ARGV[5], 'status', 'pending', 'started_at', moment
-- ended_fields = 'status', 'superseded', 'superseded_at', moment, 'superseded_by', ARGV[1]
-- looked_at = 'status', 'started_at'
local open = {['pending'] = true, ['scanned'] = true}
-- ttl = 900
-- row_prefix = 'logins:'
-- stream_prefix = 'logins/history:'

local pointer, row, stream = KEYS[1], KEYS[3], KEYS[4]
local moment = ARGV[2]
local now = tonumber(moment)

local function fresh(began)
  began = tonumber(began)
  return not began or began + 900 > now
end

local pointed = redis.call('GET', pointer) or ''
local old, old_stream = 'logins:' .. pointed, 'logins/history:' .. pointed

local found = redis.call('HMGET', row, 'status', 'started_at')
local status = found[1]
if status then
  local again = pointed == ARGV[1] and open[status]
  again = again and fresh(found[2])
  if again then return {'replayed'} end
  -- P9: an attempt that has ended is never begun anew, nor taken from another owner
  return {'rejected', status}
end

local ended, before = '', false
if pointed ~= '' then
  found = redis.call('HMGET', old, 'status', 'started_at')
  before = found[1]
end
if before and open[before] then
  ended = pointed
end

-- what can fail comes first, for a script that fails half-way is not undone: keys of another type, a revision that is no number
redis.call('ZCARD', KEYS[2])
if ended ~= '' then
  local revision = ''
  -- P9: a new attempt ends an open one, and never one that has ended
  redis.call('HSET', old, 'status', 'superseded', 'superseded_at', moment, 'superseded_by', ARGV[1])
  -- the claim of a process that holds it ends too; P4: its fence fits no more
end

redis.call('HSET', row, 'device', ARGV[3], 'login_id', ARGV[4], 'user_id', ARGV[5], 'status', 'pending', 'started_at', moment)
redis.call('SET', pointer, ARGV[1])
redis.call('ZADD', KEYS[2], moment, ARGV[1])
-- every key has an end: an open attempt after its time, an ended one somewhat later
return ended

-- start, superseding: attempt.start
-- attempt.start
-- key = ARGV[1]
-- given_now = ARGV[2]
-- new_fields = 'login_id', ARGV[3], 'user_id', ARGV[4], 'status', 'pending', 'started_at', moment
-- ended_fields = 'status', 'superseded', 'superseded_at', moment, 'superseded_by', ARGV[1]
-- looked_at = 'status', 'started_at'
local open = {['pending'] = true, ['scanned'] = true}
-- ttl = 900
-- row_prefix = 'logins:'
-- stream_prefix = 'logins/history:'

local pointer, row, stream = KEYS[1], KEYS[3], KEYS[4]
local moment = ARGV[2]
local now = tonumber(moment)

local function fresh(began)
  began = tonumber(began)
  return not began or began + 900 > now
end

local pointed = redis.call('GET', pointer) or ''
local old, old_stream = 'logins:' .. pointed, 'logins/history:' .. pointed

local found = redis.call('HMGET', row, 'status', 'started_at')
local status = found[1]
if status then
  local again = pointed == ARGV[1] and open[status]
  again = again and fresh(found[2])
  if again then return {'replayed'} end
  -- P9: an attempt that has ended is never begun anew, nor taken from another owner
  return {'rejected', status}
end

local ended, before = '', false
if pointed ~= '' then
  found = redis.call('HMGET', old, 'status', 'started_at')
  before = found[1]
end
if before and open[before] then
  ended = pointed
end

-- what can fail comes first, for a script that fails half-way is not undone: keys of another type, a revision that is no number
redis.call('ZCARD', KEYS[2])
if ended ~= '' then
  local revision = ''
  -- P9: a new attempt ends an open one, and never one that has ended
  redis.call('HSET', old, 'status', 'superseded', 'superseded_at', moment, 'superseded_by', ARGV[1])
  -- the claim of a process that holds it ends too; P4: its fence fits no more
end

redis.call('HSET', row, 'login_id', ARGV[3], 'user_id', ARGV[4], 'status', 'pending', 'started_at', moment)
redis.call('SET', pointer, ARGV[1])
redis.call('ZADD', KEYS[2], moment, ARGV[1])
-- every key has an end: an open attempt after its time, an ended one somewhat later
return ended

-- start by the store's clock: attempt.start
-- attempt.start
-- key = ARGV[1]
-- new_fields = 'login_id', ARGV[2], 'user_id', ARGV[3], 'status', 'pending', 'started_at', moment
-- ended_fields = 'status', 'superseded', 'superseded_at', moment, 'superseded_by', ARGV[1]
-- looked_at = 'status', 'started_at'
local open = {['pending'] = true, ['scanned'] = true}
-- ttl = 900
-- row_prefix = 'logins:'
-- stream_prefix = 'logins/history:'

local pointer, row, stream = KEYS[1], KEYS[3], KEYS[4]
local time = redis.call('TIME')
local moment = string.format('%s.%06d', time[1], time[2])
local now = tonumber(moment)

local function fresh(began)
  began = tonumber(began)
  return not began or began + 900 > now
end

local pointed = redis.call('GET', pointer) or ''
local old, old_stream = 'logins:' .. pointed, 'logins/history:' .. pointed

local found = redis.call('HMGET', row, 'status', 'started_at')
local status = found[1]
if status then
  local again = pointed == ARGV[1] and open[status]
  again = again and fresh(found[2])
  if again then return {'replayed'} end
  -- P9: an attempt that has ended is never begun anew, nor taken from another owner
  return {'rejected', status}
end

local ended, before = '', false
if pointed ~= '' then
  found = redis.call('HMGET', old, 'status', 'started_at')
  before = found[1]
end
if before and open[before] then
  ended = pointed
end

-- what can fail comes first, for a script that fails half-way is not undone: keys of another type, a revision that is no number
redis.call('ZCARD', KEYS[2])
if ended ~= '' then
  local revision = ''
  -- P9: a new attempt ends an open one, and never one that has ended
  redis.call('HSET', old, 'status', 'superseded', 'superseded_at', moment, 'superseded_by', ARGV[1])
  -- the claim of a process that holds it ends too; P4: its fence fits no more
end

redis.call('HSET', row, 'login_id', ARGV[2], 'user_id', ARGV[3], 'status', 'pending', 'started_at', moment)
redis.call('SET', pointer, ARGV[1])
redis.call('ZADD', KEYS[2], moment, ARGV[1])
-- every key has an end: an open attempt after its time, an ended one somewhat later
return ended

-- start, keeping: attempt.start
-- attempt.start
-- key = ARGV[1]
-- given_now = ARGV[2]
-- new_fields = 'login_id', ARGV[3], 'user_id', ARGV[4], 'status', 'pending', 'started_at', moment
-- ended_fields = 'status', 'superseded', 'superseded_at', moment, 'superseded_by', ARGV[1]
-- looked_at = 'status', 'started_at'
local open = {['pending'] = true, ['scanned'] = true}
-- word_of_open = 'kept'
-- ttl = 900
-- row_prefix = 'logins:'
-- stream_prefix = 'logins/history:'

local pointer, row, stream = KEYS[1], KEYS[3], KEYS[4]
local moment = ARGV[2]
local now = tonumber(moment)

local function fresh(began)
  began = tonumber(began)
  return not began or began + 900 > now
end

local pointed = redis.call('GET', pointer) or ''
local old, old_stream = 'logins:' .. pointed, 'logins/history:' .. pointed

local found = redis.call('HMGET', row, 'status', 'started_at')
local status = found[1]
if status then
  local again = pointed == ARGV[1] and open[status]
  again = again and fresh(found[2])
  if again then return {'replayed'} end
  -- P9: an attempt that has ended is never begun anew, nor taken from another owner
  return {'rejected', status}
end

local ended, before = '', false
if pointed ~= '' then
  found = redis.call('HMGET', old, 'status', 'started_at')
  before = found[1]
end
if before and open[before] then
  if fresh(found[2]) then return {'kept', before, pointed} end
  ended = pointed
end

-- what can fail comes first, for a script that fails half-way is not undone: keys of another type, a revision that is no number
redis.call('ZCARD', KEYS[2])
if ended ~= '' then
  local revision = ''
  -- P9: a new attempt ends an open one, and never one that has ended
  redis.call('HSET', old, 'status', 'superseded', 'superseded_at', moment, 'superseded_by', ARGV[1])
  -- the claim of a process that holds it ends too; P4: its fence fits no more
end

redis.call('HSET', row, 'login_id', ARGV[3], 'user_id', ARGV[4], 'status', 'pending', 'started_at', moment)
redis.call('SET', pointer, ARGV[1])
redis.call('ZADD', KEYS[2], moment, ARGV[1])
-- every key has an end: an open attempt after its time, an ended one somewhat later
return ended

-- start, rejecting: attempt.start
-- attempt.start
-- key = ARGV[1]
-- given_now = ARGV[2]
-- new_fields = 'login_id', ARGV[3], 'user_id', ARGV[4], 'status', 'pending', 'started_at', moment
-- ended_fields = 'status', 'superseded', 'superseded_at', moment, 'superseded_by', ARGV[1]
-- looked_at = 'status', 'started_at'
local open = {['pending'] = true, ['scanned'] = true}
-- word_of_open = 'rejected'
-- ttl = 900
-- row_prefix = 'logins:'
-- stream_prefix = 'logins/history:'

local pointer, row, stream = KEYS[1], KEYS[3], KEYS[4]
local moment = ARGV[2]
local now = tonumber(moment)

local function fresh(began)
  began = tonumber(began)
  return not began or began + 900 > now
end

local pointed = redis.call('GET', pointer) or ''
local old, old_stream = 'logins:' .. pointed, 'logins/history:' .. pointed

local found = redis.call('HMGET', row, 'status', 'started_at')
local status = found[1]
if status then
  local again = pointed == ARGV[1] and open[status]
  again = again and fresh(found[2])
  if again then return {'replayed'} end
  -- P9: an attempt that has ended is never begun anew, nor taken from another owner
  return {'rejected', status}
end

local ended, before = '', false
if pointed ~= '' then
  found = redis.call('HMGET', old, 'status', 'started_at')
  before = found[1]
end
if before and open[before] then
  if fresh(found[2]) then return {'rejected', before, pointed} end
  ended = pointed
end

-- what can fail comes first, for a script that fails half-way is not undone: keys of another type, a revision that is no number
redis.call('ZCARD', KEYS[2])
if ended ~= '' then
  local revision = ''
  -- P9: a new attempt ends an open one, and never one that has ended
  redis.call('HSET', old, 'status', 'superseded', 'superseded_at', moment, 'superseded_by', ARGV[1])
  -- the claim of a process that holds it ends too; P4: its fence fits no more
end

redis.call('HSET', row, 'login_id', ARGV[3], 'user_id', ARGV[4], 'status', 'pending', 'started_at', moment)
redis.call('SET', pointer, ARGV[1])
redis.call('ZADD', KEYS[2], moment, ARGV[1])
-- every key has an end: an open attempt after its time, an ended one somewhat later
return ended

-- current attempt: attempt.pointer, read, time, attempt.pointer
-- attempt.pointer
GET

-- read
HGETALL

-- time
TIME

-- current attempt at a given time: attempt.pointer, read, time
