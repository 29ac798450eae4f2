-- Moves on Redis and Valkey. A row is a hash; one run of a script decides each row that it is given, all of it at once:
-- nothing else runs on the server in between. Every key that is touched is in KEYS, except the index of a claim that ends;
-- the clock is the server's.
--
-- These names are constants of the declared move, of the claim that the caller holds and of the kind of call:
--   lifecycle, move_name, target, sources as {[status] = true}, revision_column, expires (in milliseconds)
--   looked_at: the columns that a decision looks at, and seen_…: where they are in what it found (false where there is none)
--   move_fields: the fields to write and their values in turn; cleared: those of the caller's claim, which ends
--   first_asked: the bit of the caller's first guard · fenced_off: who held the row, whose claim ends
--   keys_of_a_row: 2 with a history · leases: how many keys of leases there are · returned: the columns to return
-- KEYS  row 1 … row n, then, where a history is kept, its stream for row 1 … row n, then the leases that guards look at
-- ARGV  what the caller gives, each by its name, once for all rows or once for each: given_now (in seconds, instead of the
--       server's clock), given_guards as JSON [[column, operator, value] …], given_fence, given_revision, given_by,
--       given_reason, given_call, given_change as JSON {set: …, clear: …}; '' where there is none
-- returns for a row its status before if it moved, or {before, revision after, returned columns …} where there are such,
-- with who was fenced off in third place if the move ends a claim;
-- {} if it is missing, and else {false, 'not moved', before, revision, fence, unmet, by} or
-- {false, 'replayed', before, revision after} or {false, 'error', message} if the row cannot be decided; for several rows,
-- a list of these

local rows = (#KEYS - leases) / keys_of_a_row
local guarded = cjson.decode(given_guards)
local moment = given_now or clock()
local now = tonumber(moment)

-- The newest entry of the history that `test` accepts, among the newest thousand.
local function newest(stream, test)
  for _, entry in ipairs(redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1000)) do
    local fields = {}
    for i = 1, #entry[2], 2 do fields[entry[2][i]] = entry[2][i + 1] end
    if fields.outcome == 'moved' and test(fields) then return fields end
  end
end

-- What an earlier call with the same id did, if it moved the row.
local function earlier_call(stream, i)
  return newest(stream, function(entry) return entry.call == given_call and entry.move == move_name end)
end

-- Who moved the row to where it was found, if the history says so.
local function winner(stream, before, revision)
  local last = newest(stream, function() return true end)
  local same = last and last.after == before and last.revision == (revision or '')
  return same and last.actor ~= '' and last.actor
end

local function note(stream, i, outcome, before, revision)
  return redis.pcall('XADD', stream, '*', 'lifecycle', lifecycle, 'move', move_name, 'outcome', outcome,
    'before', before, 'after', target, 'revision', revision or '',
    'actor', given_by, 'reason', given_reason, 'call', given_call, 'at', moment)
end

-- The next revision, which is written with the rest; one that Lua cannot count exactly is counted in the row, at once.
local function next_revision(row, revision)
  if #revision < 16 and (revision == '0' or string.find(revision, '^[1-9]%d*$')) then
    return string.format('%.0f', revision + 1)
  end
  redis.call('HINCRBY', row, revision_column, 1)
  return redis.call('HGET', row, revision_column), true
end

-- Which of the caller's and the declared guards do not hold, as bits: the fence 1, the revision 2, then the predicates.
local function unmet_by(row, fence, revision, i)
  local unmet = 0
  if given_fence then
    -- P4: a write with another fence than the row's is refused
    if fence ~= given_fence then unmet = unmet + 1 end
  end
  if given_revision then
    if revision ~= given_revision then unmet = unmet + 2 end
  end
  if given_guards then unmet = unmet + unmet_guards(row, guarded, 4) end
  return unmet
end

-- Writes the columns that the call sets beside those of the move.
local function write(row, i, after)
  local fields, change = {move_fields}, cjson.decode(given_change)
  for _, name in ipairs(change.clear) do redis.call('HDEL', row, name) end
  for name, value in pairs(change.set) do
    fields[#fields + 1] = name
    fields[#fields + 1] = value
  end
  redis.call('HSET', row, unpack(fields))
end

-- A row that has ended is kept for a while; one that is open again, for good.
local function keep_for(row, stream)
  if lives_again then redis.call('PERSIST', row) end
  if lives_again and history then redis.call('PERSIST', stream) end
  if expires then redis.call('PEXPIRE', row, expires) end
  if expires and history then redis.call('PEXPIRE', stream, expires) end
end

-- The refusal, with what was found.
local function not_moved(stream, i, before, revision, fence, unmet)
  local by = false
  if history then by = winner(stream, before, revision) or false end
  if losers then
    -- what the caller asked of the row comes before 'already': its revision (2), and its guards, which follow the declared ones
    local asked = unmet % 4 >= 2 or unmet >= first_asked
    local outcome = unmet % 2 == 1 and 'lost' or before == target and not asked and 'already' or 'refused'
    local noted = note(stream, i, outcome, before, revision)
    if noted.err then return {false, 'error', noted.err} end
  end
  return {false, 'not moved', before, revision, fence, unmet, by}
end

local function decide(row, stream, i)
  -- a key of another type is not a row of ours
  local found = redis.pcall('HMGET', row, looked_at)
  local before = found[1]
  if found.err or not before then return {} end
  -- numbers stay texts, because Lua's lose digits beyond 2^53
  local revision, fence, unmet = seen_revision, seen_fence, 0
  if repeats then
    local earlier = earlier_call(stream, i)
    if earlier then return {false, 'replayed', earlier.before, earlier.revision ~= '' and earlier.revision} end
  end
  if is_guarded then unmet = unmet_by(row, fence, revision, i) end
  -- P1: the row leaves only a status from which this move is declared
  if unmet > 0 or not sources[before] then return not_moved(stream, i, before, revision, fence, unmet) end

  -- what can fail comes first, for a script that fails half-way is not undone: the history, and then the whole row at once
  local after, counted = false, false
  if revision_column then after, counted = next_revision(row, revision) end
  if history then
    local noted = note(stream, i, 'moved', before, after)
    if noted.err and counted then redis.call('HINCRBY', row, revision_column, -1) end
    if noted.err then return {false, 'error', noted.err} end
  end
  if clears then redis.call('HDEL', row, cleared) end
  if ends_claims then end_claims(row, found) end
  if given_change then write(row, i, after) end
  if not given_change then redis.call('HSET', row, move_fields) end
  if expires or lives_again then keep_for(row, stream) end
  if leaves then leave(row, string.sub(row, #row_prefix + 1)) end
  if waits then redis.call('ZADD', index, moment, string.sub(row, #row_prefix + 1)) end
  if returning and ends_claims then return {before, after, fenced_off, unpack(redis.call('HMGET', row, returned))} end
  if returning and not ends_claims then return {before, after, unpack(redis.call('HMGET', row, returned))} end
  if ends_claims then return {before, after, fenced_off} end
  return after and {before, after} or before
end

local function move_one()
  return decide(KEYS[1], KEYS[2], 1)
end

-- A row that fails is answered alone.
local function move_many()
  local answers = {}
  for i = 1, rows do
    local fine, answer = pcall(decide, KEYS[i], stream_key, i)
    if not fine then answer = {false, 'error', type(answer) == 'table' and answer.err or tostring(answer)} end
    answers[i] = answer
  end
  return answers
end
