-- Moves on Redis and Valkey. A row is a hash; one run of this script decides each row that it is given, all of it at once:
-- nothing else runs on the server in between. Every key that is touched is in KEYS, the clock is the server's.
--
-- KEYS  row 1 … row n, then, where a history is kept, its stream for row 1 … row n
-- ARGV  1 the status column · 2 the target · 3 the revision column or '' · 4 the fence column or ''
--       5 the time to use in seconds, '' for the server's
--       6 '' or what else the move has, as JSON: {stamps, guards, returning, history, losers, lifecycle, move}
--       7 how many sources s · 8 … 7+s the sources
--       then one for each row: '' or JSON {fence, revision, by, reason, call, again, set, clear}
-- returns for each row {before, revision, fence, unmet, won, revision after, by, replayed, returned columns …}, {} if missing

local column, target, revision_column, fence_column = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local sources = tonumber(ARGV[7])
local rows = #ARGV - 7 - sources
local plain = ARGV[6] == ''
local move = plain or cjson.decode(ARGV[6])

local function is_source(status)
  for i = 8, 7 + sources do
    if ARGV[i] == status then return true end
  end
  return false
end

local moment
local function now()
  if not moment then
    moment = ARGV[5]
    if moment == '' then
      local time = redis.call('TIME')
      moment = string.format('%s.%06d', time[1], tonumber(time[2]))
    end
  end
  return moment
end

-- A comparison with a missing field is never true, as with NULL in SQL. Numbers compare as numbers, text as text.
local function holds(row, guard)
  local operator, value = guard[2], guard[3]
  local found = redis.call('HGET', row, guard[1])
  if operator == 'is null' then return not found end
  if operator == 'is not null' then return found end
  if found and type(value) == 'number' then found = tonumber(found) end
  if not found then return false end
  if operator == '=' then return found == value end
  if operator == '<>' then return found ~= value end
  if operator == '<' then return found < value end
  if operator == '<=' then return found <= value end
  if operator == '>' then return found > value end
  return found >= value
end

-- The newest entry of the history that `test` accepts, among the newest thousand.
local function newest(stream, test)
  for _, entry in ipairs(redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1000)) do
    local fields = {}
    for i = 1, #entry[2], 2 do fields[entry[2][i]] = entry[2][i + 1] end
    if fields.outcome == 'moved' and test(fields) then return fields end
  end
end

local function decide(row, stream, extra)
  -- a key of another type is not a row of ours
  local found = redis.pcall('HMGET', row, column, revision_column, fence_column)
  local before = found[1]
  if found.err or not before then return {} end
  local revision = revision_column ~= '' and tonumber(found[2] or 0)
  local fence = fence_column ~= '' and tonumber(found[3] or nil) or false
  local call = extra ~= '' and cjson.decode(extra)

  if call and call.again then
    local earlier = newest(stream, function(entry) return entry.call == call.call end)
    if earlier then
      return {earlier.before, revision, fence, 0, 1, tonumber(earlier.revision) or false, false, 1}
    end
  end

  local unmet = 0
  -- P4: a write with another fence than the row's is refused
  if call and call.fence and fence ~= call.fence then unmet = unmet + 1 end
  if call and call.revision and revision ~= call.revision then unmet = unmet + 2 end
  if not plain then
    local bit = 4
    for _, guard in ipairs(move.guards) do
      if not holds(row, guard) then unmet = unmet + bit end
      bit = bit * 2
    end
  end

  -- P1: the row leaves only a status from which this move is declared
  local won = unmet == 0 and is_source(before)
  local after = revision
  if won then
    if revision then
      after = revision + 1
      redis.call('HSET', row, column, target, revision_column, after)
    else
      redis.call('HSET', row, column, target)
    end
    if call then
      for name, value in pairs(call.set) do redis.call('HSET', row, name, value) end
      for _, name in ipairs(call.clear) do redis.call('HDEL', row, name) end
    end
  end
  local answer = {before, revision, fence, unmet, won and 1 or 0, after, false, 0}
  if plain then return answer end

  if won then
    for _, stamp in ipairs(move.stamps) do redis.call('HSET', row, stamp, now()) end
    if #move.returning > 0 then
      for _, value in ipairs(redis.call('HMGET', row, unpack(move.returning))) do answer[#answer + 1] = value end
    end
  end
  if move.history then
    local outcome = 'moved'
    if not won then
      local last = newest(stream, function() return true end)
      if last and last.after == before and last.actor ~= '' then answer[7] = last.actor end
      outcome = unmet % 2 == 1 and 'lost' or before == target and 'already' or 'refused'
    end
    if won or move.losers then
      redis.call('XADD', stream, '*', 'lifecycle', move.lifecycle, 'move', move.move, 'outcome', outcome,
        'before', before, 'after', target, 'revision', after or '',
        'actor', call.by or '', 'reason', call.reason or '', 'call', call.call, 'at', now())
    end
  end
  return answer
end

local answers = {}
for i = 1, rows do
  answers[i] = decide(KEYS[i], KEYS[rows + i], ARGV[7 + sources + i])
end
return answers
