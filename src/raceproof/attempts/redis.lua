-- Attempts on Redis and Valkey: one run of this script is one decision about one owner. The row that the pointer names is
-- not in KEYS, unless this is a cluster: there the caller reads the pointer first, and is told to read it again if it has
-- changed since.
--
-- Each declaration has a script of its own: these constants of it, and then what stands below.
--   lifecycle, column, revision_column, started_column, link_column ('' where there is none), history (whether there
--   is one), open as {[status] = true}, initial, supersede, superseded, stamps, ttl, and, in seconds, open_ttl,
--   ended_ttl, kept_ttl (false where there is none); cluster, row_prefix, stream_prefix
-- KEYS  1 the owner's pointer to its active attempt · 2 the set of its attempts · 3 the row of the new attempt · 4 its history
--       on a cluster: 5 the row that the pointer named, or the row 3 · 6 its history
-- ARGV  1 the time to use in seconds, '' for the server's · 2 supersede, keep or reject · 3 the new key · 4 by
--       5 what the pointer was, '' for nothing; on a cluster only · then the columns of the new row and their values in turn
-- returns {word, …}: 'started' key of the ended one or '' · 'replayed' · 'kept' status and key · 'rejected' status, and the
-- key of the open one (not if the key is another's) · 'again'

-- for: all
local pointer, owned, row, stream = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local moment, when_open, key, by = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
if moment == '' then
  local time = redis.call('TIME')
  moment = string.format('%s.%06d', time[1], tonumber(time[2]))
end
local now = tonumber(moment)

local function fresh(began)
  began = tonumber(began)
  return not ttl or not began or began + ttl > now
end

-- for: expires
-- Every key has an end: an open attempt after its time, an ended one somewhat later.
local function expire(at, seconds) redis.call('PEXPIRE', at, math.ceil(seconds * 1000)) end

-- for: history
local function note(at, move, outcome, before, after, revision)
  redis.call('XADD', at, '*', 'lifecycle', lifecycle, 'move', move, 'outcome', outcome, 'before', before,
    'after', after, 'revision', revision, 'actor', by, 'reason', '', 'call', '', 'at', moment)
end

-- for: all
local pointed = redis.call('GET', pointer) or ''
local old, old_stream = row_prefix .. pointed, stream_prefix .. pointed
if cluster then
  if pointed ~= ARGV[5] then return {'again'} end
  old, old_stream = KEYS[5], KEYS[6]
end

local found = redis.call('HMGET', row, column, started_column)
local status = found[1]
if status then
  if pointed == key and open[status] and fresh(found[2]) then return {'replayed'} end
  -- P9: an attempt that has ended is never begun anew, nor taken from another owner
  return {'rejected', status}
end

local ended = ''
if pointed ~= '' then
  found = redis.call('HMGET', old, column, started_column)
  local before = found[1]
  if before and open[before] then
    if when_open ~= 'supersede' and fresh(found[2]) then
      return {when_open == 'keep' and 'kept' or 'rejected', before, pointed}
    end
    -- P9: a new attempt ends an open one, and never one that has ended
    local fields = {column, superseded}
    for _, stamp in ipairs(stamps) do
      fields[#fields + 1] = stamp
      fields[#fields + 1] = moment
    end
    if link_column ~= '' then
      fields[#fields + 1] = link_column
      fields[#fields + 1] = key
    end
    redis.call('HSET', old, unpack(fields))
    local revision = revision_column ~= '' and redis.call('HINCRBY', old, revision_column, 1) or ''
    if history then note(old_stream, supersede, 'moved', before, superseded, revision) end
    if ended_ttl then
      expire(old, ended_ttl)
      expire(old_stream, ended_ttl)
    end
    ended = pointed
  end
end

local fields = {unpack(ARGV, 6)}
fields[#fields + 1] = column
fields[#fields + 1] = initial
if revision_column ~= '' then
  fields[#fields + 1] = revision_column
  fields[#fields + 1] = '0'
end
if started_column ~= '' then
  fields[#fields + 1] = started_column
  fields[#fields + 1] = moment
end
redis.call('HSET', row, unpack(fields))
redis.call('SET', pointer, key)
redis.call('ZADD', owned, moment, key)
if history then note(stream, 'attempt', 'started', '', initial, revision_column ~= '' and '0' or '') end
if open_ttl then
  redis.call('ZREMRANGEBYSCORE', owned, '-inf', '(' .. (now - kept_ttl))
  expire(row, open_ttl)
  expire(stream, open_ttl)
  expire(pointer, open_ttl)
  expire(owned, kept_ttl)
end
return {'started', ended}
