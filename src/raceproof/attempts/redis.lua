-- Attempts on Redis and Valkey: one run of a script is one decision about one owner. The row that the pointer names is not in
-- KEYS, unless this is a cluster: there the caller reads the pointer first, and has to read it again if it has changed.
--
-- These names are constants of the declaration and of the call:
--   lifecycle, open as {[status] = true}, initial, first_revision, supersede, superseded, revision_column, ttl; in
--   milliseconds open_ttl, ended_ttl, kept_ttl; old_row, old_history: the attempt that is `pointed` to
--   looked_at: status and start of an attempt, and its claims · new_fields, ended_fields: the fields to write and their
--   values in turn · ended_columns, ended_markers, ended_fences: what ends the claim of a superseded attempt
-- KEYS  1 the owner's pointer to its active attempt · 2 the set of its attempts · 3 the row of the new attempt · 4 its history
--       on a cluster: 5 the row that the pointer named, or the row 3 · 6 its history
-- ARGV  what the caller gives, each by its name: key: that of the new attempt, by, given_now (in seconds, instead of the
--       server's clock), given_pointer: what the pointer was, '' for nothing, on a cluster only; and the columns of the new row
-- returns the key of the attempt that the new one has superseded, or ''; or, if none was started, {word, …}: 'replayed' ·
--         'active' status and key · 'rejected' status, and the key of the open one (not if the key is another's) · 'again'

local pointer, row, stream = KEYS[1], KEYS[3], KEYS[4]
local moment = given_now or clock()
local now = tonumber(moment)

-- Whether an attempt that started then still has time left.
local function fresh(started)
  if ttl then
    started = tonumber(started)
    return not started or started + ttl > now
  end
  return true
end

local function note(at, move, outcome, before, after, revision)
  redis.call('XADD', at, '*', 'lifecycle', lifecycle, 'move', move, 'outcome', outcome, 'before', before,
    'after', after, 'revision', revision, 'actor', by, 'reason', '', 'call', '', 'at', moment)
end

-- The answer if the row of the new attempt is there already.
local function already(found, pointed)
  if pointed == key and open[found[1]] and fresh(found[2]) then return {'replayed'} end
  -- P9: an attempt that has ended is never started again, nor taken from another owner
  return {'rejected', found[1]}
end

-- Ends the open attempt, which the new one supersedes, with the claim on it.
local function end_attempt(old, old_stream, found)
  local revision = ''
  if history then redis.call('XLEN', old_stream) end
  if revision_column then revision = redis.call('HINCRBY', old, revision_column, 1) end
  redis.call('HSET', old, ended_fields)
  if ends_claims then end_claims(old, found) end
  if history then note(old_stream, supersede, 'moved', found[1], superseded, revision) end
  if expires then
    redis.call('PEXPIRE', old, ended_ttl)
    redis.call('PEXPIRE', old_stream, ended_ttl)
  end
end

-- Writes the new attempt and points to it.
local function begin()
  redis.call('HSET', row, new_fields)
  redis.call('SET', pointer, key)
  redis.call('ZADD', KEYS[2], moment, key)
  if history then note(stream, 'attempt', 'started', '', initial, first_revision) end
  if expires then
    -- every key has an end: an open attempt after its time, an ended one somewhat later
    redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', '(' .. (now - kept_ttl / 1000))
    redis.call('PEXPIRE', row, open_ttl)
    redis.call('PEXPIRE', stream, open_ttl)
    redis.call('PEXPIRE', pointer, open_ttl)
    redis.call('PEXPIRE', KEYS[2], kept_ttl)
  end
end

local function start()
  local pointed = redis.call('GET', pointer) or ''
  if cluster then
    if pointed ~= given_pointer then return {'again'} end
  end
  local found = redis.call('HMGET', row, looked_at)
  if found[1] then return already(found, pointed) end
  local old, old_stream = old_row, old_history
  found = pointed ~= '' and redis.call('HMGET', old, looked_at) or {}
  local is_open = found[1] and open[found[1]]
  if respects_open then
    if is_open and fresh(found[2]) then return {when_open, found[1], pointed} end
  end
  -- what can fail comes first, for a script that fails half-way is not undone: keys of another type, a revision that is
  -- not a number
  if history then redis.call('XLEN', stream) end
  redis.call('ZCARD', KEYS[2])
  -- P9: a new attempt ends an open one, and never one that has ended
  if is_open then end_attempt(old, old_stream, found) end
  begin()
  return is_open and pointed or ''
end
