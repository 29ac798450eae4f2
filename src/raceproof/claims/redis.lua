-- Claims on Redis and Valkey. A row is a hash; where rows wait stands in an index, a sorted set of keys by the time from
-- which they can be claimed. The index only proposes: every decision looks at the row, all of it at once. Every key that is
-- touched is in KEYS, the clock is the server's.
--
-- KEYS  1 the index, then the rows, then, where a history is kept, its stream for each row;
--       for offer and advance of a serial claim, then the line of each row: its unfinished keys, in order;
--       then the leases that guards look at
-- ARGV  1 what to do · 2 the claim as JSON · 3 the time to use in seconds, '' for the server's · 4 the lease · 5 by · 6 token
--       7 how many at most · 8 the guards as JSON [[column, operator, value] …] · 9 the reason
--       then for each row: its member in the index, its fence or '', its delay or ''
-- returns for each row {word, …}: see `decide`

local action, claim = ARGV[1], cjson.decode(ARGV[2])
local form = claim.form
local lease, by, token = tonumber(ARGV[4]), ARGV[5], ARGV[6]
local guards, reason = cjson.decode(ARGV[8]), ARGV[9]
local leases = 0
for _, guard in ipairs(guards) do
  if guard[2] == 'epoch' then leases = leases + 1 end
end
local index = KEYS[1]
local rows = (#ARGV - 9) / 3
local moment = ARGV[3]
if moment == '' then
  local time = redis.call('TIME')
  moment = string.format('%s.%06d', time[1], tonumber(time[2]))
end
local now = tonumber(moment)

local function among(list, wanted)
  for _, one in ipairs(list) do
    if one == wanted then return true end
  end
  return false
end

local function number(row, field) return field and tonumber(redis.call('HGET', row, field) or nil) end

local function seconds(value) return string.format('%.6f', value) end

-- When the lease of a row is over; nothing if nobody holds it.
local function until_when(row)
  if form.kind_of_form == 'columns' then return number(row, form['until']) end
  local found = redis.call('HGET', row, form.column)
  if not found then return nil end
  if form.kind_of_form == 'marker' then
    -- a text that is no marker, or a broken one, holds nothing
    found = string.match(found, '^PROCESSING:[^:]+:[^:]+:(%d+%.?%d*)$')
  end
  found = tonumber(found)
  return found and found + lease
end

local function holder(row)
  if form.kind_of_form == 'columns' then return redis.call('HGET', row, form.holder) end
  if form.kind_of_form == 'marker' then return redis.call('HGET', row, form.column) end
  return false
end

-- P4: grows with every claim, also where a lossy failover has forgotten the last ones.
local function grown(row)
  return string.format('%.0f', math.max((number(row, form.fence) or 0) + 1, math.floor(now * 1000000)))
end

-- Writes the claim (or its renewal) into the row and returns its fence.
local function hold(row, anew)
  if claim.indexed then redis.call('ZADD', index, seconds(now + lease), ARGV[anew]) end
  if form.kind_of_form == 'columns' then
    redis.call('HSET', row, form['until'], seconds(now + lease))
    return redis.call('HGET', row, form.fence)
  end
  local written
  if form.kind_of_form == 'marker' then
    written = 'PROCESSING:' .. form.kind .. ':' .. token .. ':' .. moment
  else
    written = seconds(math.max(now, (number(row, form.column) or 0) + 0.000001))
  end
  redis.call('HSET', row, form.column, written)
  return written
end

local function let_go(row)
  if form.kind_of_form == 'columns' then
    redis.call('HDEL', row, form.holder, form['until'])
    redis.call('HSET', row, form.fence, grown(row))
  else
    redis.call('HDEL', row, form.column)
  end
end

-- A comparison with a missing field is never true, as with NULL in SQL. Numbers compare as numbers, text as text.
local function holds(row, guard)
  local operator, value = guard[2], guard[3]
  -- P10: the lease is still in this epoch, so an old leader can claim nothing more
  if operator == 'epoch' then return redis.call('HGET', KEYS[#KEYS - leases + guard[1]], 'epoch') == value end
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

local function note(row, stream, move, outcome, before, after)
  if not stream then return end
  redis.call('XADD', stream, '*', 'lifecycle', claim.lifecycle, 'move', move, 'outcome', outcome,
    'before', before, 'after', after, 'revision', claim.revision and redis.call('HGET', row, claim.revision) or '',
    'actor', by, 'reason', reason, 'call', '', 'at', moment)
end

-- Moves the row along a declared move, if there is one.
local function go(row, move)
  if claim.revision then redis.call('HINCRBY', row, claim.revision, 1) end
  if not move then return end
  redis.call('HSET', row, claim.column, move.target)
  for _, stamp in ipairs(move.stamp) do redis.call('HSET', row, stamp, moment) end
end

-- Why the row cannot be claimed, as bits: status, held, resting, attempts, line, then the guards.
local function unmet_of(row, before, line, member)
  local unmet = 0
  if not among(claim.open, before) then unmet = unmet + 1 end
  local ends = until_when(row)
  -- P3: nobody holds it, or the lease is over by the store's clock
  if ends and ends > now then unmet = unmet + 2 end
  local rests = number(row, claim.after)
  if rests and rests > now then unmet = unmet + 4 end
  if claim.cap and (number(row, claim.attempts) or 0) >= claim.cap then unmet = unmet + 8 end
  if line and redis.call('ZRANGE', line, 0, 0)[1] ~= member then unmet = unmet + 16 end
  local bit = 32
  for _, guard in ipairs(guards) do
    if not holds(row, guard) then unmet = unmet + bit end
    bit = bit * 2
  end
  return unmet, ends, rests
end

local function claimed(row, stream, at, before)
  local revised = claim.move or claim.revision
  if revised then go(row, claim.move) end
  if form.kind_of_form == 'columns' then redis.call('HSET', row, form.holder, by, form.fence, grown(row)) end
  local attempts = claim.attempts and redis.call('HINCRBY', row, claim.attempts, 1) or 1
  local fence = hold(row, at)
  local moved = claim.move and before ~= claim.move.target
  note(row, stream, claim.move and claim.move.name or claim.name, moved and 'moved' or 'claimed', before,
    claim.move and claim.move.target or before)
  local answer = {'claimed', fence, attempts, before}
  for _, column in ipairs(claim.returning) do answer[#answer + 1] = redis.call('HGET', row, column) end
  return answer
end

local decide = {}

-- One of the rows that the index proposes: {'claimed', fence, attempts, before, columns …}, {'kept'} where it is in the index,
-- {'later'} with a new time there, {'gone'} if the row is no longer open.
function decide.acquire(row, stream, at, line)
  local before = redis.call('HGET', row, claim.column)
  if not before or not among(claim.open, before) then
    if not claim.serial then redis.call('ZREM', index, ARGV[at]) end
    return {'gone'}
  end
  local unmet, ends, rests = unmet_of(row, before)
  if unmet == 0 then return claimed(row, stream, at, before) end
  if ends and ends > now then
    redis.call('ZADD', index, seconds(ends), ARGV[at])
    return {'later'}
  elseif rests and rests > now then
    redis.call('ZADD', index, seconds(rests), ARGV[at])
    return {'later'}
  elseif unmet == 8 and not claim.exhausted and not claim.serial then
    redis.call('ZREM', index, ARGV[at]) -- nobody will claim it again
    return {'gone'}
  end
  return {'kept'}
end

-- One row by its key: {'claimed', …} or {'taken', before, unmet, holder}, {'missing'}.
function decide.one(row, stream, at, line)
  local before = redis.call('HGET', row, claim.column)
  if not before then return {'missing'} end
  local unmet = unmet_of(row, before, line, ARGV[at])
  if unmet == 0 then return claimed(row, stream, at, before) end
  return {'taken', before, unmet, holder(row)}
end

-- A row that has had all its attempts and that nobody holds: {'set aside', attempts}, or {'kept'}.
function decide.set_aside(row, stream, at)
  local before = redis.call('HGET', row, claim.column)
  if not before or not among(claim.open, before) then return {'kept'} end
  local ends = until_when(row)
  local attempts = number(row, claim.attempts) or 0
  if (ends and ends > now) or attempts < claim.cap then return {'kept'} end
  go(row, claim.exhausted)
  redis.call('HDEL', row, unpack(claim.cleared))
  if claim.expires then
    redis.call('PEXPIRE', row, claim.expires)
    if stream then redis.call('PEXPIRE', stream, claim.expires) end
  end
  if not claim.serial then redis.call('ZREM', index, ARGV[at]) end
  note(row, stream, claim.exhausted.name, 'moved', before, claim.exhausted.target)
  return {'set aside', attempts}
end

-- P5: only the current holder; P4: an older fence than the newest is refused.
local function mine(row, at)
  local before = redis.call('HGET', row, claim.column)
  if not before then return false, {'missing'} end
  local fence = redis.call('HGET', row, claim.fence)
  if fence == ARGV[at + 1] and among(claim.held, before) then return before end
  return false, {'lost', before, fence, holder(row)}
end

function decide.renew(row, stream, at)
  local before, no = mine(row, at)
  if not before then return no end
  return {'renewed', hold(row, at)}
end

-- Gives the row back; with a delay it rests, without one its attempt is refunded.
function decide.give_back(row, stream, at)
  local before, no = mine(row, at)
  if not before then return no end
  let_go(row)
  if claim.back then go(row, claim.back) end
  local ready = now
  if ARGV[at + 2] == '' then
    if (number(row, claim.attempts) or 0) > 0 then redis.call('HINCRBY', row, claim.attempts, -1) end
  elseif claim.after then
    ready = now + tonumber(ARGV[at + 2])
    redis.call('HSET', row, claim.after, seconds(ready))
  end
  if claim.indexed then redis.call('ZADD', index, seconds(ready), ARGV[at]) end
  note(row, stream, claim.back and claim.back.name or claim.name, claim.back and 'moved' or 'released', before,
    claim.back and claim.back.target or before)
  return {'released'}
end

-- Puts a row into the index, and into its line; of a line only the first is in the index.
function decide.offer(row, stream, at, line)
  -- rows that are offered together keep their order
  local when = now - (#ARGV - at) * 0.000001
  local last = line and redis.call('ZRANGE', line, -1, -1, 'WITHSCORES')[2]
  if last then when = math.max(when, tonumber(last) + 0.000001) end
  when = seconds(when)
  local before = redis.call('HGET', row, claim.column)
  if not before or not among(claim.open, before) then return {'gone'} end
  if line then
    redis.call('ZADD', line, 'NX', when, ARGV[at])
    if redis.call('ZRANGE', line, 0, 0)[1] ~= ARGV[at] then return {'in line'} end
  end
  redis.call('ZADD', index, 'NX', when, ARGV[at])
  redis.call('PUBLISH', index, '')
  return {'offered'}
end

-- Takes a row that is no longer open out of the index and its line; the next in line follows.
function decide.advance(row, stream, at, line)
  local before = redis.call('HGET', row, claim.column)
  if before and among(claim.open, before) then return {'kept'} end
  redis.call('ZREM', index, ARGV[at])
  if line then
    redis.call('ZREM', line, ARGV[at])
    local following = redis.call('ZRANGE', line, 0, 0)[1]
    if following then redis.call('ZADD', index, 'NX', moment, following) end
  end
  return {'gone'}
end

-- What the lines of rows are called by: {value} for each.
function decide.serial(row) return {redis.call('HGET', row, claim.serial)} end

if action == 'due' then
  return redis.call('ZRANGEBYSCORE', index, '-inf', moment, 'LIMIT', ARGV[10], ARGV[7])
end

local answers, wins, most = {}, 0, tonumber(ARGV[7])
local streams = claim.history and 1 + rows
local before_lines = 1 + rows * (claim.history and 2 or 1)
local lines = #KEYS - leases > before_lines and before_lines
for i = 1, rows do
  if wins >= most then break end
  local answer = decide[action](KEYS[1 + i], streams and KEYS[streams + i], 7 + i * 3, lines and KEYS[lines + i])
  if answer[1] == 'claimed' or answer[1] == 'set aside' then wins = wins + 1 end
  answers[i] = answer
end
return answers
