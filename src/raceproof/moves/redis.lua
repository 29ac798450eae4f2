-- Moves on Redis and Valkey. A row is a hash; one run of this script decides each row that it is given, all of it at once:
-- nothing else runs on the server in between. Every key that is touched is in KEYS, but for the index of a claim that ends;
-- the clock is the server's.
--
-- Each declared move has a script of its own: these constants of its declaration, and then what stands below. With a claim
-- its caller has another one.
--   column, target, revision_column, fence_column ('' where there is none), sources as {[status] = true}, stamps as a list,
--   clears: the columns of a claim that ends, history ('', 'winners' or 'losers' too), lifecycle, move,
--   expires (in milliseconds, 'never', or ''), leaves: whether the row leaves the index of the claim that ends
-- KEYS  row 1 … row n, then, where a history is kept, its stream for row 1 … row n, then the leases that guards look at
-- ARGV  nothing for a plain move; else 1 names the values that follow, by a small letter for a value that is the same for
--       all rows, by a capital one for n values, one for each row; '' where a row has none:
--       k how many leases there are, always the first · n the time to use in seconds instead of the server's · g guards as JSON [[column, operator, value] …]
--       o the columns to return as JSON · f fence · v revision · b by · r reason · c call
--       a '1' if the call may have been made before · s {set: …, clear: …} as JSON
-- returns for each row {before, revision after, returned columns …} if it moved, {} if it is missing, and else
-- {false, 'not moved', before, revision, fence, unmet, by} or {false, 'replayed', before, revision after} or
-- {false, 'error', message} if the row cannot be decided

-- for: all
local leases = string.sub(ARGV[1] or '', 1, 1) == 'k' and tonumber(ARGV[2]) or 0
local rows = (#KEYS - leases) / (history ~= '' and 2 or 1)

local first, step, place = {}, {}, 2
for letter in string.gmatch(ARGV[1] or '', '.') do
  local name = string.lower(letter)
  first[name], step[name] = place, name == letter and 0 or 1
  place = place + (name == letter and 1 or rows)
end

-- A value that was given for row i, or nil.
local function given(name, i)
  local at = first[name]
  local value = at and ARGV[at + (i - 1) * step[name]]
  if value ~= '' then return value end
end

local moment = given('n', 1)
local guards = first.g and cjson.decode(given('g', 1))
local returned = first.o and cjson.decode(given('o', 1))

local function now()
  if not moment then
    local time = redis.call('TIME')
    moment = string.format('%s.%06d', time[1], tonumber(time[2]))
  end
  return moment
end

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
  return redis.pcall('XADD', stream, '*', 'lifecycle', lifecycle, 'move', move, 'outcome', outcome,
    'before', before, 'after', target, 'revision', revision or '',
    'actor', given('b', i) or '', 'reason', given('r', i) or '', 'call', given('c', i) or '', 'at', now())
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
-- What can fail comes first, for a script that fails half-way is not undone: the history, and then the whole row at once.
local function write(row, stream, i, before, revision)
  local fields = {column, target}
  local change = given('s', i)
  change = change and cjson.decode(change)
  local after, counted = false, false
  if revision then
    after, counted = next_revision(row, revision)
    fields[3], fields[4] = revision_column, after
  end
  if stream then
    local noted = note(stream, i, 'moved', before, after)
    if noted.err then
      if counted then redis.call('HINCRBY', row, revision_column, -1) end
      return noted
    end
  end
  if change then
    for name, value in pairs(change.set) do
      fields[#fields + 1] = name
      fields[#fields + 1] = value
    end
    for _, name in ipairs(change.clear) do redis.call('HDEL', row, name) end
  end
  if #clears > 0 then redis.call('HDEL', row, unpack(clears)) end
  for _, stamp in ipairs(stamps) do
    fields[#fields + 1] = stamp
    fields[#fields + 1] = now()
  end
  redis.call('HSET', row, unpack(fields))
  if expires == 'never' then
    redis.call('PERSIST', row)
    if stream then redis.call('PERSIST', stream) end
  elseif expires ~= '' then
    redis.call('PEXPIRE', row, expires)
    if stream then redis.call('PEXPIRE', stream, expires) end
  end
  if leaves then leave(row) end
  local answer = {before, after}
  if returned then
    for place, name in ipairs(returned) do answer[place + 2] = redis.call('HGET', row, name) end
  end
  return answer
end

local function decide(row, stream, i)
  -- a key of another type is not a row of ours
  local found = redis.pcall('HMGET', row, column, revision_column, fence_column)
  local before = found[1]
  if found.err or not before then return {} end
  -- numbers stay texts, because Lua's lose digits beyond 2^53
  local revision = revision_column ~= '' and (found[2] or '0')
  local fence = fence_column ~= '' and found[3]

  if given('a', i) then
    local call = given('c', i)
    local earlier = newest(stream, function(entry) return entry.call == call and entry.move == move end)
    if earlier then return {false, 'replayed', earlier.before, earlier.revision ~= '' and earlier.revision} end
  end

  local unmet = 0
  local own_fence, own_revision = given('f', i), given('v', i)
  -- P4: a write with another fence than the row's is refused
  if own_fence and fence ~= own_fence then unmet = unmet + 1 end
  if own_revision and revision ~= own_revision then unmet = unmet + 2 end
  if guards then unmet = unmet + unmet_guards(row, guards, 4) end

  -- P1: the row leaves only a status from which this move is declared
  if unmet == 0 and sources[before] then return write(row, stream, i, before, revision) end

  local by = false
  if stream then
    local last = newest(stream, function() return true end)
    local same = last and last.after == before and last.revision == (revision or '')
    if same and last.actor ~= '' then by = last.actor end
    if history == 'losers' then
      local outcome = unmet % 2 == 1 and 'lost' or before == target and 'already' or 'refused'
      local noted = note(stream, i, outcome, before, revision)
      if noted.err then return noted end
    end
  end
  return {false, 'not moved', before, revision, fence, unmet, by}
end

-- A row that fails is told alone.
local answers = {}
for i = 1, rows do
  local fine, answer = pcall(decide, KEYS[i], history ~= '' and KEYS[rows + i], i)
  if fine and not answer.err then
    answers[i] = answer
  else
    answers[i] = {false, 'error', fine and answer.err or type(answer) == 'table' and answer.err or tostring(answer)}
  end
end
return answers
