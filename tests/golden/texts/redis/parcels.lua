-- claim: claim.acquire
-- claim.acquire
-- page = ARGV[3]
-- lease = 45.0
-- reason = ''
-- by = ARGV[1]
-- limit = ARGV[2]
-- offset = ARGV[4]
-- begin = ARGV[5]
-- given_now = ARGV[6]
-- given_guards = ARGV[7]
-- index = 'shop.parcels/pack'
-- lines = 'shop.parcels/pack/lines'
-- row_prefix = 'shop.parcels:'
-- serial = 'lane'
-- seen_attempts = seen[5]
-- seen_after = seen[4]
-- seen_revision = seen[6]
-- looked_at = 'stage', 'claimed_until', 'fence', 'rests_until', 'tries', 'rev'
-- lifecycle = 'Parcel'
local open = {['NEW'] = true, ['BUSY'] = true}
-- stream_prefix = 'shop.parcels/history:'
-- claim_fields = 'claimed_by', ARGV[1], 'fence', fence, 'claimed_until', ends_then, 'stage', 'BUSY', 'started_at', moment, 'rev', revision, 'tries', attempts
-- revision_column = 'rev'
-- attempts_column = 'tries'
-- cap = 4
-- returned = 'weight'
-- start_name = 'start'
-- start_target = 'BUSY'

-- Whether a row meets a guard [column, operator, value].
-- A comparison with a missing field is never true, as with NULL in SQL. Numbers compare as numbers, text as text.
local function holds(row, guard)
  local operator, value = guard[2], guard[3]
  -- P10: the lease, so many keys before the last, is still in this epoch; an old leader can write nothing more
  if operator == 'epoch' then return redis.call('HGET', KEYS[#KEYS - guard[1]], 'epoch') == value end
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

-- Which of the guards the row does not meet, as bits from this one on.
local function unmet_guards(row, guards, bit)
  local unmet = 0
  for _, guard in ipairs(guards) do
    if not holds(row, guard) then unmet = unmet + bit end
    bit = bit * 2
  end
  return unmet
end

-- The whole number after this one, the first if there is none, and nothing if it is no such number. Lua's own numbers lose
-- digits beyond 2^53: a longer one stays text.
local function one_more(text)
  if not text then return 1 end
  if #text < 16 and string.find(text, '^%-?%d+$') then return text + 1 end
  local head, digit, nines = string.match('0' .. text, '^(%d-)([0-8])(9*)$')
  return head and string.gsub(head .. digit + 1 .. string.rep('0', #nines), '^0+', '') or nil
end

-- A number that grows with each holder (P4, P10): by one at least, and to the microseconds of now, also where a lossy
-- failover has forgotten the last ones.
local function grown(number, now)
  local least, following = math.floor(now * 1000000), (tonumber(number) or 0) + 1
  if following < 9007199254740992 then return string.format('%.0f', math.max(following, least)) end
  return one_more(number) or string.format('%.0f', least)
end

-- The line of rows with the value that this one has in its column `serial`; '' without a value, for such a row stands alone.
local function own_line(row, key)
  local value = redis.pcall('HGET', row, 'lane')
  if type(value) ~= 'string' then return '' end
  return 'shop.parcels/pack' .. '/line:' .. string.match(key, '^[^:]*:?') .. value
end

-- The line in which a row stands. It is kept beside the index, for a row that is gone cannot tell it any more (P13).
local function line_of(row, key)
  return redis.call('HGET', 'shop.parcels/pack/lines', key) or own_line(row, key)
end

-- Takes a row out of the index of a claim, in which it waited, and out of its line; the next in line follows, and is told.
local function leave(row, key)
  redis.call('ZREM', 'shop.parcels/pack', key)
  local line = line_of(row, key)
  redis.call('HDEL', 'shop.parcels/pack/lines', key)
  if line == '' then return end
  redis.call('ZREM', line, key)
  local following = redis.call('ZRANGE', line, 0, 0)[1]
  if not following then return end
  local time = redis.call('TIME')
  local since = string.format('%s.%06d', time[1], time[2])
  if redis.call('ZADD', 'shop.parcels/pack', 'NX', since, following) == 1 then return following end
end

local moment = ARGV[6]
local now = tonumber(moment)
local ends_then = string.format('%.6f', now + 45.0)
local guarded = cjson.decode(ARGV[7])

-- When the lease of a row is over, by what stands there; nothing if nobody holds it.
local function lease_end(text)
  local ends = text and tonumber(text)
  return ends
end

-- Whether a lease that ends then is still held. One that ends more than twice its length from now was taken before the clock
-- was set back, and whoever took it may be dead (P13). A longer lease than this caller's ends far ahead too; but its fence is
-- no later than the clock.
local function is_held(ends, fence)
  local ahead = ends and ends > now + 2 * 45.0
  ahead = ahead and (tonumber(fence) or 0) > now * 1000000
  -- P3: by the store's clock
  return ends and ends > now and not ahead
end

local function note(stream, move, outcome, before, after, revision, actor)
  return redis.pcall('XADD', stream, '*', 'lifecycle', 'Parcel', 'move', move, 'outcome', outcome, 'before', before,
    'after', after, 'revision', revision, 'actor', actor, 'reason', '', 'call', '', 'at', moment)
end

-- Writes a claim into the row, and returns its fence and how many attempts there were; or false, and why it cannot.
local function hold(row, key, stream, before, seen)
  local fence, revision = grown(seen[3], now), ''
  local attempts = one_more(seen[5])
  if not attempts then return false, 'tries' .. ' is no whole number' end
  revision = one_more(seen[6])
  if not revision then return false, 'rev' .. ' is no whole number' end
  local moved = 'BUSY' and before ~= 'BUSY'
  local outcome, after = moved and 'moved' or 'claimed', 'BUSY' or before
  local noted = note(stream, 'start', outcome, before, after, revision, ARGV[1])
  if noted.err then return false, noted.err end
  redis.call('ZADD', 'shop.parcels/pack', ends_then, key)
  redis.call('HSET', row, 'claimed_by', ARGV[1], 'fence', fence, 'claimed_until', ends_then, 'stage', 'BUSY', 'started_at', moment, 'rev', revision, 'tries', attempts)
  return fence, tonumber(attempts)
end

-- A row that cannot be decided keeps nobody from the others: it is told of, and proposed again when a lease is over.
local failed
local function pass_over(key, why)
  redis.call('ZADD', 'shop.parcels/pack', ends_then, key)
  failed = failed or {0}
  failed[#failed + 1], failed[#failed + 2] = key, why
end

local most = tonumber(ARGV[2])
local keys = redis.call('ZRANGEBYSCORE', 'shop.parcels/pack', '-inf', moment, 'LIMIT', ARGV[4], ARGV[3])
local proposed, kept = #keys, 0
local own = {}
for _, key in ipairs(keys) do
  if string.sub(key, 1, #ARGV[5]) == ARGV[5] then own[#own + 1] = key end
end
kept, keys = proposed - #own, own
local found, wins, place, looked = {proposed, 0}, 0, 2, #keys
-- P13: rows that wait for longer than any lease either rest, or were held when the clock was set back. Where there is nothing
-- else, a few of them are looked at, beginning where the clock says, so that each has its turn.
if proposed == 0 then
  local later = '(' .. string.format('%.6f', now + 2 * 45.0)
  local number = redis.call('ZCOUNT', 'shop.parcels/pack', later, '+inf')
  local first = math.floor(now * 1000) % math.max(number - 9, 1)
  for _, key in ipairs(redis.call('ZRANGEBYSCORE', 'shop.parcels/pack', later, '+inf', 'LIMIT', first, 10)) do
    if string.sub(key, 1, #ARGV[5]) == ARGV[5] then keys[#keys + 1] = key end
  end
end
for i, key in ipairs(keys) do
  if wins == most then break end
  local row = 'shop.parcels:' .. key
  local stream = 'shop.parcels/history:' .. key
  -- a key of another type is not a row of ours
  local seen = redis.pcall('HMGET', row, 'stage', 'claimed_until', 'fence', 'rests_until', 'tries', 'rev')
  local before, ends = seen[1], lease_end(seen[2])

  local rests = seen[4] and tonumber(seen[4])
  if not open[before] then
    local following = leave(row, key)
    -- the next in its line is looked at too, and those behind it if that one is gone as well (P13)
    if i < 1000 then keys[#keys + 1] = following end
  -- P3: nobody holds it, or the lease is over by the store's clock; if not, the index learns from when on it can be claimed
  elseif is_held(ends, seen[3]) then
    redis.call('ZADD', 'shop.parcels/pack', string.format('%.6f', ends), key)
  elseif rests and rests > now then
    redis.call('ZADD', 'shop.parcels/pack', string.format('%.6f', rests), key)
  elseif (tonumber(seen[5]) or 0) >= 4 then
    if i <= looked then kept = kept + 1 end
  elseif unmet_guards(row, guarded, 1) > 0 then
    if i <= looked then kept = kept + 1 end
  else
    local fence, attempts = hold(row, key, stream, before, seen)
    if not fence then
      pass_over(key, attempts)
    else
      wins = wins + 1
      found[place + 1], found[place + 2], found[place + 3], found[place + 4] = key, fence, attempts, before
      place = place + 4
      for _, value in ipairs(redis.call('HMGET', row, 'weight')) do
        place = place + 1
        found[place] = value
      end
    end
  end
end

found[2] = kept
if failed then
  failed[1], found[2] = kept, failed
end
return found

-- claim by the store's clock: claim.acquire
-- claim.acquire
-- page = ARGV[3]
-- lease = 45.0
-- reason = ''
-- by = ARGV[1]
-- limit = ARGV[2]
-- offset = ARGV[4]
-- begin = ARGV[5]
-- given_guards = ARGV[6]
-- index = 'shop.parcels/pack'
-- lines = 'shop.parcels/pack/lines'
-- row_prefix = 'shop.parcels:'
-- serial = 'lane'
-- seen_attempts = seen[5]
-- seen_after = seen[4]
-- seen_revision = seen[6]
-- looked_at = 'stage', 'claimed_until', 'fence', 'rests_until', 'tries', 'rev'
-- lifecycle = 'Parcel'
local open = {['NEW'] = true, ['BUSY'] = true}
-- stream_prefix = 'shop.parcels/history:'
-- claim_fields = 'claimed_by', ARGV[1], 'fence', fence, 'claimed_until', ends_then, 'stage', 'BUSY', 'started_at', moment, 'rev', revision, 'tries', attempts
-- revision_column = 'rev'
-- attempts_column = 'tries'
-- cap = 4
-- start_name = 'start'
-- start_target = 'BUSY'

-- Whether a row meets a guard [column, operator, value].
-- A comparison with a missing field is never true, as with NULL in SQL. Numbers compare as numbers, text as text.
local function holds(row, guard)
  local operator, value = guard[2], guard[3]
  -- P10: the lease, so many keys before the last, is still in this epoch; an old leader can write nothing more
  if operator == 'epoch' then return redis.call('HGET', KEYS[#KEYS - guard[1]], 'epoch') == value end
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

-- Which of the guards the row does not meet, as bits from this one on.
local function unmet_guards(row, guards, bit)
  local unmet = 0
  for _, guard in ipairs(guards) do
    if not holds(row, guard) then unmet = unmet + bit end
    bit = bit * 2
  end
  return unmet
end

-- The whole number after this one, the first if there is none, and nothing if it is no such number. Lua's own numbers lose
-- digits beyond 2^53: a longer one stays text.
local function one_more(text)
  if not text then return 1 end
  if #text < 16 and string.find(text, '^%-?%d+$') then return text + 1 end
  local head, digit, nines = string.match('0' .. text, '^(%d-)([0-8])(9*)$')
  return head and string.gsub(head .. digit + 1 .. string.rep('0', #nines), '^0+', '') or nil
end

-- A number that grows with each holder (P4, P10): by one at least, and to the microseconds of now, also where a lossy
-- failover has forgotten the last ones.
local function grown(number, now)
  local least, following = math.floor(now * 1000000), (tonumber(number) or 0) + 1
  if following < 9007199254740992 then return string.format('%.0f', math.max(following, least)) end
  return one_more(number) or string.format('%.0f', least)
end

-- The line of rows with the value that this one has in its column `serial`; '' without a value, for such a row stands alone.
local function own_line(row, key)
  local value = redis.pcall('HGET', row, 'lane')
  if type(value) ~= 'string' then return '' end
  return 'shop.parcels/pack' .. '/line:' .. string.match(key, '^[^:]*:?') .. value
end

-- The line in which a row stands. It is kept beside the index, for a row that is gone cannot tell it any more (P13).
local function line_of(row, key)
  return redis.call('HGET', 'shop.parcels/pack/lines', key) or own_line(row, key)
end

-- Takes a row out of the index of a claim, in which it waited, and out of its line; the next in line follows, and is told.
local function leave(row, key)
  redis.call('ZREM', 'shop.parcels/pack', key)
  local line = line_of(row, key)
  redis.call('HDEL', 'shop.parcels/pack/lines', key)
  if line == '' then return end
  redis.call('ZREM', line, key)
  local following = redis.call('ZRANGE', line, 0, 0)[1]
  if not following then return end
  local time = redis.call('TIME')
  local since = string.format('%s.%06d', time[1], time[2])
  if redis.call('ZADD', 'shop.parcels/pack', 'NX', since, following) == 1 then return following end
end

local time = redis.call('TIME')
local moment = string.format('%s.%06d', time[1], time[2])
local now = tonumber(moment)
local ends_then = string.format('%.6f', now + 45.0)
local guarded = cjson.decode(ARGV[6])

-- When the lease of a row is over, by what stands there; nothing if nobody holds it.
local function lease_end(text)
  local ends = text and tonumber(text)
  return ends
end

-- Whether a lease that ends then is still held. One that ends more than twice its length from now was taken before the clock
-- was set back, and whoever took it may be dead (P13). A longer lease than this caller's ends far ahead too; but its fence is
-- no later than the clock.
local function is_held(ends, fence)
  local ahead = ends and ends > now + 2 * 45.0
  ahead = ahead and (tonumber(fence) or 0) > now * 1000000
  -- P3: by the store's clock
  return ends and ends > now and not ahead
end

local function note(stream, move, outcome, before, after, revision, actor)
  return redis.pcall('XADD', stream, '*', 'lifecycle', 'Parcel', 'move', move, 'outcome', outcome, 'before', before,
    'after', after, 'revision', revision, 'actor', actor, 'reason', '', 'call', '', 'at', moment)
end

-- Writes a claim into the row, and returns its fence and how many attempts there were; or false, and why it cannot.
local function hold(row, key, stream, before, seen)
  local fence, revision = grown(seen[3], now), ''
  local attempts = one_more(seen[5])
  if not attempts then return false, 'tries' .. ' is no whole number' end
  revision = one_more(seen[6])
  if not revision then return false, 'rev' .. ' is no whole number' end
  local moved = 'BUSY' and before ~= 'BUSY'
  local outcome, after = moved and 'moved' or 'claimed', 'BUSY' or before
  local noted = note(stream, 'start', outcome, before, after, revision, ARGV[1])
  if noted.err then return false, noted.err end
  redis.call('ZADD', 'shop.parcels/pack', ends_then, key)
  redis.call('HSET', row, 'claimed_by', ARGV[1], 'fence', fence, 'claimed_until', ends_then, 'stage', 'BUSY', 'started_at', moment, 'rev', revision, 'tries', attempts)
  return fence, tonumber(attempts)
end

-- A row that cannot be decided keeps nobody from the others: it is told of, and proposed again when a lease is over.
local failed
local function pass_over(key, why)
  redis.call('ZADD', 'shop.parcels/pack', ends_then, key)
  failed = failed or {0}
  failed[#failed + 1], failed[#failed + 2] = key, why
end

local most = tonumber(ARGV[2])
local keys = redis.call('ZRANGEBYSCORE', 'shop.parcels/pack', '-inf', moment, 'LIMIT', ARGV[4], ARGV[3])
local proposed, kept = #keys, 0
local own = {}
for _, key in ipairs(keys) do
  if string.sub(key, 1, #ARGV[5]) == ARGV[5] then own[#own + 1] = key end
end
kept, keys = proposed - #own, own
local found, wins, place, looked = {proposed, 0}, 0, 2, #keys
-- P13: rows that wait for longer than any lease either rest, or were held when the clock was set back. Where there is nothing
-- else, a few of them are looked at, beginning where the clock says, so that each has its turn.
if proposed == 0 then
  local later = '(' .. string.format('%.6f', now + 2 * 45.0)
  local number = redis.call('ZCOUNT', 'shop.parcels/pack', later, '+inf')
  local first = math.floor(now * 1000) % math.max(number - 9, 1)
  for _, key in ipairs(redis.call('ZRANGEBYSCORE', 'shop.parcels/pack', later, '+inf', 'LIMIT', first, 10)) do
    if string.sub(key, 1, #ARGV[5]) == ARGV[5] then keys[#keys + 1] = key end
  end
end
for i, key in ipairs(keys) do
  if wins == most then break end
  local row = 'shop.parcels:' .. key
  local stream = 'shop.parcels/history:' .. key
  -- a key of another type is not a row of ours
  local seen = redis.pcall('HMGET', row, 'stage', 'claimed_until', 'fence', 'rests_until', 'tries', 'rev')
  local before, ends = seen[1], lease_end(seen[2])

  local rests = seen[4] and tonumber(seen[4])
  if not open[before] then
    local following = leave(row, key)
    -- the next in its line is looked at too, and those behind it if that one is gone as well (P13)
    if i < 1000 then keys[#keys + 1] = following end
  -- P3: nobody holds it, or the lease is over by the store's clock; if not, the index learns from when on it can be claimed
  elseif is_held(ends, seen[3]) then
    redis.call('ZADD', 'shop.parcels/pack', string.format('%.6f', ends), key)
  elseif rests and rests > now then
    redis.call('ZADD', 'shop.parcels/pack', string.format('%.6f', rests), key)
  elseif (tonumber(seen[5]) or 0) >= 4 then
    if i <= looked then kept = kept + 1 end
  elseif unmet_guards(row, guarded, 1) > 0 then
    if i <= looked then kept = kept + 1 end
  else
    local fence, attempts = hold(row, key, stream, before, seen)
    if not fence then
      pass_over(key, attempts)
    else
      wins = wins + 1
      found[place + 1], found[place + 2], found[place + 3], found[place + 4] = key, fence, attempts, before
      place = place + 4
    end
  end
end

found[2] = kept
if failed then
  failed[1], found[2] = kept, failed
end
return found

-- claim_one: claim.one
-- claim.one
-- lease = 45.0
-- reason = ARGV[2]
-- by = ARGV[1]
-- given_now = ARGV[3]
-- given_guards = ARGV[4]
-- index = 'shop.parcels/pack'
-- lines = 'shop.parcels/pack/lines'
-- row_prefix = 'shop.parcels:'
-- serial = 'lane'
-- seen_holder = seen[7]
-- seen_attempts = seen[5]
-- seen_after = seen[4]
-- seen_revision = seen[6]
-- looked_at = 'stage', 'claimed_until', 'fence', 'rests_until', 'tries', 'rev', 'claimed_by'
-- lifecycle = 'Parcel'
-- column = 'stage'
local open = {['NEW'] = true, ['BUSY'] = true}
-- stream_key = KEYS[rows + i]
-- claim_fields = 'claimed_by', ARGV[1], 'fence', fence, 'claimed_until', ends_then, 'stage', 'BUSY', 'started_at', moment, 'rev', revision, 'tries', attempts
-- revision_column = 'rev'
-- attempts_column = 'tries'
-- cap = 4
-- other_keys = 1
-- keys_of_a_row = 2
-- first_value = 2
-- start_name = 'start'
-- start_target = 'BUSY'

-- Whether a row meets a guard [column, operator, value].
-- A comparison with a missing field is never true, as with NULL in SQL. Numbers compare as numbers, text as text.
local function holds(row, guard)
  local operator, value = guard[2], guard[3]
  -- P10: the lease, so many keys before the last, is still in this epoch; an old leader can write nothing more
  if operator == 'epoch' then return redis.call('HGET', KEYS[#KEYS - guard[1]], 'epoch') == value end
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

-- Which of the guards the row does not meet, as bits from this one on.
local function unmet_guards(row, guards, bit)
  local unmet = 0
  for _, guard in ipairs(guards) do
    if not holds(row, guard) then unmet = unmet + bit end
    bit = bit * 2
  end
  return unmet
end

-- The whole number after this one, the first if there is none, and nothing if it is no such number. Lua's own numbers lose
-- digits beyond 2^53: a longer one stays text.
local function one_more(text)
  if not text then return 1 end
  if #text < 16 and string.find(text, '^%-?%d+$') then return text + 1 end
  local head, digit, nines = string.match('0' .. text, '^(%d-)([0-8])(9*)$')
  return head and string.gsub(head .. digit + 1 .. string.rep('0', #nines), '^0+', '') or nil
end

-- A number that grows with each holder (P4, P10): by one at least, and to the microseconds of now, also where a lossy
-- failover has forgotten the last ones.
local function grown(number, now)
  local least, following = math.floor(now * 1000000), (tonumber(number) or 0) + 1
  if following < 9007199254740992 then return string.format('%.0f', math.max(following, least)) end
  return one_more(number) or string.format('%.0f', least)
end

-- The line of rows with the value that this one has in its column `serial`; '' without a value, for such a row stands alone.
local function own_line(row, key)
  local value = redis.pcall('HGET', row, 'lane')
  if type(value) ~= 'string' then return '' end
  return 'shop.parcels/pack' .. '/line:' .. string.match(key, '^[^:]*:?') .. value
end

-- The line in which a row stands. It is kept beside the index, for a row that is gone cannot tell it any more (P13).
local function line_of(row, key)
  return redis.call('HGET', 'shop.parcels/pack/lines', key) or own_line(row, key)
end

-- Takes a row out of the index of a claim, in which it waited, and out of its line; the next in line follows, and is told.
local function leave(row, key)
  redis.call('ZREM', 'shop.parcels/pack', key)
  local line = line_of(row, key)
  redis.call('HDEL', 'shop.parcels/pack/lines', key)
  if line == '' then return end
  redis.call('ZREM', line, key)
  local following = redis.call('ZRANGE', line, 0, 0)[1]
  if not following then return end
  local time = redis.call('TIME')
  local since = string.format('%s.%06d', time[1], time[2])
  if redis.call('ZADD', 'shop.parcels/pack', 'NX', since, following) == 1 then return following end
end

-- The first of a line. Those before this row that are gone, or have ended, would hold up all behind them: they leave.
local function first_of(line, key)
  while true do
    local first = redis.call('ZRANGE', line, 0, 0)[1]
    if not first or first == key or open[redis.pcall('HGET', 'shop.parcels:' .. first, 'stage')] then return first end
    redis.call('ZREM', line, first)
    leave('shop.parcels:' .. first, first)
  end
end

local moment = ARGV[3]
local now = tonumber(moment)
local ends_then = string.format('%.6f', now + 45.0)
local guarded = cjson.decode(ARGV[4])

-- When the lease of a row is over, by what stands there; nothing if nobody holds it.
local function lease_end(text)
  local ends = text and tonumber(text)
  return ends
end

-- Whether a lease that ends then is still held. One that ends more than twice its length from now was taken before the clock
-- was set back, and whoever took it may be dead (P13). A longer lease than this caller's ends far ahead too; but its fence is
-- no later than the clock.
local function is_held(ends, fence)
  local ahead = ends and ends > now + 2 * 45.0
  ahead = ahead and (tonumber(fence) or 0) > now * 1000000
  -- P3: by the store's clock
  return ends and ends > now and not ahead
end

local function note(stream, move, outcome, before, after, revision, actor)
  return redis.pcall('XADD', stream, '*', 'lifecycle', 'Parcel', 'move', move, 'outcome', outcome, 'before', before,
    'after', after, 'revision', revision, 'actor', actor, 'reason', ARGV[2], 'call', '', 'at', moment)
end

-- Writes a claim into the row, and returns its fence and how many attempts there were; or false, and why it cannot.
local function hold(row, key, stream, before, seen)
  local fence, revision = grown(seen[3], now), ''
  local attempts = one_more(seen[5])
  if not attempts then return false, 'tries' .. ' is no whole number' end
  revision = one_more(seen[6])
  if not revision then return false, 'rev' .. ' is no whole number' end
  local moved = 'BUSY' and before ~= 'BUSY'
  local outcome, after = moved and 'moved' or 'claimed', 'BUSY' or before
  local noted = note(stream, 'start', outcome, before, after, revision, ARGV[1])
  if noted.err then return false, noted.err end
  redis.call('ZADD', 'shop.parcels/pack', ends_then, key)
  redis.call('HSET', row, 'claimed_by', ARGV[1], 'fence', fence, 'claimed_until', ends_then, 'stage', 'BUSY', 'started_at', moment, 'rev', revision, 'tries', attempts)
  return fence, tonumber(attempts)
end

-- One row by its key: {'claimed', fence, attempts, before, columns …} or {'taken', before, unmet, holder}, {'missing'}.
-- Why it cannot be claimed is told as bits: status, held, resting, attempts, line, then the guards.
local function decide(row, stream)
  local key, seen = string.sub(row, #'shop.parcels:' + 1), redis.pcall('HMGET', row, 'stage', 'claimed_until', 'fence', 'rests_until', 'tries', 'rev', 'claimed_by')
  local before, ends, unmet = seen[1], lease_end(seen[2]), 0
  if not before then return {'missing'} end
  if not open[before] then unmet = 1 end
  -- P3: as above
  if is_held(ends, seen[3]) then unmet = unmet + 2 end
  if (tonumber(seen[4]) or 0) > now then unmet = unmet + 4 end
  if (tonumber(seen[5]) or 0) >= 4 then unmet = unmet + 8 end
  local line = line_of(row, key)
  if line ~= '' and first_of(line, key) ~= key then unmet = unmet + 16 end
  unmet = unmet + unmet_guards(row, guarded, 32)
  if unmet > 0 then return {'taken', before, unmet, seen[7]} end
  local fence, attempts = hold(row, key, stream, before, seen)
  if not fence then return {'error', attempts} end
  return {'claimed', fence, attempts, before}
end

local answers, rows = {}, (#KEYS - 1) / 2
for i = 1, rows do
  local place = 2 + i * 3
  answers[i] = decide(KEYS[i], KEYS[rows + i], ARGV[place], ARGV[place + 1], rows - i, ARGV[place + 2])
end
return answers

-- renew: claim.renew
-- claim.renew
-- lease = 45.0
-- reason = ARGV[1]
-- given_now = ARGV[2]
-- index = 'shop.parcels/pack'
-- lines = 'shop.parcels/pack/lines'
-- row_prefix = 'shop.parcels:'
-- serial = 'lane'
-- seen_holder = seen[6]
-- looked_at = 'stage', 'claimed_until', 'fence', 'rests_until', 'tries', 'claimed_by'
-- lifecycle = 'Parcel'
local held = {['BUSY'] = true}
-- stream_key = KEYS[rows + i]
-- renew_fields = 'claimed_until', ends_then
-- other_keys = 1
-- keys_of_a_row = 2
-- first_value = 1

-- The whole number after this one, the first if there is none, and nothing if it is no such number. Lua's own numbers lose
-- digits beyond 2^53: a longer one stays text.
local function one_more(text)
  if not text then return 1 end
  if #text < 16 and string.find(text, '^%-?%d+$') then return text + 1 end
  local head, digit, nines = string.match('0' .. text, '^(%d-)([0-8])(9*)$')
  return head and string.gsub(head .. digit + 1 .. string.rep('0', #nines), '^0+', '') or nil
end

-- The line of rows with the value that this one has in its column `serial`; '' without a value, for such a row stands alone.
local function own_line(row, key)
  local value = redis.pcall('HGET', row, 'lane')
  if type(value) ~= 'string' then return '' end
  return 'shop.parcels/pack' .. '/line:' .. string.match(key, '^[^:]*:?') .. value
end

-- The line in which a row stands. It is kept beside the index, for a row that is gone cannot tell it any more (P13).
local function line_of(row, key)
  return redis.call('HGET', 'shop.parcels/pack/lines', key) or own_line(row, key)
end

local moment = ARGV[2]
local now = tonumber(moment)
local ends_then = string.format('%.6f', now + 45.0)

local function note(stream, move, outcome, before, after, revision, actor)
  return redis.pcall('XADD', stream, '*', 'lifecycle', 'Parcel', 'move', move, 'outcome', outcome, 'before', before,
    'after', after, 'revision', revision, 'actor', actor, 'reason', ARGV[1], 'call', '', 'at', moment)
end

-- P5: only the current holder; P4: an older fence than the newest is refused.
local function refusal(seen, fence)
  if not seen[1] then return {'missing'} end
  if seen[3] ~= fence or not held[seen[1]] then return {'lost', seen[1], seen[3], seen[6]} end
end

local function decide(row, stream, fence)
  local seen = redis.pcall('HMGET', row, 'stage', 'claimed_until', 'fence', 'rests_until', 'tries', 'claimed_by')
  local refused = refusal(seen, fence)
  if refused then return refused end
  redis.call('HSET', row, 'claimed_until', ends_then)
  redis.call('ZADD', 'shop.parcels/pack', ends_then, string.sub(row, #'shop.parcels:' + 1))
  return {'renewed', fence}
end

local answers, rows = {}, (#KEYS - 1) / 2
for i = 1, rows do
  local place = 1 + i * 3
  answers[i] = decide(KEYS[i], KEYS[rows + i], ARGV[place], ARGV[place + 1], rows - i, ARGV[place + 2])
end
return answers

-- release: claim.give_back
-- claim.give_back
-- reason = ARGV[1]
-- given_now = ARGV[2]
-- index = 'shop.parcels/pack'
-- lines = 'shop.parcels/pack/lines'
-- row_prefix = 'shop.parcels:'
-- serial = 'lane'
-- seen_holder = seen[7]
-- seen_attempts = seen[5]
-- seen_revision = seen[6]
-- looked_at = 'stage', 'claimed_until', 'fence', 'rests_until', 'tries', 'rev', 'claimed_by'
-- lifecycle = 'Parcel'
local held = {['BUSY'] = true}
-- stream_key = KEYS[rows + i]
-- back_fields = 'fence', fence, 'stage', 'NEW', 'returned_at', moment, 'rev', revision
-- cleared = 'claimed_by', 'claimed_until'
-- revision_column = 'rev'
-- attempts_column = 'tries'
-- after_column = 'rests_until'
-- other_keys = 1
-- keys_of_a_row = 2
-- first_value = 1
-- back_name = 'back'
-- back_target = 'NEW'

-- The whole number after this one, the first if there is none, and nothing if it is no such number. Lua's own numbers lose
-- digits beyond 2^53: a longer one stays text.
local function one_more(text)
  if not text then return 1 end
  if #text < 16 and string.find(text, '^%-?%d+$') then return text + 1 end
  local head, digit, nines = string.match('0' .. text, '^(%d-)([0-8])(9*)$')
  return head and string.gsub(head .. digit + 1 .. string.rep('0', #nines), '^0+', '') or nil
end

-- A number that grows with each holder (P4, P10): by one at least, and to the microseconds of now, also where a lossy
-- failover has forgotten the last ones.
local function grown(number, now)
  local least, following = math.floor(now * 1000000), (tonumber(number) or 0) + 1
  if following < 9007199254740992 then return string.format('%.0f', math.max(following, least)) end
  return one_more(number) or string.format('%.0f', least)
end

-- The line of rows with the value that this one has in its column `serial`; '' without a value, for such a row stands alone.
local function own_line(row, key)
  local value = redis.pcall('HGET', row, 'lane')
  if type(value) ~= 'string' then return '' end
  return 'shop.parcels/pack' .. '/line:' .. string.match(key, '^[^:]*:?') .. value
end

-- The line in which a row stands. It is kept beside the index, for a row that is gone cannot tell it any more (P13).
local function line_of(row, key)
  return redis.call('HGET', 'shop.parcels/pack/lines', key) or own_line(row, key)
end

local moment = ARGV[2]
local now = tonumber(moment)

local function note(stream, move, outcome, before, after, revision, actor)
  return redis.pcall('XADD', stream, '*', 'lifecycle', 'Parcel', 'move', move, 'outcome', outcome, 'before', before,
    'after', after, 'revision', revision, 'actor', actor, 'reason', ARGV[1], 'call', '', 'at', moment)
end

-- P5: only the current holder; P4: an older fence than the newest is refused.
local function refusal(seen, fence)
  if not seen[1] then return {'missing'} end
  if seen[3] ~= fence or not held[seen[1]] then return {'lost', seen[1], seen[3], seen[7]} end
end

-- Gives the row back; with a delay it rests, without one its attempt is refunded.
local function decide(row, stream, fence, delay, after, holder)
  local seen = redis.pcall('HMGET', row, 'stage', 'claimed_until', 'fence', 'rests_until', 'tries', 'rev', 'claimed_by')
  local refused = refusal(seen, fence)
  if refused then return refused end
  local before, ready, revision = seen[1], moment, ''
  revision = one_more(seen[6])
  if not revision then return {'error', 'rev' .. ' is no whole number'} end
  local outcome = 'NEW' and 'moved' or 'released'
  local noted = note(stream, 'back', outcome, before, 'NEW' or before, revision, holder)
  if noted.err then return {'error', noted.err} end
  redis.call('HDEL', row, 'claimed_by', 'claimed_until')
  if delay == '' then
    if (tonumber(seen[5]) or 0) > 0 then redis.pcall('HINCRBY', row, 'tries', -1) end
  else
    ready = string.format('%.6f', now + delay)
    redis.call('HSET', row, 'rests_until', ready)
  end
  fence = grown(seen[3], now)
  redis.call('HSET', row, 'fence', fence, 'stage', 'NEW', 'returned_at', moment, 'rev', revision)
  redis.call('ZADD', 'shop.parcels/pack', ready, string.sub(row, #'shop.parcels:' + 1))
  return {'released'}
end

local answers, rows = {}, (#KEYS - 1) / 2
for i = 1, rows do
  local place = 1 + i * 3
  answers[i] = decide(KEYS[i], KEYS[rows + i], ARGV[place], ARGV[place + 1], rows - i, ARGV[place + 2])
end
return answers

-- fail: claim.give_back
-- ready: move
-- move
-- given_by = ARGV[3]
-- given_reason = ARGV[4]
-- given_call = ARGV[5]
-- given_fence = ARGV[1]
-- given_change = ARGV[2]
-- lifecycle = 'Parcel'
-- move_name = 'ready'
-- target = 'READY'
local sources = {['BUSY'] = true, ['NEW'] = true}
-- revision_column = 'rev'
-- looked_at = 'stage', 'fence', 'rev'
-- seen_fence = found[2]
-- seen_revision = found[3] or '0'
-- move_fields = 'stage', 'READY', 'rev', after, 'ready_at', moment
-- cleared = 'claimed_by', 'claimed_until'
-- returned = 'note'
-- first_asked = 4
-- index = 'shop.parcels/pack'
-- lines = 'shop.parcels/pack/lines'
-- row_prefix = 'shop.parcels:'
-- serial = 'lane'

-- The line of rows with the value that this one has in its column `serial`; '' without a value, for such a row stands alone.
local function own_line(row, key)
  local value = redis.pcall('HGET', row, 'lane')
  if type(value) ~= 'string' then return '' end
  return 'shop.parcels/pack' .. '/line:' .. string.match(key, '^[^:]*:?') .. value
end

-- The line in which a row stands. It is kept beside the index, for a row that is gone cannot tell it any more (P13).
local function line_of(row, key)
  return redis.call('HGET', 'shop.parcels/pack/lines', key) or own_line(row, key)
end

-- Takes a row out of the index of a claim, in which it waited, and out of its line; the next in line follows, and is told.
local function leave(row, key)
  redis.call('ZREM', 'shop.parcels/pack', key)
  local line = line_of(row, key)
  redis.call('HDEL', 'shop.parcels/pack/lines', key)
  if line == '' then return end
  redis.call('ZREM', line, key)
  local following = redis.call('ZRANGE', line, 0, 0)[1]
  if not following then return end
  local time = redis.call('TIME')
  local since = string.format('%s.%06d', time[1], time[2])
  if redis.call('ZADD', 'shop.parcels/pack', 'NX', since, following) == 1 then return following end
end

local time = redis.call('TIME')
local moment = string.format('%s.%06d', time[1], time[2])

-- The newest entry of the history that `test` accepts, among the newest thousand.
local function newest(stream, test)
  for _, entry in ipairs(redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1000)) do
    local fields = {}
    for i = 1, #entry[2], 2 do fields[entry[2][i]] = entry[2][i + 1] end
    if fields.outcome == 'moved' and test(fields) then return fields end
  end
end

local function note(stream, i, outcome, before, revision)
  return redis.pcall('XADD', stream, '*', 'lifecycle', 'Parcel', 'move', 'ready', 'outcome', outcome,
    'before', before, 'after', 'READY', 'revision', revision or '',
    'actor', ARGV[3], 'reason', ARGV[4], 'call', ARGV[5], 'at', moment)
end

-- The next revision. It is counted here and written with the rest; what Lua cannot count exactly is counted in the row.
local function next_revision(row, revision)
  if #revision < 16 and (revision == '0' or string.find(revision, '^[1-9]%d*$')) then
    return string.format('%.0f', revision + 1)
  end
  redis.call('HINCRBY', row, 'rev', 1)
  return redis.call('HGET', row, 'rev'), true
end

local row, stream, i = KEYS[1], KEYS[2], 1
  -- a key of another type is not a row of ours
  local found = redis.pcall('HMGET', row, 'stage', 'fence', 'rev')
  local before = found[1]
  if found.err or not before then return {} end
  -- numbers stay texts, because Lua's lose digits beyond 2^53
  local revision, fence = found[3] or '0', found[2]


  local unmet = 0
  -- P4: a write with another fence than the row's is refused
  if fence ~= ARGV[1] then unmet = unmet + 1 end

  -- P1: the row leaves only a status from which this move is declared
  if unmet == 0 and sources[before] then
    -- what can fail comes first, for a script that fails half-way is not undone: the history, and then the whole row at once
    local after, counted = false, false
    after, counted = next_revision(row, revision)
    local noted = note(stream, i, 'moved', before, after)
    if noted.err and counted then redis.call('HINCRBY', row, 'rev', -1) end
    if noted.err then return {false, 'error', noted.err} end
    redis.call('HDEL', row, 'claimed_by', 'claimed_until')
    -- the end of a claim that another process holds; P4: its fence fits no more, also if the row comes back
    local fields, change = {'stage', 'READY', 'rev', after, 'ready_at', moment}, cjson.decode(ARGV[2])
    for _, name in ipairs(change.clear) do redis.call('HDEL', row, name) end
    for name, value in pairs(change.set) do
      fields[#fields + 1] = name
      fields[#fields + 1] = value
    end
    redis.call('HSET', row, unpack(fields))
    leave(row, string.sub(row, #'shop.parcels:' + 1))
    return {before, after, unpack(redis.call('HMGET', row, 'note'))}
  end

  local by = false
  local last = newest(stream, function() return true end)
  local same = last and last.after == before and last.revision == (revision or '')
  if same and last.actor ~= '' then by = last.actor end
  -- what the caller asked of the row comes before 'already': its revision (2), and its guards, which follow the declared ones
  local asked = unmet % 4 >= 2 or unmet >= 4
  local outcome = unmet % 2 == 1 and 'lost' or before == 'READY' and not asked and 'already' or 'refused'
  local noted = note(stream, i, outcome, before, revision)
  if noted.err then return {false, 'error', noted.err} end
  return {false, 'not moved', before, revision, fence, unmet, by}

-- ready many: move
-- move
-- given_by = ARGV[3]
-- given_reason = ARGV[4]
-- given_call = ARGV[4 + 0 * rows + i]
-- given_fence = ARGV[1]
-- given_change = ARGV[2]
-- lifecycle = 'Parcel'
-- move_name = 'ready'
-- target = 'READY'
local sources = {['BUSY'] = true, ['NEW'] = true}
-- revision_column = 'rev'
-- looked_at = 'stage', 'fence', 'rev'
-- seen_fence = found[2]
-- seen_revision = found[3] or '0'
-- move_fields = 'stage', 'READY', 'rev', after, 'ready_at', moment
-- cleared = 'claimed_by', 'claimed_until'
-- keys_of_a_row = 2
-- stream_key = KEYS[rows + i]
-- leases = 0
-- first_asked = 4
-- index = 'shop.parcels/pack'
-- lines = 'shop.parcels/pack/lines'
-- row_prefix = 'shop.parcels:'
-- serial = 'lane'

-- The line of rows with the value that this one has in its column `serial`; '' without a value, for such a row stands alone.
local function own_line(row, key)
  local value = redis.pcall('HGET', row, 'lane')
  if type(value) ~= 'string' then return '' end
  return 'shop.parcels/pack' .. '/line:' .. string.match(key, '^[^:]*:?') .. value
end

-- The line in which a row stands. It is kept beside the index, for a row that is gone cannot tell it any more (P13).
local function line_of(row, key)
  return redis.call('HGET', 'shop.parcels/pack/lines', key) or own_line(row, key)
end

-- Takes a row out of the index of a claim, in which it waited, and out of its line; the next in line follows, and is told.
local function leave(row, key)
  redis.call('ZREM', 'shop.parcels/pack', key)
  local line = line_of(row, key)
  redis.call('HDEL', 'shop.parcels/pack/lines', key)
  if line == '' then return end
  redis.call('ZREM', line, key)
  local following = redis.call('ZRANGE', line, 0, 0)[1]
  if not following then return end
  local time = redis.call('TIME')
  local since = string.format('%s.%06d', time[1], time[2])
  if redis.call('ZADD', 'shop.parcels/pack', 'NX', since, following) == 1 then return following end
end

local rows = (#KEYS - 0) / 2
local time = redis.call('TIME')
local moment = string.format('%s.%06d', time[1], time[2])

-- The newest entry of the history that `test` accepts, among the newest thousand.
local function newest(stream, test)
  for _, entry in ipairs(redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1000)) do
    local fields = {}
    for i = 1, #entry[2], 2 do fields[entry[2][i]] = entry[2][i + 1] end
    if fields.outcome == 'moved' and test(fields) then return fields end
  end
end

local function note(stream, i, outcome, before, revision)
  return redis.pcall('XADD', stream, '*', 'lifecycle', 'Parcel', 'move', 'ready', 'outcome', outcome,
    'before', before, 'after', 'READY', 'revision', revision or '',
    'actor', ARGV[3], 'reason', ARGV[4], 'call', ARGV[4 + 0 * rows + i], 'at', moment)
end

-- The next revision. It is counted here and written with the rest; what Lua cannot count exactly is counted in the row.
local function next_revision(row, revision)
  if #revision < 16 and (revision == '0' or string.find(revision, '^[1-9]%d*$')) then
    return string.format('%.0f', revision + 1)
  end
  redis.call('HINCRBY', row, 'rev', 1)
  return redis.call('HGET', row, 'rev'), true
end

local function decide(row, stream, i)
  -- a key of another type is not a row of ours
  local found = redis.pcall('HMGET', row, 'stage', 'fence', 'rev')
  local before = found[1]
  if found.err or not before then return {} end
  -- numbers stay texts, because Lua's lose digits beyond 2^53
  local revision, fence = found[3] or '0', found[2]


  local unmet = 0
  -- P4: a write with another fence than the row's is refused
  if fence ~= ARGV[1] then unmet = unmet + 1 end

  -- P1: the row leaves only a status from which this move is declared
  if unmet == 0 and sources[before] then
    -- what can fail comes first, for a script that fails half-way is not undone: the history, and then the whole row at once
    local after, counted = false, false
    after, counted = next_revision(row, revision)
    local noted = note(stream, i, 'moved', before, after)
    if noted.err and counted then redis.call('HINCRBY', row, 'rev', -1) end
    if noted.err then return {false, 'error', noted.err} end
    redis.call('HDEL', row, 'claimed_by', 'claimed_until')
    -- the end of a claim that another process holds; P4: its fence fits no more, also if the row comes back
    local fields, change = {'stage', 'READY', 'rev', after, 'ready_at', moment}, cjson.decode(ARGV[2])
    for _, name in ipairs(change.clear) do redis.call('HDEL', row, name) end
    for name, value in pairs(change.set) do
      fields[#fields + 1] = name
      fields[#fields + 1] = value
    end
    redis.call('HSET', row, unpack(fields))
    leave(row, string.sub(row, #'shop.parcels:' + 1))
    return {before, after}
  end

  local by = false
  local last = newest(stream, function() return true end)
  local same = last and last.after == before and last.revision == (revision or '')
  if same and last.actor ~= '' then by = last.actor end
  -- what the caller asked of the row comes before 'already': its revision (2), and its guards, which follow the declared ones
  local asked = unmet % 4 >= 2 or unmet >= 4
  local outcome = unmet % 2 == 1 and 'lost' or before == 'READY' and not asked and 'already' or 'refused'
  local noted = note(stream, i, outcome, before, revision)
  if noted.err then return {false, 'error', noted.err} end
  return {false, 'not moved', before, revision, fence, unmet, by}
end

-- A row that fails is told alone.
local answers = {}
for i = 1, rows do
  local fine, answer = pcall(decide, KEYS[i], KEYS[rows + i], i)
  if not fine then answer = {false, 'error', type(answer) == 'table' and answer.err or tostring(answer)} end
  answers[i] = answer
end
return answers

-- start by key: move
-- move
-- given_by = ARGV[2]
-- given_reason = ARGV[3]
-- given_call = ARGV[4]
-- given_guards = ARGV[1]
-- lifecycle = 'Parcel'
-- move_name = 'start'
-- target = 'BUSY'
local sources = {['NEW'] = true}
-- revision_column = 'rev'
-- looked_at = 'stage', 'rev'
-- seen_fence = false
-- seen_revision = found[2] or '0'
-- move_fields = 'stage', 'BUSY', 'rev', after, 'started_at', moment
-- first_asked = 8

-- Whether a row meets a guard [column, operator, value].
-- A comparison with a missing field is never true, as with NULL in SQL. Numbers compare as numbers, text as text.
local function holds(row, guard)
  local operator, value = guard[2], guard[3]
  -- P10: the lease, so many keys before the last, is still in this epoch; an old leader can write nothing more
  if operator == 'epoch' then return redis.call('HGET', KEYS[#KEYS - guard[1]], 'epoch') == value end
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

-- Which of the guards the row does not meet, as bits from this one on.
local function unmet_guards(row, guards, bit)
  local unmet = 0
  for _, guard in ipairs(guards) do
    if not holds(row, guard) then unmet = unmet + bit end
    bit = bit * 2
  end
  return unmet
end

local guarded = cjson.decode(ARGV[1])
local time = redis.call('TIME')
local moment = string.format('%s.%06d', time[1], time[2])

-- The newest entry of the history that `test` accepts, among the newest thousand.
local function newest(stream, test)
  for _, entry in ipairs(redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1000)) do
    local fields = {}
    for i = 1, #entry[2], 2 do fields[entry[2][i]] = entry[2][i + 1] end
    if fields.outcome == 'moved' and test(fields) then return fields end
  end
end

local function note(stream, i, outcome, before, revision)
  return redis.pcall('XADD', stream, '*', 'lifecycle', 'Parcel', 'move', 'start', 'outcome', outcome,
    'before', before, 'after', 'BUSY', 'revision', revision or '',
    'actor', ARGV[2], 'reason', ARGV[3], 'call', ARGV[4], 'at', moment)
end

-- The next revision. It is counted here and written with the rest; what Lua cannot count exactly is counted in the row.
local function next_revision(row, revision)
  if #revision < 16 and (revision == '0' or string.find(revision, '^[1-9]%d*$')) then
    return string.format('%.0f', revision + 1)
  end
  redis.call('HINCRBY', row, 'rev', 1)
  return redis.call('HGET', row, 'rev'), true
end

local row, stream, i = KEYS[1], KEYS[2], 1
  -- a key of another type is not a row of ours
  local found = redis.pcall('HMGET', row, 'stage', 'rev')
  local before = found[1]
  if found.err or not before then return {} end
  -- numbers stay texts, because Lua's lose digits beyond 2^53
  local revision, fence = found[2] or '0', false


  local unmet = 0
  -- P4: a write with another fence than the row's is refused
  unmet = unmet + unmet_guards(row, guarded, 4)

  -- P1: the row leaves only a status from which this move is declared
  if unmet == 0 and sources[before] then
    -- what can fail comes first, for a script that fails half-way is not undone: the history, and then the whole row at once
    local after, counted = false, false
    after, counted = next_revision(row, revision)
    local noted = note(stream, i, 'moved', before, after)
    if noted.err and counted then redis.call('HINCRBY', row, 'rev', -1) end
    if noted.err then return {false, 'error', noted.err} end
    -- the end of a claim that another process holds; P4: its fence fits no more, also if the row comes back
    redis.call('HSET', row, 'stage', 'BUSY', 'rev', after, 'started_at', moment)
    return {before, after}
  end

  local by = false
  local last = newest(stream, function() return true end)
  local same = last and last.after == before and last.revision == (revision or '')
  if same and last.actor ~= '' then by = last.actor end
  -- what the caller asked of the row comes before 'already': its revision (2), and its guards, which follow the declared ones
  local asked = unmet % 4 >= 2 or unmet >= 8
  local outcome = unmet % 2 == 1 and 'lost' or before == 'BUSY' and not asked and 'already' or 'refused'
  local noted = note(stream, i, outcome, before, revision)
  if noted.err then return {false, 'error', noted.err} end
  return {false, 'not moved', before, revision, fence, unmet, by}

-- give up by key: move
-- move
-- given_by = ARGV[2]
-- given_reason = ARGV[3]
-- given_call = ARGV[4]
-- given_revision = ARGV[1]
-- lifecycle = 'Parcel'
-- move_name = 'give_up'
-- target = 'GONE'
local sources = {['NEW'] = true, ['BUSY'] = true}
-- revision_column = 'rev'
-- looked_at = 'stage', 'rev', 'claimed_by', 'fence'
-- seen_fence = false
-- seen_revision = found[2] or '0'
-- move_fields = 'stage', 'GONE', 'rev', after, 'gone_at', moment
-- fenced_off = found[3] or false
-- ended_columns = 'claimed_by', 'claimed_until'
-- ended_fences = 'fence', grown(found[4], now)
-- first_asked = 4
-- index = 'shop.parcels/pack'
-- lines = 'shop.parcels/pack/lines'
-- row_prefix = 'shop.parcels:'
-- serial = 'lane'

-- The line of rows with the value that this one has in its column `serial`; '' without a value, for such a row stands alone.
local function own_line(row, key)
  local value = redis.pcall('HGET', row, 'lane')
  if type(value) ~= 'string' then return '' end
  return 'shop.parcels/pack' .. '/line:' .. string.match(key, '^[^:]*:?') .. value
end

-- The line in which a row stands. It is kept beside the index, for a row that is gone cannot tell it any more (P13).
local function line_of(row, key)
  return redis.call('HGET', 'shop.parcels/pack/lines', key) or own_line(row, key)
end

-- Takes a row out of the index of a claim, in which it waited, and out of its line; the next in line follows, and is told.
local function leave(row, key)
  redis.call('ZREM', 'shop.parcels/pack', key)
  local line = line_of(row, key)
  redis.call('HDEL', 'shop.parcels/pack/lines', key)
  if line == '' then return end
  redis.call('ZREM', line, key)
  local following = redis.call('ZRANGE', line, 0, 0)[1]
  if not following then return end
  local time = redis.call('TIME')
  local since = string.format('%s.%06d', time[1], time[2])
  if redis.call('ZADD', 'shop.parcels/pack', 'NX', since, following) == 1 then return following end
end

-- The whole number after this one, the first if there is none, and nothing if it is no such number. Lua's own numbers lose
-- digits beyond 2^53: a longer one stays text.
local function one_more(text)
  if not text then return 1 end
  if #text < 16 and string.find(text, '^%-?%d+$') then return text + 1 end
  local head, digit, nines = string.match('0' .. text, '^(%d-)([0-8])(9*)$')
  return head and string.gsub(head .. digit + 1 .. string.rep('0', #nines), '^0+', '') or nil
end

-- A number that grows with each holder (P4, P10): by one at least, and to the microseconds of now, also where a lossy
-- failover has forgotten the last ones.
local function grown(number, now)
  local least, following = math.floor(now * 1000000), (tonumber(number) or 0) + 1
  if following < 9007199254740992 then return string.format('%.0f', math.max(following, least)) end
  return one_more(number) or string.format('%.0f', least)
end

local time = redis.call('TIME')
local moment = string.format('%s.%06d', time[1], time[2])
local now = tonumber(moment)

-- The newest entry of the history that `test` accepts, among the newest thousand.
local function newest(stream, test)
  for _, entry in ipairs(redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1000)) do
    local fields = {}
    for i = 1, #entry[2], 2 do fields[entry[2][i]] = entry[2][i + 1] end
    if fields.outcome == 'moved' and test(fields) then return fields end
  end
end

local function note(stream, i, outcome, before, revision)
  return redis.pcall('XADD', stream, '*', 'lifecycle', 'Parcel', 'move', 'give_up', 'outcome', outcome,
    'before', before, 'after', 'GONE', 'revision', revision or '',
    'actor', ARGV[2], 'reason', ARGV[3], 'call', ARGV[4], 'at', moment)
end

-- The next revision. It is counted here and written with the rest; what Lua cannot count exactly is counted in the row.
local function next_revision(row, revision)
  if #revision < 16 and (revision == '0' or string.find(revision, '^[1-9]%d*$')) then
    return string.format('%.0f', revision + 1)
  end
  redis.call('HINCRBY', row, 'rev', 1)
  return redis.call('HGET', row, 'rev'), true
end

local row, stream, i = KEYS[1], KEYS[2], 1
  -- a key of another type is not a row of ours
  local found = redis.pcall('HMGET', row, 'stage', 'rev', 'claimed_by', 'fence')
  local before = found[1]
  if found.err or not before then return {} end
  -- numbers stay texts, because Lua's lose digits beyond 2^53
  local revision, fence = found[2] or '0', false


  local unmet = 0
  -- P4: a write with another fence than the row's is refused
  if revision ~= ARGV[1] then unmet = unmet + 2 end

  -- P1: the row leaves only a status from which this move is declared
  if unmet == 0 and sources[before] then
    -- what can fail comes first, for a script that fails half-way is not undone: the history, and then the whole row at once
    local after, counted = false, false
    after, counted = next_revision(row, revision)
    local noted = note(stream, i, 'moved', before, after)
    if noted.err and counted then redis.call('HINCRBY', row, 'rev', -1) end
    if noted.err then return {false, 'error', noted.err} end
    -- the end of a claim that another process holds; P4: its fence fits no more, also if the row comes back
    redis.call('HDEL', row, 'claimed_by', 'claimed_until')
    redis.call('HSET', row, 'fence', grown(found[4], now))
    redis.call('HSET', row, 'stage', 'GONE', 'rev', after, 'gone_at', moment)
    leave(row, string.sub(row, #'shop.parcels:' + 1))
    return {before, after, found[3] or false}
  end

  local by = false
  local last = newest(stream, function() return true end)
  local same = last and last.after == before and last.revision == (revision or '')
  if same and last.actor ~= '' then by = last.actor end
  -- what the caller asked of the row comes before 'already': its revision (2), and its guards, which follow the declared ones
  local asked = unmet % 4 >= 2 or unmet >= 4
  local outcome = unmet % 2 == 1 and 'lost' or before == 'GONE' and not asked and 'already' or 'refused'
  local noted = note(stream, i, outcome, before, revision)
  if noted.err then return {false, 'error', noted.err} end
  return {false, 'not moved', before, revision, fence, unmet, by}

-- give up many by key: move
-- move
-- given_by = ARGV[1]
-- given_reason = ARGV[2]
-- given_call = ARGV[2 + 0 * rows + i]
-- lifecycle = 'Parcel'
-- move_name = 'give_up'
-- target = 'GONE'
local sources = {['NEW'] = true, ['BUSY'] = true}
-- revision_column = 'rev'
-- looked_at = 'stage', 'rev', 'claimed_by', 'fence'
-- seen_fence = false
-- seen_revision = found[2] or '0'
-- move_fields = 'stage', 'GONE', 'rev', after, 'gone_at', moment
-- keys_of_a_row = 2
-- stream_key = KEYS[rows + i]
-- leases = 0
-- fenced_off = found[3] or false
-- ended_columns = 'claimed_by', 'claimed_until'
-- ended_fences = 'fence', grown(found[4], now)
-- first_asked = 4
-- index = 'shop.parcels/pack'
-- lines = 'shop.parcels/pack/lines'
-- row_prefix = 'shop.parcels:'
-- serial = 'lane'

-- The line of rows with the value that this one has in its column `serial`; '' without a value, for such a row stands alone.
local function own_line(row, key)
  local value = redis.pcall('HGET', row, 'lane')
  if type(value) ~= 'string' then return '' end
  return 'shop.parcels/pack' .. '/line:' .. string.match(key, '^[^:]*:?') .. value
end

-- The line in which a row stands. It is kept beside the index, for a row that is gone cannot tell it any more (P13).
local function line_of(row, key)
  return redis.call('HGET', 'shop.parcels/pack/lines', key) or own_line(row, key)
end

-- Takes a row out of the index of a claim, in which it waited, and out of its line; the next in line follows, and is told.
local function leave(row, key)
  redis.call('ZREM', 'shop.parcels/pack', key)
  local line = line_of(row, key)
  redis.call('HDEL', 'shop.parcels/pack/lines', key)
  if line == '' then return end
  redis.call('ZREM', line, key)
  local following = redis.call('ZRANGE', line, 0, 0)[1]
  if not following then return end
  local time = redis.call('TIME')
  local since = string.format('%s.%06d', time[1], time[2])
  if redis.call('ZADD', 'shop.parcels/pack', 'NX', since, following) == 1 then return following end
end

-- The whole number after this one, the first if there is none, and nothing if it is no such number. Lua's own numbers lose
-- digits beyond 2^53: a longer one stays text.
local function one_more(text)
  if not text then return 1 end
  if #text < 16 and string.find(text, '^%-?%d+$') then return text + 1 end
  local head, digit, nines = string.match('0' .. text, '^(%d-)([0-8])(9*)$')
  return head and string.gsub(head .. digit + 1 .. string.rep('0', #nines), '^0+', '') or nil
end

-- A number that grows with each holder (P4, P10): by one at least, and to the microseconds of now, also where a lossy
-- failover has forgotten the last ones.
local function grown(number, now)
  local least, following = math.floor(now * 1000000), (tonumber(number) or 0) + 1
  if following < 9007199254740992 then return string.format('%.0f', math.max(following, least)) end
  return one_more(number) or string.format('%.0f', least)
end

local rows = (#KEYS - 0) / 2
local time = redis.call('TIME')
local moment = string.format('%s.%06d', time[1], time[2])
local now = tonumber(moment)

-- The newest entry of the history that `test` accepts, among the newest thousand.
local function newest(stream, test)
  for _, entry in ipairs(redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1000)) do
    local fields = {}
    for i = 1, #entry[2], 2 do fields[entry[2][i]] = entry[2][i + 1] end
    if fields.outcome == 'moved' and test(fields) then return fields end
  end
end

local function note(stream, i, outcome, before, revision)
  return redis.pcall('XADD', stream, '*', 'lifecycle', 'Parcel', 'move', 'give_up', 'outcome', outcome,
    'before', before, 'after', 'GONE', 'revision', revision or '',
    'actor', ARGV[1], 'reason', ARGV[2], 'call', ARGV[2 + 0 * rows + i], 'at', moment)
end

-- The next revision. It is counted here and written with the rest; what Lua cannot count exactly is counted in the row.
local function next_revision(row, revision)
  if #revision < 16 and (revision == '0' or string.find(revision, '^[1-9]%d*$')) then
    return string.format('%.0f', revision + 1)
  end
  redis.call('HINCRBY', row, 'rev', 1)
  return redis.call('HGET', row, 'rev'), true
end

local function decide(row, stream, i)
  -- a key of another type is not a row of ours
  local found = redis.pcall('HMGET', row, 'stage', 'rev', 'claimed_by', 'fence')
  local before = found[1]
  if found.err or not before then return {} end
  -- numbers stay texts, because Lua's lose digits beyond 2^53
  local revision, fence = found[2] or '0', false


  local unmet = 0
  -- P4: a write with another fence than the row's is refused

  -- P1: the row leaves only a status from which this move is declared
  if unmet == 0 and sources[before] then
    -- what can fail comes first, for a script that fails half-way is not undone: the history, and then the whole row at once
    local after, counted = false, false
    after, counted = next_revision(row, revision)
    local noted = note(stream, i, 'moved', before, after)
    if noted.err and counted then redis.call('HINCRBY', row, 'rev', -1) end
    if noted.err then return {false, 'error', noted.err} end
    -- the end of a claim that another process holds; P4: its fence fits no more, also if the row comes back
    redis.call('HDEL', row, 'claimed_by', 'claimed_until')
    redis.call('HSET', row, 'fence', grown(found[4], now))
    redis.call('HSET', row, 'stage', 'GONE', 'rev', after, 'gone_at', moment)
    leave(row, string.sub(row, #'shop.parcels:' + 1))
    return {before, after, found[3] or false}
  end

  local by = false
  local last = newest(stream, function() return true end)
  local same = last and last.after == before and last.revision == (revision or '')
  if same and last.actor ~= '' then by = last.actor end
  -- what the caller asked of the row comes before 'already': its revision (2), and its guards, which follow the declared ones
  local asked = unmet % 4 >= 2 or unmet >= 4
  local outcome = unmet % 2 == 1 and 'lost' or before == 'GONE' and not asked and 'already' or 'refused'
  local noted = note(stream, i, outcome, before, revision)
  if noted.err then return {false, 'error', noted.err} end
  return {false, 'not moved', before, revision, fence, unmet, by}
end

-- A row that fails is told alone.
local answers = {}
for i = 1, rows do
  local fine, answer = pcall(decide, KEYS[i], KEYS[rows + i], i)
  if not fine then answer = {false, 'error', type(answer) == 'table' and answer.err or tostring(answer)} end
  answers[i] = answer
end
return answers

-- give up what matches: scan, move
-- scan
SCAN

-- move
-- given_by = ARGV[2]
-- given_reason = ARGV[3]
-- given_call = ARGV[4]
-- given_guards = ARGV[1]
-- lifecycle = 'Parcel'
-- move_name = 'give_up'
-- target = 'GONE'
local sources = {['NEW'] = true, ['BUSY'] = true}
-- revision_column = 'rev'
-- looked_at = 'stage', 'rev', 'claimed_by', 'fence'
-- seen_fence = false
-- seen_revision = found[2] or '0'
-- move_fields = 'stage', 'GONE', 'rev', after, 'gone_at', moment
-- keys_of_a_row = 2
-- stream_key = KEYS[rows + i]
-- leases = 0
-- fenced_off = found[3] or false
-- ended_columns = 'claimed_by', 'claimed_until'
-- ended_fences = 'fence', grown(found[4], now)
-- first_asked = 4
-- index = 'shop.parcels/pack'
-- lines = 'shop.parcels/pack/lines'
-- row_prefix = 'shop.parcels:'
-- serial = 'lane'

-- Whether a row meets a guard [column, operator, value].
-- A comparison with a missing field is never true, as with NULL in SQL. Numbers compare as numbers, text as text.
local function holds(row, guard)
  local operator, value = guard[2], guard[3]
  -- P10: the lease, so many keys before the last, is still in this epoch; an old leader can write nothing more
  if operator == 'epoch' then return redis.call('HGET', KEYS[#KEYS - guard[1]], 'epoch') == value end
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

-- Which of the guards the row does not meet, as bits from this one on.
local function unmet_guards(row, guards, bit)
  local unmet = 0
  for _, guard in ipairs(guards) do
    if not holds(row, guard) then unmet = unmet + bit end
    bit = bit * 2
  end
  return unmet
end

-- The line of rows with the value that this one has in its column `serial`; '' without a value, for such a row stands alone.
local function own_line(row, key)
  local value = redis.pcall('HGET', row, 'lane')
  if type(value) ~= 'string' then return '' end
  return 'shop.parcels/pack' .. '/line:' .. string.match(key, '^[^:]*:?') .. value
end

-- The line in which a row stands. It is kept beside the index, for a row that is gone cannot tell it any more (P13).
local function line_of(row, key)
  return redis.call('HGET', 'shop.parcels/pack/lines', key) or own_line(row, key)
end

-- Takes a row out of the index of a claim, in which it waited, and out of its line; the next in line follows, and is told.
local function leave(row, key)
  redis.call('ZREM', 'shop.parcels/pack', key)
  local line = line_of(row, key)
  redis.call('HDEL', 'shop.parcels/pack/lines', key)
  if line == '' then return end
  redis.call('ZREM', line, key)
  local following = redis.call('ZRANGE', line, 0, 0)[1]
  if not following then return end
  local time = redis.call('TIME')
  local since = string.format('%s.%06d', time[1], time[2])
  if redis.call('ZADD', 'shop.parcels/pack', 'NX', since, following) == 1 then return following end
end

-- The whole number after this one, the first if there is none, and nothing if it is no such number. Lua's own numbers lose
-- digits beyond 2^53: a longer one stays text.
local function one_more(text)
  if not text then return 1 end
  if #text < 16 and string.find(text, '^%-?%d+$') then return text + 1 end
  local head, digit, nines = string.match('0' .. text, '^(%d-)([0-8])(9*)$')
  return head and string.gsub(head .. digit + 1 .. string.rep('0', #nines), '^0+', '') or nil
end

-- A number that grows with each holder (P4, P10): by one at least, and to the microseconds of now, also where a lossy
-- failover has forgotten the last ones.
local function grown(number, now)
  local least, following = math.floor(now * 1000000), (tonumber(number) or 0) + 1
  if following < 9007199254740992 then return string.format('%.0f', math.max(following, least)) end
  return one_more(number) or string.format('%.0f', least)
end

local rows = (#KEYS - 0) / 2
local guarded = cjson.decode(ARGV[1])
local time = redis.call('TIME')
local moment = string.format('%s.%06d', time[1], time[2])
local now = tonumber(moment)

-- The newest entry of the history that `test` accepts, among the newest thousand.
local function newest(stream, test)
  for _, entry in ipairs(redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1000)) do
    local fields = {}
    for i = 1, #entry[2], 2 do fields[entry[2][i]] = entry[2][i + 1] end
    if fields.outcome == 'moved' and test(fields) then return fields end
  end
end

local function note(stream, i, outcome, before, revision)
  return redis.pcall('XADD', stream, '*', 'lifecycle', 'Parcel', 'move', 'give_up', 'outcome', outcome,
    'before', before, 'after', 'GONE', 'revision', revision or '',
    'actor', ARGV[2], 'reason', ARGV[3], 'call', ARGV[4], 'at', moment)
end

-- The next revision. It is counted here and written with the rest; what Lua cannot count exactly is counted in the row.
local function next_revision(row, revision)
  if #revision < 16 and (revision == '0' or string.find(revision, '^[1-9]%d*$')) then
    return string.format('%.0f', revision + 1)
  end
  redis.call('HINCRBY', row, 'rev', 1)
  return redis.call('HGET', row, 'rev'), true
end

local function decide(row, stream, i)
  -- a key of another type is not a row of ours
  local found = redis.pcall('HMGET', row, 'stage', 'rev', 'claimed_by', 'fence')
  local before = found[1]
  if found.err or not before then return {} end
  -- numbers stay texts, because Lua's lose digits beyond 2^53
  local revision, fence = found[2] or '0', false


  local unmet = 0
  -- P4: a write with another fence than the row's is refused
  unmet = unmet + unmet_guards(row, guarded, 4)

  -- P1: the row leaves only a status from which this move is declared
  if unmet == 0 and sources[before] then
    -- what can fail comes first, for a script that fails half-way is not undone: the history, and then the whole row at once
    local after, counted = false, false
    after, counted = next_revision(row, revision)
    local noted = note(stream, i, 'moved', before, after)
    if noted.err and counted then redis.call('HINCRBY', row, 'rev', -1) end
    if noted.err then return {false, 'error', noted.err} end
    -- the end of a claim that another process holds; P4: its fence fits no more, also if the row comes back
    redis.call('HDEL', row, 'claimed_by', 'claimed_until')
    redis.call('HSET', row, 'fence', grown(found[4], now))
    redis.call('HSET', row, 'stage', 'GONE', 'rev', after, 'gone_at', moment)
    leave(row, string.sub(row, #'shop.parcels:' + 1))
    return {before, after, found[3] or false}
  end

  local by = false
  local last = newest(stream, function() return true end)
  local same = last and last.after == before and last.revision == (revision or '')
  if same and last.actor ~= '' then by = last.actor end
  -- what the caller asked of the row comes before 'already': its revision (2), and its guards, which follow the declared ones
  local asked = unmet % 4 >= 2 or unmet >= 4
  local outcome = unmet % 2 == 1 and 'lost' or before == 'GONE' and not asked and 'already' or 'refused'
  local noted = note(stream, i, outcome, before, revision)
  if noted.err then return {false, 'error', noted.err} end
  return {false, 'not moved', before, revision, fence, unmet, by}
end

-- A row that fails is told alone.
local answers = {}
for i = 1, rows do
  local fine, answer = pcall(decide, KEYS[i], KEYS[rows + i], i)
  if not fine then answer = {false, 'error', type(answer) == 'table' and answer.err or tostring(answer)} end
  answers[i] = answer
end
return answers

-- set aside: claim.acquire, claim.set_aside, claim.acquire, claim.set_aside, claim.acquire, claim.set_aside, claim.acquire, claim.set_aside, claim.acquire, claim.set_aside, claim.acquire, claim.set_aside
-- claim.acquire
-- page = ARGV[3]
-- lease = 45.0
-- reason = ''
-- by = ARGV[1]
-- limit = ARGV[2]
-- offset = ARGV[4]
-- begin = ARGV[5]
-- given_now = ARGV[6]
-- given_guards = ARGV[7]
-- index = 'shop.parcels/pack'
-- lines = 'shop.parcels/pack/lines'
-- row_prefix = 'shop.parcels:'
-- serial = 'lane'
-- seen_attempts = seen[5]
-- seen_after = seen[4]
-- seen_revision = seen[6]
-- looked_at = 'stage', 'claimed_until', 'fence', 'rests_until', 'tries', 'rev'
-- lifecycle = 'Parcel'
local open = {['NEW'] = true, ['BUSY'] = true}
-- stream_prefix = 'shop.parcels/history:'
-- claim_fields = 'claimed_by', ARGV[1], 'fence', fence, 'claimed_until', ends_then, 'stage', 'BUSY', 'started_at', moment, 'rev', revision, 'tries', attempts
-- revision_column = 'rev'
-- attempts_column = 'tries'
-- cap = 4
-- start_name = 'start'
-- start_target = 'BUSY'

-- Whether a row meets a guard [column, operator, value].
-- A comparison with a missing field is never true, as with NULL in SQL. Numbers compare as numbers, text as text.
local function holds(row, guard)
  local operator, value = guard[2], guard[3]
  -- P10: the lease, so many keys before the last, is still in this epoch; an old leader can write nothing more
  if operator == 'epoch' then return redis.call('HGET', KEYS[#KEYS - guard[1]], 'epoch') == value end
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

-- Which of the guards the row does not meet, as bits from this one on.
local function unmet_guards(row, guards, bit)
  local unmet = 0
  for _, guard in ipairs(guards) do
    if not holds(row, guard) then unmet = unmet + bit end
    bit = bit * 2
  end
  return unmet
end

-- The whole number after this one, the first if there is none, and nothing if it is no such number. Lua's own numbers lose
-- digits beyond 2^53: a longer one stays text.
local function one_more(text)
  if not text then return 1 end
  if #text < 16 and string.find(text, '^%-?%d+$') then return text + 1 end
  local head, digit, nines = string.match('0' .. text, '^(%d-)([0-8])(9*)$')
  return head and string.gsub(head .. digit + 1 .. string.rep('0', #nines), '^0+', '') or nil
end

-- A number that grows with each holder (P4, P10): by one at least, and to the microseconds of now, also where a lossy
-- failover has forgotten the last ones.
local function grown(number, now)
  local least, following = math.floor(now * 1000000), (tonumber(number) or 0) + 1
  if following < 9007199254740992 then return string.format('%.0f', math.max(following, least)) end
  return one_more(number) or string.format('%.0f', least)
end

-- The line of rows with the value that this one has in its column `serial`; '' without a value, for such a row stands alone.
local function own_line(row, key)
  local value = redis.pcall('HGET', row, 'lane')
  if type(value) ~= 'string' then return '' end
  return 'shop.parcels/pack' .. '/line:' .. string.match(key, '^[^:]*:?') .. value
end

-- The line in which a row stands. It is kept beside the index, for a row that is gone cannot tell it any more (P13).
local function line_of(row, key)
  return redis.call('HGET', 'shop.parcels/pack/lines', key) or own_line(row, key)
end

-- Takes a row out of the index of a claim, in which it waited, and out of its line; the next in line follows, and is told.
local function leave(row, key)
  redis.call('ZREM', 'shop.parcels/pack', key)
  local line = line_of(row, key)
  redis.call('HDEL', 'shop.parcels/pack/lines', key)
  if line == '' then return end
  redis.call('ZREM', line, key)
  local following = redis.call('ZRANGE', line, 0, 0)[1]
  if not following then return end
  local time = redis.call('TIME')
  local since = string.format('%s.%06d', time[1], time[2])
  if redis.call('ZADD', 'shop.parcels/pack', 'NX', since, following) == 1 then return following end
end

local moment = ARGV[6]
local now = tonumber(moment)
local ends_then = string.format('%.6f', now + 45.0)
local guarded = cjson.decode(ARGV[7])

-- When the lease of a row is over, by what stands there; nothing if nobody holds it.
local function lease_end(text)
  local ends = text and tonumber(text)
  return ends
end

-- Whether a lease that ends then is still held. One that ends more than twice its length from now was taken before the clock
-- was set back, and whoever took it may be dead (P13). A longer lease than this caller's ends far ahead too; but its fence is
-- no later than the clock.
local function is_held(ends, fence)
  local ahead = ends and ends > now + 2 * 45.0
  ahead = ahead and (tonumber(fence) or 0) > now * 1000000
  -- P3: by the store's clock
  return ends and ends > now and not ahead
end

local function note(stream, move, outcome, before, after, revision, actor)
  return redis.pcall('XADD', stream, '*', 'lifecycle', 'Parcel', 'move', move, 'outcome', outcome, 'before', before,
    'after', after, 'revision', revision, 'actor', actor, 'reason', '', 'call', '', 'at', moment)
end

-- Writes a claim into the row, and returns its fence and how many attempts there were; or false, and why it cannot.
local function hold(row, key, stream, before, seen)
  local fence, revision = grown(seen[3], now), ''
  local attempts = one_more(seen[5])
  if not attempts then return false, 'tries' .. ' is no whole number' end
  revision = one_more(seen[6])
  if not revision then return false, 'rev' .. ' is no whole number' end
  local moved = 'BUSY' and before ~= 'BUSY'
  local outcome, after = moved and 'moved' or 'claimed', 'BUSY' or before
  local noted = note(stream, 'start', outcome, before, after, revision, ARGV[1])
  if noted.err then return false, noted.err end
  redis.call('ZADD', 'shop.parcels/pack', ends_then, key)
  redis.call('HSET', row, 'claimed_by', ARGV[1], 'fence', fence, 'claimed_until', ends_then, 'stage', 'BUSY', 'started_at', moment, 'rev', revision, 'tries', attempts)
  return fence, tonumber(attempts)
end

-- A row that cannot be decided keeps nobody from the others: it is told of, and proposed again when a lease is over.
local failed
local function pass_over(key, why)
  redis.call('ZADD', 'shop.parcels/pack', ends_then, key)
  failed = failed or {0}
  failed[#failed + 1], failed[#failed + 2] = key, why
end

local most = tonumber(ARGV[2])
local keys = redis.call('ZRANGEBYSCORE', 'shop.parcels/pack', '-inf', moment, 'LIMIT', ARGV[4], ARGV[3])
local proposed, kept = #keys, 0
local own = {}
for _, key in ipairs(keys) do
  if string.sub(key, 1, #ARGV[5]) == ARGV[5] then own[#own + 1] = key end
end
kept, keys = proposed - #own, own
local found, wins, place, looked = {proposed, 0}, 0, 2, #keys
-- P13: rows that wait for longer than any lease either rest, or were held when the clock was set back. Where there is nothing
-- else, a few of them are looked at, beginning where the clock says, so that each has its turn.
if proposed == 0 then
  local later = '(' .. string.format('%.6f', now + 2 * 45.0)
  local number = redis.call('ZCOUNT', 'shop.parcels/pack', later, '+inf')
  local first = math.floor(now * 1000) % math.max(number - 9, 1)
  for _, key in ipairs(redis.call('ZRANGEBYSCORE', 'shop.parcels/pack', later, '+inf', 'LIMIT', first, 10)) do
    if string.sub(key, 1, #ARGV[5]) == ARGV[5] then keys[#keys + 1] = key end
  end
end
for i, key in ipairs(keys) do
  if wins == most then break end
  local row = 'shop.parcels:' .. key
  local stream = 'shop.parcels/history:' .. key
  -- a key of another type is not a row of ours
  local seen = redis.pcall('HMGET', row, 'stage', 'claimed_until', 'fence', 'rests_until', 'tries', 'rev')
  local before, ends = seen[1], lease_end(seen[2])

  local rests = seen[4] and tonumber(seen[4])
  if not open[before] then
    local following = leave(row, key)
    -- the next in its line is looked at too, and those behind it if that one is gone as well (P13)
    if i < 1000 then keys[#keys + 1] = following end
  -- P3: nobody holds it, or the lease is over by the store's clock; if not, the index learns from when on it can be claimed
  elseif is_held(ends, seen[3]) then
    redis.call('ZADD', 'shop.parcels/pack', string.format('%.6f', ends), key)
  elseif rests and rests > now then
    redis.call('ZADD', 'shop.parcels/pack', string.format('%.6f', rests), key)
  elseif (tonumber(seen[5]) or 0) >= 4 then
    if i <= looked then kept = kept + 1 end
  elseif unmet_guards(row, guarded, 1) > 0 then
    if i <= looked then kept = kept + 1 end
  else
    local fence, attempts = hold(row, key, stream, before, seen)
    if not fence then
      pass_over(key, attempts)
    else
      wins = wins + 1
      found[place + 1], found[place + 2], found[place + 3], found[place + 4] = key, fence, attempts, before
      place = place + 4
    end
  end
end

found[2] = kept
if failed then
  failed[1], found[2] = kept, failed
end
return found

-- claim.set_aside
-- page = ARGV[3]
-- lease = 45.0
-- reason = ''
-- by = ARGV[1]
-- limit = ARGV[2]
-- offset = ARGV[4]
-- begin = ARGV[5]
-- given_now = ARGV[6]
-- given_guards = ARGV[7]
-- index = 'shop.parcels/pack'
-- lines = 'shop.parcels/pack/lines'
-- row_prefix = 'shop.parcels:'
-- serial = 'lane'
-- seen_attempts = seen[5]
-- seen_revision = seen[6]
-- looked_at = 'stage', 'claimed_until', 'fence', 'rests_until', 'tries', 'rev'
-- lifecycle = 'Parcel'
local open = {['NEW'] = true, ['BUSY'] = true}
-- stream_prefix = 'shop.parcels/history:'
-- exhausted_fields = 'stage', 'GONE', 'gone_at', moment, 'rev', revision
-- cleared = 'claimed_by', 'claimed_until'
-- revision_column = 'rev'
-- cap = 4
-- exhausted_name = 'give_up'
-- exhausted_target = 'GONE'

-- Whether a row meets a guard [column, operator, value].
-- A comparison with a missing field is never true, as with NULL in SQL. Numbers compare as numbers, text as text.
local function holds(row, guard)
  local operator, value = guard[2], guard[3]
  -- P10: the lease, so many keys before the last, is still in this epoch; an old leader can write nothing more
  if operator == 'epoch' then return redis.call('HGET', KEYS[#KEYS - guard[1]], 'epoch') == value end
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

-- Which of the guards the row does not meet, as bits from this one on.
local function unmet_guards(row, guards, bit)
  local unmet = 0
  for _, guard in ipairs(guards) do
    if not holds(row, guard) then unmet = unmet + bit end
    bit = bit * 2
  end
  return unmet
end

-- The whole number after this one, the first if there is none, and nothing if it is no such number. Lua's own numbers lose
-- digits beyond 2^53: a longer one stays text.
local function one_more(text)
  if not text then return 1 end
  if #text < 16 and string.find(text, '^%-?%d+$') then return text + 1 end
  local head, digit, nines = string.match('0' .. text, '^(%d-)([0-8])(9*)$')
  return head and string.gsub(head .. digit + 1 .. string.rep('0', #nines), '^0+', '') or nil
end

-- The line of rows with the value that this one has in its column `serial`; '' without a value, for such a row stands alone.
local function own_line(row, key)
  local value = redis.pcall('HGET', row, 'lane')
  if type(value) ~= 'string' then return '' end
  return 'shop.parcels/pack' .. '/line:' .. string.match(key, '^[^:]*:?') .. value
end

-- The line in which a row stands. It is kept beside the index, for a row that is gone cannot tell it any more (P13).
local function line_of(row, key)
  return redis.call('HGET', 'shop.parcels/pack/lines', key) or own_line(row, key)
end

-- Takes a row out of the index of a claim, in which it waited, and out of its line; the next in line follows, and is told.
local function leave(row, key)
  redis.call('ZREM', 'shop.parcels/pack', key)
  local line = line_of(row, key)
  redis.call('HDEL', 'shop.parcels/pack/lines', key)
  if line == '' then return end
  redis.call('ZREM', line, key)
  local following = redis.call('ZRANGE', line, 0, 0)[1]
  if not following then return end
  local time = redis.call('TIME')
  local since = string.format('%s.%06d', time[1], time[2])
  if redis.call('ZADD', 'shop.parcels/pack', 'NX', since, following) == 1 then return following end
end

local moment = ARGV[6]
local now = tonumber(moment)
local ends_then = string.format('%.6f', now + 45.0)
local guarded = cjson.decode(ARGV[7])

-- When the lease of a row is over, by what stands there; nothing if nobody holds it.
local function lease_end(text)
  local ends = text and tonumber(text)
  return ends
end

-- Whether a lease that ends then is still held. One that ends more than twice its length from now was taken before the clock
-- was set back, and whoever took it may be dead (P13). A longer lease than this caller's ends far ahead too; but its fence is
-- no later than the clock.
local function is_held(ends, fence)
  local ahead = ends and ends > now + 2 * 45.0
  ahead = ahead and (tonumber(fence) or 0) > now * 1000000
  -- P3: by the store's clock
  return ends and ends > now and not ahead
end

local function note(stream, move, outcome, before, after, revision, actor)
  return redis.pcall('XADD', stream, '*', 'lifecycle', 'Parcel', 'move', move, 'outcome', outcome, 'before', before,
    'after', after, 'revision', revision, 'actor', actor, 'reason', '', 'call', '', 'at', moment)
end

-- Moves a row out of the way; or says why it cannot.
local function set_aside(row, stream, before, seen)
  local revision = ''
  revision = one_more(seen[6])
  if not revision then return 'rev' .. ' is no whole number' end
  local noted = note(stream, 'give_up', 'moved', before, 'GONE', revision, ARGV[1])
  if noted.err then return noted.err end
  redis.call('HDEL', row, 'claimed_by', 'claimed_until')
  redis.call('HSET', row, 'stage', 'GONE', 'gone_at', moment, 'rev', revision)
end

-- A row that cannot be decided keeps nobody from the others: it is told of, and proposed again when a lease is over.
local failed
local function pass_over(key, why)
  redis.call('ZADD', 'shop.parcels/pack', ends_then, key)
  failed = failed or {0}
  failed[#failed + 1], failed[#failed + 2] = key, why
end

local most = tonumber(ARGV[2])
local keys = redis.call('ZRANGEBYSCORE', 'shop.parcels/pack', '-inf', moment, 'LIMIT', ARGV[4], ARGV[3])
local proposed, kept = #keys, 0
local own = {}
for _, key in ipairs(keys) do
  if string.sub(key, 1, #ARGV[5]) == ARGV[5] then own[#own + 1] = key end
end
kept, keys = proposed - #own, own
local found, wins, place, looked = {proposed, 0}, 0, 2, #keys
-- P13: rows that wait for longer than any lease either rest, or were held when the clock was set back. Where there is nothing
-- else, a few of them are looked at, beginning where the clock says, so that each has its turn.
for i, key in ipairs(keys) do
  if wins == most then break end
  local row = 'shop.parcels:' .. key
  local stream = 'shop.parcels/history:' .. key
  -- a key of another type is not a row of ours
  local seen = redis.pcall('HMGET', row, 'stage', 'claimed_until', 'fence', 'rests_until', 'tries', 'rev')
  local before, ends = seen[1], lease_end(seen[2])

-- A row that has had all its attempts, and that nobody holds.
  local attempts = tonumber(seen[5]) or 0
  if not open[before] or is_held(ends, seen[3]) or attempts < 4 or unmet_guards(row, guarded, 1) > 0 then
    kept = kept + 1
  else
    local why = set_aside(row, stream, before, seen)
    if why then
      pass_over(key, why)
    else
      wins = wins + 1
      leave(row, key)
      found[place + 1], found[place + 2] = key, attempts
      place = place + 2
    end
  end
end

found[2] = kept
if failed then
  failed[1], found[2] = kept, failed
end
return found

-- claims: claim.listed
-- claim.listed
-- page = 500
-- lease = 45.0
-- reason = ''
-- offset = ARGV[1]
-- given_guards = ARGV[2]
-- index = 'shop.parcels/pack'
-- lines = 'shop.parcels/pack/lines'
-- row_prefix = 'shop.parcels:'
-- serial = 'lane'
-- seen_holder = seen[6]
-- seen_attempts = seen[5]
-- looked_at = 'stage', 'claimed_until', 'fence', 'rests_until', 'tries', 'claimed_by'
-- lifecycle = 'Parcel'

-- Whether a row meets a guard [column, operator, value].
-- A comparison with a missing field is never true, as with NULL in SQL. Numbers compare as numbers, text as text.
local function holds(row, guard)
  local operator, value = guard[2], guard[3]
  -- P10: the lease, so many keys before the last, is still in this epoch; an old leader can write nothing more
  if operator == 'epoch' then return redis.call('HGET', KEYS[#KEYS - guard[1]], 'epoch') == value end
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

-- Which of the guards the row does not meet, as bits from this one on.
local function unmet_guards(row, guards, bit)
  local unmet = 0
  for _, guard in ipairs(guards) do
    if not holds(row, guard) then unmet = unmet + bit end
    bit = bit * 2
  end
  return unmet
end

-- The line of rows with the value that this one has in its column `serial`; '' without a value, for such a row stands alone.
local function own_line(row, key)
  local value = redis.pcall('HGET', row, 'lane')
  if type(value) ~= 'string' then return '' end
  return 'shop.parcels/pack' .. '/line:' .. string.match(key, '^[^:]*:?') .. value
end

-- The line in which a row stands. It is kept beside the index, for a row that is gone cannot tell it any more (P13).
local function line_of(row, key)
  return redis.call('HGET', 'shop.parcels/pack/lines', key) or own_line(row, key)
end

local time = redis.call('TIME')
local moment = string.format('%s.%06d', time[1], time[2])
local now = tonumber(moment)
local guarded = cjson.decode(ARGV[2])

-- When the lease of a row is over, by what stands there; nothing if nobody holds it.
local function lease_end(text)
  local ends = text and tonumber(text)
  return ends
end

-- Whether a lease that ends then is still held. One that ends more than twice its length from now was taken before the clock
-- was set back, and whoever took it may be dead (P13). A longer lease than this caller's ends far ahead too; but its fence is
-- no later than the clock.
local function is_held(ends, fence)
  local ahead = ends and ends > now + 2 * 45.0
  ahead = ahead and (tonumber(fence) or 0) > now * 1000000
  -- P3: by the store's clock
  return ends and ends > now and not ahead
end

local function note(stream, move, outcome, before, after, revision, actor)
  return redis.pcall('XADD', stream, '*', 'lifecycle', 'Parcel', 'move', move, 'outcome', outcome, 'before', before,
    'after', after, 'revision', revision, 'actor', actor, 'reason', '', 'call', '', 'at', moment)
end

-- Who holds what, among so many rows of the index: key, until, status, holder, fence, attempts.
local keys = redis.call('ZRANGE', 'shop.parcels/pack', ARGV[1], ARGV[1] + 500 - 1, 'WITHSCORES')
local found = {#keys / 2}
for i = 1, #keys, 2 do
  local seen = redis.pcall('HMGET', 'shop.parcels:' .. keys[i], 'stage', 'claimed_until', 'fence', 'rests_until', 'tries', 'claimed_by')
  if lease_end(seen[2]) then
    local place = #found
    found[place + 1], found[place + 2], found[place + 3] = keys[i], keys[i + 1], seen[1]
    found[place + 4], found[place + 5], found[place + 6] = seen[6], seen[3], seen[5]
  end
end
found[#found + 1] = moment
return found

-- read: read
-- read
HGETALL

-- history: history
-- history
XREVRANGE
