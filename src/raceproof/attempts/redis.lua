-- Attempts on Redis and Valkey: one run of this script is one decision about one owner. The row that the pointer names is
-- not in KEYS, unless this is a cluster: there the caller reads the pointer first, and is told to read it again if it has
-- changed since.
--
-- Each declaration has a script of its own: what stands below, and in it these words of the declaration and of the call.
--   lifecycle, open as {[status] = true}, initial, supersede, superseded, revision_column, ttl, and, in milliseconds,
--   open_ttl, ended_ttl, kept_ttl; row_prefix, stream_prefix
--   looked_at: status and start of an attempt, and its claims · new_fields, ended_fields: the fields to write and their
--   values in turn · ended_columns, ended_markers, ended_fences: what ends the claim of a superseded attempt
-- KEYS  1 the owner's pointer to its active attempt · 2 the set of its attempts · 3 the row of the new attempt · 4 its history
--       on a cluster: 5 the row that the pointer named, or the row 3 · 6 its history
-- ARGV  what the caller gives, each by its name: key: that of the new attempt, by, given_now (in seconds, instead of the
--       server's clock), given_pointer: what the pointer was, '' for nothing, on a cluster only; and the columns of the new row
-- returns the key of the attempt that the new one has ended, or ''; or, if none was begun, {word, …}: 'replayed' · 'kept' status
-- and key · 'rejected' status, and the key of the open one (not if the key is another's) · 'again'

-- for: all
local pointer, row, stream = KEYS[1], KEYS[3], KEYS[4]
local time = redis.call('TIME') -- if: not given_now
local moment = string.format('%s.%06d', time[1], time[2]) -- if: not given_now
local moment = given_now -- if: given_now
local now = tonumber(moment)

-- for: ttl
local function fresh(began)
  began = tonumber(began)
  return not began or began + ttl > now
end

-- for: history
local function note(at, move, outcome, before, after, revision)
  redis.call('XADD', at, '*', 'lifecycle', lifecycle, 'move', move, 'outcome', outcome, 'before', before,
    'after', after, 'revision', revision, 'actor', by, 'reason', '', 'call', '', 'at', moment)
end

-- for: all
local pointed = redis.call('GET', pointer) or ''
if pointed ~= given_pointer then return {'again'} end -- if: cluster
local old, old_stream = KEYS[5], KEYS[6] -- if: cluster
local old, old_stream = row_prefix .. pointed, stream_prefix .. pointed -- if: not cluster

local found = redis.call('HMGET', row, looked_at)
local status = found[1]
if status then
  local again = pointed == key and open[status]
  again = again and fresh(found[2]) -- if: ttl
  if again then return {'replayed'} end
  -- P9: an attempt that has ended is never begun anew, nor taken from another owner
  return {'rejected', status}
end

local ended, before = '', false
if pointed ~= '' then
  found = redis.call('HMGET', old, looked_at)
  before = found[1]
end
if before and open[before] then
  if fresh(found[2]) then return {word_of_open, before, pointed} end -- if: ttl not supersedes
  if true then return {word_of_open, before, pointed} end -- if: not ttl supersedes
  ended = pointed
end

-- what can fail comes first, for a script that fails half-way is not undone: keys of another type, a revision that is no number
redis.call('XLEN', stream) -- if: history
redis.call('ZCARD', KEYS[2])
if ended ~= '' then
  local revision = ''
  redis.call('XLEN', old_stream) -- if: history
  revision = redis.call('HINCRBY', old, revision_column, 1) -- if: revision
  -- P9: a new attempt ends an open one, and never one that has ended
  redis.call('HSET', old, ended_fields)
  -- the claim of a process that holds it ends too; P4: its fence fits no more
  redis.call('HDEL', old, ended_columns) -- if: ends_columns
  for name, prefix in pairs(ended_markers) do -- if: ends_marker
    local text = redis.call('HGET', old, name) -- if: ends_marker
    if text and string.sub(text, 1, #prefix) == prefix then redis.call('HDEL', old, name) end -- if: ends_marker
  end -- if: ends_marker
  redis.call('HSET', old, ended_fences) -- if: fences
  note(old_stream, supersede, 'moved', before, superseded, revision) -- if: history
  redis.call('PEXPIRE', old, ended_ttl) -- if: expires
  redis.call('PEXPIRE', old_stream, ended_ttl) -- if: expires
end

redis.call('HSET', row, new_fields)
redis.call('SET', pointer, key)
redis.call('ZADD', KEYS[2], moment, key)
note(stream, 'attempt', 'started', '', initial, first_revision) -- if: history
-- every key has an end: an open attempt after its time, an ended one somewhat later
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', '(' .. (now - kept_ttl / 1000)) -- if: expires
redis.call('PEXPIRE', row, open_ttl) -- if: expires
redis.call('PEXPIRE', stream, open_ttl) -- if: expires
redis.call('PEXPIRE', pointer, open_ttl) -- if: expires
redis.call('PEXPIRE', KEYS[2], kept_ttl) -- if: expires
return ended
