-- Claims on Redis and Valkey. A row is a hash; where rows wait stands in an index, a sorted set of keys by the time from
-- which they can be claimed. The index only proposes: every decision looks at the row, all of it at once. The clock is the
-- server's. Rows that the caller names are in KEYS; those that the index proposes, and lines, are not: on a cluster there is
-- no index.
--
-- Each declared claim has a script of its own for each thing to do: constants of its declaration, and then what stands below
-- for that.
--   lifecycle, name, column, open and held as {[status] = true}, history (whether there is one), stream_prefix,
--   form ('columns', 'timestamp' or 'marker'), kind (of a marker), until_column, fence_column, holder_column, cleared,
--   revision_column, attempts_column, after_column ('' where there is none), cap, expires (in milliseconds), and of the moves
--   start, back and exhausted: …_name, …_target, …_stamps (false where there is none), more (whether to look at more than the
--   claim itself), indexed (not on a cluster); index, row_prefix, serial: where rows wait
-- KEYS  the rows, then, where a history is kept, its stream for each, then the index, then the leases that guards look at;
--       where rows are searched for, only the last two
-- ARGV  1 the time to use in seconds, '' for the server's · 2 the lease · 3 by · 4 token; to give back, the reason
--       5 guards as JSON [[column, operator, value] …] or '' · 6 the columns to return as JSON or ''
--       then for a search: how many at most, how many of the index to look at, how many to pass over, and perhaps how their
--       keys begin; to renew or give back, for each row: its fence, its delay or ''
-- returns for each row {word, …}, see `decide`; for a search {how many the index proposed, how many of these began so,
-- how many stay where they are in the index, and then what was found …}, see `search`

-- for: all
local now, lease, by = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
if not now then
  local time = redis.call('TIME')
  now = time[1] + time[2] / 1000000
end
local moment = string.format('%.6f', now)

local function seconds(value) return string.format('%.6f', value) end

local function key_of(row) return string.sub(row, #row_prefix + 1) end

-- for: acquire set_aside one renew give_back
-- What a decision looks at, by these places; and when the lease of the row is over, nothing if nobody holds it.
local STATUS, UNTIL, FENCE, HOLDER, AFTER, ATTEMPTS = 1, 2, 3, 4, 5, 6
local function look(row)
  local seen = more
    and redis.call('HMGET', row, column, until_column, fence_column, holder_column, after_column, attempts_column)
    or redis.call('HMGET', row, column, until_column, fence_column)
  local ends = seen[UNTIL]
  -- a text that is no marker, or a broken one, holds nothing
  if ends and form == 'marker' then ends = string.match(ends, '^PROCESSING:[^:]+:[^:]+:(%d+%.?%d*)$') end
  ends = tonumber(ends)
  if ends and form ~= 'columns' then ends = ends + lease end
  return seen, ends
end

-- for: acquire one give_back
-- P4: grows with every claim, also where a lossy failover has forgotten the last ones.
local function grown(seen)
  return string.format('%.0f', math.max((tonumber(seen[FENCE]) or 0) + 1, math.floor(now * 1000000)))
end

-- for: acquire one renew
-- Writes the claim (or its renewal) into the row, with these fields, and returns its fence.
local function hold(row, seen, fence, fields)
  local ends = seconds(now + lease)
  local written = ends
  if form == 'marker' then
    fence = 'PROCESSING:' .. kind .. ':' .. ARGV[4] .. ':' .. moment
    written = fence
  elseif form == 'timestamp' then
    fence = seconds(math.max(now, (tonumber(seen[FENCE]) or 0) + 0.000001))
    written = fence
  end
  fields[#fields + 1] = until_column
  fields[#fields + 1] = written
  redis.call('HSET', row, unpack(fields))
  if indexed then redis.call('ZADD', index, ends, key_of(row)) end
  return fence
end

-- for: history
local function note(row, stream, move, outcome, before, after, reason)
  redis.call('XADD', stream, '*', 'lifecycle', lifecycle, 'move', move, 'outcome', outcome, 'before', before,
    'after', after, 'revision', revision_column ~= '' and redis.call('HGET', row, revision_column) or '',
    'actor', by, 'reason', reason or '', 'call', '', 'at', moment)
end

-- for: acquire set_aside one give_back
-- The row changes: counts that, and adds to the fields to write those of a declared move, if there is one.
local function go(row, target, stamps, fields)
  if revision_column ~= '' then redis.call('HINCRBY', row, revision_column, 1) end
  if not target then return end
  fields[#fields + 1] = column
  fields[#fields + 1] = target
  for _, stamp in ipairs(stamps) do
    fields[#fields + 1] = stamp
    fields[#fields + 1] = moment
  end
end

-- for: acquire one
local guards = ARGV[5] ~= '' and cjson.decode(ARGV[5])
local returned = ARGV[6] ~= '' and cjson.decode(ARGV[6])

-- Why the row cannot be claimed, as bits: status, held, resting, attempts, line, then the guards.
local function unmet_of(row, seen, ends, rests, in_line)
  local unmet = 0
  if not open[seen[STATUS]] then unmet = unmet + 1 end
  -- P3: nobody holds it, or the lease is over by the store's clock
  if ends and ends > now then unmet = unmet + 2 end
  if rests and rests > now then unmet = unmet + 4 end
  if cap and (tonumber(seen[ATTEMPTS]) or 0) >= cap then unmet = unmet + 8 end
  if in_line and serial and redis.call('ZRANGE', line_of(row, key_of(row)), 0, 0)[1] ~= key_of(row) then
    unmet = unmet + 16
  end
  if guards then unmet = unmet + unmet_guards(row, guards, 32) end
  return unmet
end

-- {word, fence, attempts, before, columns …}
local function claimed(word, row, stream, seen)
  local before, fence, fields = seen[STATUS], nil, {}
  if form == 'columns' then
    fence = grown(seen)
    fields = {holder_column, by, fence_column, fence}
  end
  go(row, start_target, start_stamps, fields)
  local attempts = attempts_column ~= '' and redis.call('HINCRBY', row, attempts_column, 1) or 1
  fence = hold(row, seen, fence, fields)
  if stream then
    local moved = start_target and before ~= start_target
    note(row, stream, start_name or name, moved and 'moved' or 'claimed', before, start_target or before)
  end
  local answer = {word, fence, attempts, before}
  if returned then
    for _, one in ipairs(returned) do answer[#answer + 1] = redis.call('HGET', row, one) end
  end
  return answer
end

-- for: acquire
-- A row that the index proposes is claimed now: {key, fence, attempts, before, columns …}. One that cannot be claimed gets a
-- new time in the index, and one that is no longer open leaves it: 0; or it stays where it is there: 1.
local function search(row, stream, key)
  local seen, ends = look(row)
  if not open[seen[STATUS]] then
    leave(row)
    return 0
  end
  local rests = tonumber(seen[AFTER])
  local unmet = unmet_of(row, seen, ends, rests)
  if unmet == 0 then return claimed(key, row, stream, seen) end
  if ends and ends > now then
    redis.call('ZADD', index, seconds(ends), key)
    return 0
  elseif rests and rests > now then
    redis.call('ZADD', index, seconds(rests), key)
    return 0
  elseif unmet == 8 and not exhausted_target and not serial then
    redis.call('ZREM', index, key) -- nobody will claim it again
    return 0
  end
  return 1
end

-- for: set_aside
-- The same for {key, attempts} of a row that has had all its attempts and that nobody holds.
local function search(row, stream, key)
  local seen, ends = look(row)
  local before, attempts = seen[STATUS], tonumber(seen[ATTEMPTS]) or 0
  if not open[before] or (ends and ends > now) or attempts < cap then return 1 end
  local fields = {}
  go(row, exhausted_target, exhausted_stamps, fields)
  redis.call('HDEL', row, unpack(cleared))
  redis.call('HSET', row, unpack(fields))
  if expires then
    redis.call('PEXPIRE', row, expires)
    if stream then redis.call('PEXPIRE', stream, expires) end
  end
  leave(row)
  if stream then note(row, stream, exhausted_name, 'moved', before, exhausted_target) end
  return {key, attempts}
end

-- for: one
-- One row by its key: {'claimed', …} or {'taken', before, unmet, holder}, {'missing'}.
local function decide(row, stream)
  local seen, ends = look(row)
  if not seen[STATUS] then return {'missing'} end
  local unmet = unmet_of(row, seen, ends, tonumber(seen[AFTER]), true)
  if unmet == 0 then return claimed('claimed', row, stream, seen) end
  return {'taken', seen[STATUS], unmet, seen[HOLDER]}
end

-- for: renew give_back
-- P5: only the current holder; P4: an older fence than the newest is refused.
local function mine(seen, fence)
  if not seen[STATUS] then return false, {'missing'} end
  if seen[FENCE] == fence and held[seen[STATUS]] then return true end
  return false, {'lost', seen[STATUS], seen[FENCE], seen[HOLDER]}
end

-- for: renew
local function decide(row, stream, fence)
  local seen = look(row)
  local yes, no = mine(seen, fence)
  if not yes then return no end
  return {'renewed', hold(row, seen, fence, {})}
end

-- for: give_back
-- Gives the row back; with a delay it rests, without one its attempt is refunded.
local function decide(row, stream, fence, delay)
  local seen = look(row)
  local yes, no = mine(seen, fence)
  if not yes then return no end
  local before, ready, fields = seen[STATUS], now, {}
  if form == 'columns' then fields = {fence_column, grown(seen)} end
  if back_target then go(row, back_target, back_stamps, fields) end
  if delay == '' then
    if (tonumber(seen[ATTEMPTS]) or 0) > 0 then redis.call('HINCRBY', row, attempts_column, -1) end
  elseif after_column ~= '' then
    ready = now + tonumber(delay)
    fields[#fields + 1] = after_column
    fields[#fields + 1] = seconds(ready)
  end
  redis.call('HDEL', row, unpack(cleared))
  if #fields > 0 then redis.call('HSET', row, unpack(fields)) end
  if indexed then redis.call('ZADD', index, seconds(ready), key_of(row)) end
  if stream then
    note(row, stream, back_name or name, back_target and 'moved' or 'released', before, back_target or before, ARGV[4])
  end
  return {'released'}
end

-- for: offer
-- Puts a row into the index, and into its line; of a line only the first is in the index. So many are offered after it.
local function decide(row, stream, fence, delay, after)
  if not open[redis.call('HGET', row, column)] then return {'gone'} end
  -- rows that are offered together keep their order
  local key, when = key_of(row), now - after * 0.000001
  local line = serial and line_of(row, key)
  local last = line and redis.call('ZRANGE', line, -1, -1, 'WITHSCORES')[2]
  if last then when = math.max(when, tonumber(last) + 0.000001) end
  when = seconds(when)
  if line then
    redis.call('ZADD', line, 'NX', when, key)
    if redis.call('ZRANGE', line, 0, 0)[1] ~= key then return {'in line'} end
  end
  redis.call('ZADD', index, 'NX', when, key)
  redis.call('PUBLISH', index, '')
  return {'offered'}
end

-- for: acquire set_aside
local most, begin = tonumber(ARGV[7]), ARGV[10] or ''
local keys = redis.call('ZRANGEBYSCORE', index, '-inf', moment, 'LIMIT', ARGV[9], ARGV[8])
local mine, kept, wins, found = 0, 0, 0, {#keys, 0, 0}
for _, key in ipairs(keys) do
  if string.sub(key, 1, #begin) ~= begin then
    kept = kept + 1
  else
    mine = mine + 1
    if wins < most then
      local one = search(row_prefix .. key, history and stream_prefix .. key, key)
      if type(one) == 'table' then
        wins = wins + 1
        found[3 + wins] = one
      else
        kept = kept + one
      end
    end
  end
end
found[2], found[3] = mine, kept
return found
-- for: one renew give_back offer
local leases = 0
for _, guard in ipairs(ARGV[5] ~= '' and cjson.decode(ARGV[5]) or {}) do
  if guard[2] == 'epoch' then leases = leases + 1 end
end
local answers, rows = {}, (#KEYS - leases - (indexed and 1 or 0)) / (history and 2 or 1)
for i = 1, rows do
  answers[i] = decide(KEYS[i], history and KEYS[rows + i], ARGV[5 + i * 2], ARGV[6 + i * 2], rows - i)
end
return answers
