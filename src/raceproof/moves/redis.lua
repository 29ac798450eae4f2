-- Moves on Redis and Valkey. A row is a hash; one run of this script decides each row that it is given, all of it at once:
-- nothing else runs on the server in between. Every key that is touched is in KEYS, but for the index of a claim that ends;
-- the clock is the server's.
--
-- Each declared move has a script of its own, and another one for each claim that its caller holds: what stands below for it,
-- and in it these words of the declaration.
--   lifecycle, move_name, target, sources as {[status] = true}, revision_column, expires (in milliseconds)
--   looked_at: the columns that a decision looks at, and seen_…: where they are in what it has found (false where there is none)
--   move_fields: the fields to write and their values in turn; cleared: those of a claim that ends
--   first_asked: the bit of the caller's first guard
--   fenced_off: who held the row · ended_columns, ended_markers, ended_fences: what ends the claim of another process
--   keys_of_a_row: 2 with a history · leases: how many keys of leases there are · returned: the columns that the caller wants
-- KEYS  row 1 … row n, then, where a history is kept, its stream for row 1 … row n, then the leases that guards look at
-- ARGV  what the caller gives, each by its name, once for all rows or once for each: given_now (in seconds, instead of the
--       server's clock), given_guards as JSON [[column, operator, value] …], given_fence, given_revision, given_by,
--       given_reason, given_call, given_change as JSON {set: …, clear: …}; '' where there is none
-- returns for a row its status before if it moved, or {before, revision after, returned columns …} where there are such,
-- with who was fenced off in third place if the move ends a claim;
-- {} if it is missing, and else {false, 'not moved', before, revision, fence, unmet, by} or
-- {false, 'replayed', before, revision after} or {false, 'error', message} if the row cannot be decided; for several rows,
-- a list of these

-- for: all
local rows = (#KEYS - leases) / keys_of_a_row -- if: several
local guarded = cjson.decode(given_guards) -- if: given_guards
local time = redis.call('TIME') -- if: timed not given_now
local moment = string.format('%s.%06d', time[1], time[2]) -- if: timed not given_now
local moment = given_now -- if: timed given_now
local now = tonumber(moment) -- if: fences

-- for: history
-- The newest entry of the history that `test` accepts, among the newest thousand.
local function newest(stream, test)
  for _, entry in ipairs(redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1000)) do
    local fields = {}
    for i = 1, #entry[2], 2 do fields[entry[2][i]] = entry[2][i + 1] end
    if fields.outcome == 'moved' and test(fields) then return fields end
  end
end

local function note(stream, i, outcome, before, revision)
  return redis.pcall('XADD', stream, '*', 'lifecycle', lifecycle, 'move', move_name, 'outcome', outcome,
    'before', before, 'after', target, 'revision', revision or '',
    'actor', given_by, 'reason', given_reason, 'call', given_call, 'at', moment)
end

-- for: revision
-- The next revision. It is counted here and written with the rest; what Lua cannot count exactly is counted in the row.
local function next_revision(row, revision)
  if #revision < 16 and (revision == '0' or string.find(revision, '^[1-9]%d*$')) then
    return string.format('%.0f', revision + 1)
  end
  redis.call('HINCRBY', row, revision_column, 1)
  return redis.call('HGET', row, revision_column), true
end

-- for: all
local function decide(row, stream, i) -- if: several
local row, stream, i = KEYS[1], KEYS[2], 1 -- if: not several
  -- a key of another type is not a row of ours
  local found = redis.pcall('HMGET', row, looked_at)
  local before = found[1]
  if found.err or not before then return {} end
  -- numbers stay texts, because Lua's lose digits beyond 2^53
  local revision, fence = seen_revision, seen_fence

  local earlier = newest(stream, function(entry) return entry.call == given_call and entry.move == move_name end) -- if: repeats
  if earlier then return {false, 'replayed', earlier.before, earlier.revision ~= '' and earlier.revision} end -- if: repeats

  local unmet = 0
  -- P4: a write with another fence than the row's is refused
  if fence ~= given_fence then unmet = unmet + 1 end -- if: given_fence
  if revision ~= given_revision then unmet = unmet + 2 end -- if: given_revision
  unmet = unmet + unmet_guards(row, guarded, 4) -- if: given_guards

  -- P1: the row leaves only a status from which this move is declared
  if unmet == 0 and sources[before] then
    -- what can fail comes first, for a script that fails half-way is not undone: the history, and then the whole row at once
    local after, counted = false, false
    after, counted = next_revision(row, revision) -- if: revision
    local noted = note(stream, i, 'moved', before, after) -- if: history
    if noted.err and counted then redis.call('HINCRBY', row, revision_column, -1) end -- if: history revision
    if noted.err then return {false, 'error', noted.err} end -- if: history
    redis.call('HDEL', row, cleared) -- if: clears
    -- the end of a claim that another process holds; P4: its fence fits no more, also if the row comes back
    redis.call('HDEL', row, ended_columns) -- if: ends_columns
    for name, prefix in pairs(ended_markers) do -- if: ends_marker
      local text = redis.call('HGET', row, name) -- if: ends_marker
      if text and string.sub(text, 1, #prefix) == prefix then redis.call('HDEL', row, name) end -- if: ends_marker
    end -- if: ends_marker
    redis.call('HSET', row, ended_fences) -- if: fences
    redis.call('HSET', row, move_fields) -- if: not given_change
    local fields, change = {move_fields}, cjson.decode(given_change) -- if: given_change
    for _, name in ipairs(change.clear) do redis.call('HDEL', row, name) end -- if: given_change
    for name, value in pairs(change.set) do -- if: given_change
      fields[#fields + 1] = name -- if: given_change
      fields[#fields + 1] = value -- if: given_change
    end -- if: given_change
    redis.call('HSET', row, unpack(fields)) -- if: given_change
    redis.call('PERSIST', row) -- if: lives_again
    redis.call('PERSIST', stream) -- if: lives_again history
    redis.call('PEXPIRE', row, expires) -- if: expires
    redis.call('PEXPIRE', stream, expires) -- if: expires history
    leave(row, string.sub(row, #row_prefix + 1)) -- if: leave
    redis.call('ZADD', index, moment, string.sub(row, #row_prefix + 1)) -- if: waits
    return {before, after, fenced_off, unpack(redis.call('HMGET', row, returned))} -- if: ends_others returning
    return {before, after, fenced_off} -- if: ends_others not returning
    return {before, after, unpack(redis.call('HMGET', row, returned))} -- if: returning not ends_others
    return {before, after} -- if: revision not returning ends_others
    return before -- if: not revision returning ends_others
  end

  local by = false
  local last = newest(stream, function() return true end) -- if: history
  local same = last and last.after == before and last.revision == (revision or '') -- if: history
  if same and last.actor ~= '' then by = last.actor end -- if: history
  -- what the caller asked of the row comes before 'already': its revision (2), and its guards, which follow the declared ones
  local asked = unmet % 4 >= 2 or unmet >= first_asked -- if: losers
  local outcome = unmet % 2 == 1 and 'lost' or before == target and not asked and 'already' or 'refused' -- if: losers
  local noted = note(stream, i, outcome, before, revision) -- if: losers
  if noted.err then return {false, 'error', noted.err} end -- if: losers
  return {false, 'not moved', before, revision, fence, unmet, by}
end -- if: several

-- for: several
-- A row that fails is told alone.
local answers = {}
for i = 1, rows do
  local fine, answer = pcall(decide, KEYS[i], stream_key, i)
  if not fine then answer = {false, 'error', type(answer) == 'table' and answer.err or tostring(answer)} end
  answers[i] = answer
end
return answers
