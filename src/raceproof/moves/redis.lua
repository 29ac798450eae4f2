-- Moves on Redis and Valkey. A row is a hash; one run of this script decides each row that it is given, all of it at once:
-- nothing else runs on the server in between. Every key that is touched is in KEYS, the clock is the server's.
--
-- KEYS  row 1 … row n, then, where a history is kept, its stream for row 1 … row n
-- ARGV  1 the status column · 2 the target · 3 the revision column or '' · 4 the fence column or ''
--       5 the time to use in seconds, '' for the server's · 6 the guards as JSON [[column, operator, value] …] or ''
--       7 the history: '', 'winners' or 'losers' too · 8 the lifecycle · 9 the move
--       10 how many sources · 11 how many stamps · 12 how many columns to return · 13 how many values for each row
--       14 in how many milliseconds a row that has moved is to be gone, '' for never
--       then the sources, the stamps, the columns to return, and for each row, unless 13 says none:
--       fence, revision, by, reason, call, '1' if the call may be a repeated one, {set: …, clear: …} as JSON; '' where not given
-- returns for each row {before, revision, fence, unmet, won, revision after, by, replayed, returned columns …}, {} if missing,
-- {'error', message} if the row cannot be decided

local column, target, revision_column, fence_column = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local history = ARGV[7] ~= ''
local first_source, first_stamp = 15, 15 + ARGV[10]
local first_returned = first_stamp + ARGV[11]
local first_value = first_returned + ARGV[12]
local values = tonumber(ARGV[13])
local rows = history and #KEYS / 2 or #KEYS
local guards = ARGV[6] ~= '' and cjson.decode(ARGV[6])

local function is_source(status)
  for i = first_source, first_stamp - 1 do
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

local function decide(row, stream, at)
  -- a key of another type is not a row of ours
  local found = redis.pcall('HMGET', row, column, revision_column, fence_column)
  local before = found[1]
  if found.err or not before then return {} end
  -- numbers stay texts, because Lua's lose digits beyond 2^53
  local revision = revision_column ~= '' and (found[2] or '0')
  local fence = fence_column ~= '' and found[3]
  -- what is particular to this row: values at + 0 … at + 6
  local given = values > 0

  if given and ARGV[at + 5] == '1' then
    local call = ARGV[at + 4]
    local earlier = newest(stream, function(entry) return entry.call == call and entry.move == ARGV[9] end)
    if earlier then
      return {earlier.before, revision, fence, 0, 1, earlier.revision ~= '' and earlier.revision, false, 1}
    end
  end

  local unmet = 0
  if given then
    -- P4: a write with another fence than the row's is refused
    if ARGV[at] ~= '' and fence ~= ARGV[at] then unmet = unmet + 1 end
    if ARGV[at + 1] ~= '' and revision ~= ARGV[at + 1] then unmet = unmet + 2 end
  end
  if guards then
    local bit = 4
    for _, guard in ipairs(guards) do
      if not holds(row, guard) then unmet = unmet + bit end
      bit = bit * 2
    end
  end

  -- P1: the row leaves only a status from which this move is declared
  local won = unmet == 0 and is_source(before)
  local outcome = won and 'moved' or unmet % 2 == 1 and 'lost' or before == target and 'already' or 'refused'
  local answer = {before, revision, fence, unmet, won and 1 or 0, revision, false, 0}
  if history then
    if not won then
      local last = newest(stream, function() return true end)
      local same = last and last.after == before and last.revision == (revision or '')
      if same and last.actor ~= '' then answer[7] = last.actor end
    elseif redis.call('TYPE', stream).ok ~= 'stream' and redis.call('EXISTS', stream) == 1 then
      return redis.error_reply('WRONGTYPE the history ' .. stream .. ' is no stream')
    end
  end

  -- A script that fails half-way is not undone: what can fail comes first, and all of it before the status.
  if won then
    if revision then
      local after = redis.call('HINCRBY', row, revision_column, 1)
      answer[6] = after < 9007199254740992 and string.format('%.0f', after) or redis.call('HGET', row, revision_column)
    end
    redis.call('HSET', row, column, target)
    if given and ARGV[at + 6] ~= '' then
      local change = cjson.decode(ARGV[at + 6])
      for name, value in pairs(change.set) do redis.call('HSET', row, name, value) end
      for _, name in ipairs(change.clear) do redis.call('HDEL', row, name) end
    end
    for i = first_stamp, first_returned - 1 do redis.call('HSET', row, ARGV[i], now()) end
    for i = first_returned, first_value - 1 do answer[#answer + 1] = redis.call('HGET', row, ARGV[i]) end
  end
  if won and ARGV[14] ~= '' then
    redis.call('PEXPIRE', row, ARGV[14])
    if history then redis.call('PEXPIRE', stream, ARGV[14]) end
  end
  if history and (won or ARGV[7] == 'losers') then
    redis.call('XADD', stream, '*', 'lifecycle', ARGV[8], 'move', ARGV[9], 'outcome', outcome,
      'before', before, 'after', target, 'revision', answer[6] or '',
      'actor', ARGV[at + 2], 'reason', ARGV[at + 3], 'call', ARGV[at + 4], 'at', now())
  end
  return answer
end

-- A row that fails is told alone: {'error', message}.
local answers = {}
for i = 1, rows do
  local fine, answer = pcall(decide, KEYS[i], history and KEYS[rows + i], first_value + (i - 1) * values)
  if fine and not answer.err then
    answers[i] = answer
  else
    answers[i] = {'error', fine and answer.err or type(answer) == 'table' and answer.err or tostring(answer)}
  end
end
return answers
