-- Moves on Redis and Valkey. A row is a hash; one run of this script decides each row that it is given, all of it at once:
-- nothing else runs on the server in between. Every key that is touched is in KEYS, the clock is the server's.
--
-- KEYS  row 1 … row n, then, where a history is kept, its stream for row 1 … row n
-- ARGV  1: the move as JSON {lifecycle, move, column, sources, target, revision, fence, stamps, history, losers, guards, returning}
--       2: the time to use in seconds, or '' for the server's
--       3 …: one JSON array for each row [fence, revision, by, reason, call, repeat, {column: value}, [columns to clear]]
-- returns for each row {before, revision, fence, unmet, won, revision after, by, replayed, returned columns …}, or {} if missing

local move = cjson.decode(ARGV[1])
local now = ARGV[2]
if now == '' then
  local time = redis.call('TIME')
  now = string.format('%s.%06d', time[1], tonumber(time[2]))
end

local from = {}
for _, status in ipairs(move.sources) do from[status] = true end

-- A comparison with a missing field is never true, as with NULL in SQL. Numbers compare as numbers, text as text.
local compare = {
  ['='] = function(a, b) return a == b end,
  ['<>'] = function(a, b) return a ~= b end,
  ['<'] = function(a, b) return a < b end,
  ['<='] = function(a, b) return a <= b end,
  ['>'] = function(a, b) return a > b end,
  ['>='] = function(a, b) return a >= b end,
}

local function holds(row, guard)
  local field, operator, value = guard[1], guard[2], guard[3]
  local found = redis.call('HGET', row, field)
  if operator == 'is null' then return not found end
  if operator == 'is not null' then return found and true end
  if found and type(value) == 'number' then found = tonumber(found) end
  return found and compare[operator](found, value)
end

local function present(value)
  return value ~= nil and value ~= cjson.null
end

-- The newest entry of the history that `test` accepts, among the newest thousand.
local function newest(stream, test)
  for _, entry in ipairs(redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1000)) do
    local fields = {}
    for i = 1, #entry[2], 2 do fields[entry[2][i]] = entry[2][i + 1] end
    if fields.outcome == 'moved' and test(fields) then return fields end
  end
end

local function decide(row, stream, call)
  local fence, revision, by, reason, id, again, set, clear = unpack(call)
  -- a key of another type is not a row of ours
  local found = redis.pcall('HMGET', row, move.column, move.revision or '', move.fence or '')
  local before = found[1]
  if found.err or not before then return {} end
  local found_revision = move.revision and tonumber(found[2] or 0) or false
  local found_fence = move.fence and tonumber(found[3]) or false

  if again then
    local earlier = newest(stream, function(entry) return entry.call == id end)
    if earlier then
      return {earlier.before, found_revision, found_fence, 0, 1, tonumber(earlier.revision) or false, false, 1}
    end
  end

  local unmet = 0
  -- P4: a write with another fence than the row's is refused
  if present(fence) and found_fence ~= fence then unmet = unmet + 1 end
  if present(revision) and found_revision ~= revision then unmet = unmet + 2 end
  local bit = 4
  for _, guard in ipairs(move.guards) do
    if not holds(row, guard) then unmet = unmet + bit end
    bit = bit * 2
  end

  local outcome = 'moved'
  local after = found_revision
  -- P1: the row leaves only a status from which this move is declared
  if from[before] and unmet == 0 then
    redis.call('HSET', row, move.column, move.target)
    if move.revision then after = redis.call('HINCRBY', row, move.revision, 1) end
    for _, stamp in ipairs(move.stamps) do redis.call('HSET', row, stamp, now) end
    for column, value in pairs(set) do redis.call('HSET', row, column, value) end
    for _, column in ipairs(clear) do redis.call('HDEL', row, column) end
  elseif unmet % 2 == 1 then
    outcome = 'lost'
  elseif before == move.target then
    outcome = 'already'
  else
    outcome = 'refused'
  end

  local won = outcome == 'moved'
  local winner = false
  if move.history then
    if not won then
      local last = newest(stream, function() return true end)
      winner = last and last.after == before and last.actor or false
      if winner == '' then winner = false end
    end
    if won or move.losers then
      redis.call('XADD', stream, '*', 'lifecycle', move.lifecycle, 'move', move.move, 'outcome', outcome,
        'before', before, 'after', move.target, 'revision', after or '',
        'actor', present(by) and by or '', 'reason', present(reason) and reason or '', 'call', id, 'at', now)
    end
  end

  local answer = {before, found_revision, found_fence, unmet, won and 1 or 0, after, winner, 0}
  if won and #move.returning > 0 then
    for _, value in ipairs(redis.call('HMGET', row, unpack(move.returning))) do answer[#answer + 1] = value end
  end
  return answer
end

local answers = {}
local rows = #ARGV - 2
for i = 1, rows do
  answers[i] = decide(KEYS[i], KEYS[rows + i], cjson.decode(ARGV[i + 2]))
end
return answers
