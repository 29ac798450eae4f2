-- Attempts on Redis and Valkey: one run of this script is one decision about one owner. Every key that it touches is in KEYS:
-- the caller reads the pointer first, and is told to read it again if it has changed since.
--
-- KEYS  1 the owner's pointer to its active attempt · 2 the set of its attempts · 3 the row of the new attempt · 4 its history
--       5 the row that the pointer named, or the row 3 · 6 its history
-- ARGV  1 the attempts as JSON · 2 the time to use in seconds, '' for the server's · 3 supersede, keep or reject
--       4 what the pointer was, '' for nothing · 5 the new key · 6 the columns of the new row as JSON · 7 by · 8 the owner
-- returns {word, …}: 'started' key of the ended one or '' · 'replayed' · 'kept' status · 'rejected' status ('' if the key is
-- another's) · 'again'

local attempts = cjson.decode(ARGV[1])
local pointer, owned, row, stream, old, old_stream = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local moment, when_open, pointed, key, by = ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[7]
if moment == '' then
  local time = redis.call('TIME')
  moment = string.format('%s.%06d', time[1], tonumber(time[2]))
end
local now = tonumber(moment)

local function is_open(status)
  for _, one in ipairs(attempts.open) do
    if one == status then return true end
  end
  return false
end

local function fresh(at)
  local began = attempts.started and tonumber(redis.call('HGET', at, attempts.started) or nil)
  return not attempts.ttl or not began or began + attempts.ttl > now
end

-- Every key has an end: an open attempt after its time, an ended one somewhat later.
local function expire(at, seconds)
  if seconds then redis.call('PEXPIRE', at, math.ceil(seconds * 1000)) end
end

local function note(at, move, outcome, before, after, revision)
  if not attempts.history then return end
  redis.call('XADD', at, '*', 'lifecycle', attempts.lifecycle, 'move', move, 'outcome', outcome, 'before', before,
    'after', after, 'revision', revision, 'actor', by, 'reason', '', 'call', '', 'at', moment)
end

if (redis.call('GET', pointer) or '') ~= pointed then return {'again'} end

local status = redis.call('HGET', row, attempts.column)
if status then
  if pointed == key and is_open(status) and fresh(row) then return {'replayed'} end
  -- P9: an attempt that has ended is never begun anew, nor taken from another owner
  return {'rejected', status}
end

local ended = ''
if pointed ~= '' then
  local before = redis.call('HGET', old, attempts.column)
  if before and is_open(before) then
    if fresh(old) and when_open == 'keep' then return {'kept', before} end
    if fresh(old) and when_open == 'reject' then return {'rejected', before, pointed} end
    -- P9: a new attempt ends an open one, and never one that has ended
    redis.call('HSET', old, attempts.column, attempts.superseded)
    for _, stamp in ipairs(attempts.stamp) do redis.call('HSET', old, stamp, moment) end
    if attempts.link then redis.call('HSET', old, attempts.link, key) end
    local revision = attempts.revision and redis.call('HINCRBY', old, attempts.revision, 1) or ''
    note(old_stream, attempts.supersede, 'moved', before, attempts.superseded, revision)
    expire(old, attempts.ended_ttl)
    expire(old_stream, attempts.ended_ttl)
    ended = pointed
  end
end

local fields = cjson.decode(ARGV[6])
for name, value in pairs(fields) do redis.call('HSET', row, name, value) end
redis.call('HSET', row, attempts.owner, ARGV[8], attempts.column, attempts.initial)
if attempts.revision then redis.call('HSET', row, attempts.revision, '0') end
if attempts.started then redis.call('HSET', row, attempts.started, moment) end
redis.call('SET', pointer, key)
redis.call('ZADD', owned, moment, key)
if attempts.kept_ttl then redis.call('ZREMRANGEBYSCORE', owned, '-inf', '(' .. (now - attempts.kept_ttl)) end
note(stream, 'attempt', 'started', '', attempts.initial, attempts.revision and '0' or '')
expire(row, attempts.open_ttl)
expire(stream, attempts.open_ttl)
expire(pointer, attempts.open_ttl)
expire(owned, attempts.kept_ttl)
return {'started', ended}
