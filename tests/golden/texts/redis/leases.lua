-- lead: lease.acquire
-- lease.acquire
-- by = ARGV[1]
-- lease = ARGV[2]
-- given_now = ARGV[4]

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

local moment = ARGV[4]
local now = tonumber(moment)
local found = redis.call('HMGET', KEYS[1], 'holder', 'epoch', 'until')
local holder, led, ends = found[1], found[2], found[3]
-- P13: a lease that ends more than twice its length from now was taken before the clock was set back; a longer one than this
-- caller's ends far ahead too, but its epoch is no later than the clock
local ahead = ends and tonumber(ends) > now + 2 * ARGV[2] and (tonumber(led) or 0) > now * 1000000
local held = ends and tonumber(ends) > now and not ahead

if not held then
  local won, clock = led and 1 or 2, string.format('%.0f', math.floor(now * 1000000))
  -- P10: grows with every change of holder
  led = grown(led, now)
  -- only a lease that was never held begins with the clock itself
  if won == 1 and led == clock then led = one_more(led) end
  ends = string.format('%.6f', now + ARGV[2])
  redis.call('HSET', KEYS[1], 'holder', ARGV[1], 'epoch', led, 'since', moment, 'until', ends)
  return {won, ARGV[1], led, ends}
end
return {0, held and holder or '', led or '0', ends or ''}

-- lead by the store's clock: lease.acquire
-- lease.acquire
-- by = ARGV[1]
-- lease = ARGV[2]

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
local found = redis.call('HMGET', KEYS[1], 'holder', 'epoch', 'until')
local holder, led, ends = found[1], found[2], found[3]
-- P13: a lease that ends more than twice its length from now was taken before the clock was set back; a longer one than this
-- caller's ends far ahead too, but its epoch is no later than the clock
local ahead = ends and tonumber(ends) > now + 2 * ARGV[2] and (tonumber(led) or 0) > now * 1000000
local held = ends and tonumber(ends) > now and not ahead

if not held then
  local won, clock = led and 1 or 2, string.format('%.0f', math.floor(now * 1000000))
  -- P10: grows with every change of holder
  led = grown(led, now)
  -- only a lease that was never held begins with the clock itself
  if won == 1 and led == clock then led = one_more(led) end
  ends = string.format('%.6f', now + ARGV[2])
  redis.call('HSET', KEYS[1], 'holder', ARGV[1], 'epoch', led, 'since', moment, 'until', ends)
  return {won, ARGV[1], led, ends}
end
return {0, held and holder or '', led or '0', ends or ''}

-- lead, refused: lease.acquire
-- keep leading: lease.renew
-- lease.renew
-- by = ARGV[1]
-- lease = ARGV[2]
-- epoch = ARGV[3]

local time = redis.call('TIME')
local moment = string.format('%s.%06d', time[1], time[2])
local now = tonumber(moment)
local found = redis.call('HMGET', KEYS[1], 'holder', 'epoch', 'until')
local holder, led, ends = found[1], found[2], found[3]
-- P13: a lease that ends more than twice its length from now was taken before the clock was set back; a longer one than this
-- caller's ends far ahead too, but its epoch is no later than the clock
local ahead = ends and tonumber(ends) > now + 2 * ARGV[2] and (tonumber(led) or 0) > now * 1000000
local held = ends and tonumber(ends) > now and not ahead

-- P10: only the holder, and only in its own epoch
if ends and holder == ARGV[1] and led == ARGV[3] then
  ends = string.format('%.6f', now + ARGV[2])
  redis.call('HSET', KEYS[1], 'until', ends)
  return {1, ARGV[1], led, ends}
end
return {0, held and holder or '', led or '0', ends or ''}

-- keep leading at a given time: lease.renew
-- lease.renew
-- by = ARGV[1]
-- lease = ARGV[2]
-- epoch = ARGV[3]
-- given_now = ARGV[4]

local moment = ARGV[4]
local now = tonumber(moment)
local found = redis.call('HMGET', KEYS[1], 'holder', 'epoch', 'until')
local holder, led, ends = found[1], found[2], found[3]
-- P13: a lease that ends more than twice its length from now was taken before the clock was set back; a longer one than this
-- caller's ends far ahead too, but its epoch is no later than the clock
local ahead = ends and tonumber(ends) > now + 2 * ARGV[2] and (tonumber(led) or 0) > now * 1000000
local held = ends and tonumber(ends) > now and not ahead

-- P10: only the holder, and only in its own epoch
if ends and holder == ARGV[1] and led == ARGV[3] then
  ends = string.format('%.6f', now + ARGV[2])
  redis.call('HSET', KEYS[1], 'until', ends)
  return {1, ARGV[1], led, ends}
end
return {0, held and holder or '', led or '0', ends or ''}

-- led by: lease.look
-- lease.look
-- lease = ARGV[2]

local time = redis.call('TIME')
local moment = string.format('%s.%06d', time[1], time[2])
local now = tonumber(moment)
local found = redis.call('HMGET', KEYS[1], 'holder', 'epoch', 'until')
local holder, led, ends = found[1], found[2], found[3]
-- P13: a lease that ends more than twice its length from now was taken before the clock was set back; a longer one than this
-- caller's ends far ahead too, but its epoch is no later than the clock
local ahead = ends and tonumber(ends) > now + 2 * ARGV[2] and (tonumber(led) or 0) > now * 1000000
local held = ends and tonumber(ends) > now and not ahead

return {0, held and holder or '', led or '0', ends or ''}

-- a move guarded by the epoch: move
-- move
-- given_guards = ARGV[1]
local sources = {['RUNNING'] = true}
-- looked_at = 'status', 'claimed_by', 'fence'
-- seen_fence = false
-- seen_revision = false
-- move_fields = 'status', 'DONE'
-- fenced_off = found[2] or false
-- ended_columns = 'claimed_by', 'claimed_until'
-- ended_fences = 'fence', grown(found[3], now)
-- index = 'jobs/work'
-- row_prefix = 'jobs:'

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

-- Takes a row out of the index of a claim, in which it waited, and out of its line; the next in line follows, and is told.
local function leave(row, key)
  redis.call('ZREM', 'jobs/work', key)
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

local guarded = cjson.decode(ARGV[1])
local time = redis.call('TIME')
local moment = string.format('%s.%06d', time[1], time[2])
local now = tonumber(moment)

local row, stream, i = KEYS[1], KEYS[2], 1
  -- a key of another type is not a row of ours
  local found = redis.pcall('HMGET', row, 'status', 'claimed_by', 'fence')
  local before = found[1]
  if found.err or not before then return {} end
  -- numbers stay texts, because Lua's lose digits beyond 2^53
  local revision, fence = false, false


  local unmet = 0
  -- P4: a write with another fence than the row's is refused
  unmet = unmet + unmet_guards(row, guarded, 4)

  -- P1: the row leaves only a status from which this move is declared
  if unmet == 0 and sources[before] then
    -- what can fail comes first, for a script that fails half-way is not undone: the history, and then the whole row at once
    local after, counted = false, false
    -- the end of a claim that another process holds; P4: its fence fits no more, also if the row comes back
    redis.call('HDEL', row, 'claimed_by', 'claimed_until')
    redis.call('HSET', row, 'fence', grown(found[3], now))
    redis.call('HSET', row, 'status', 'DONE')
    leave(row, string.sub(row, #'jobs:' + 1))
    return {before, after, found[2] or false}
  end

  local by = false
  -- what the caller asked of the row comes before 'already': its revision (2), and its guards, which follow the declared ones
  return {false, 'not moved', before, revision, fence, unmet, by}

-- a claim guarded by the epoch: claim.acquire, claim.set_aside
-- claim.acquire
-- page = ARGV[3]
-- lease = 30.0
-- limit = ARGV[2]
-- offset = ARGV[4]
-- given_guards = ARGV[5]
-- index = 'jobs/work'
-- row_prefix = 'jobs:'
-- seen_attempts = seen[5]
-- seen_after = seen[4]
-- looked_at = 'status', 'claimed_until', 'fence', 'rests_until', 'attempts'
local open = {['QUEUED'] = true, ['RUNNING'] = true}
-- claim_fields = 'claimed_by', ARGV[1], 'fence', fence, 'claimed_until', ends_then, 'status', 'RUNNING', 'attempts', attempts
-- attempts_column = 'attempts'
-- cap = 3

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

-- Takes a row out of the index of a claim, in which it waited, and out of its line; the next in line follows, and is told.
local function leave(row, key)
  redis.call('ZREM', 'jobs/work', key)
end

local time = redis.call('TIME')
local moment = string.format('%s.%06d', time[1], time[2])
local now = tonumber(moment)
local ends_then = string.format('%.6f', now + 30.0)
local guarded = cjson.decode(ARGV[5])

-- When the lease of a row is over, by what stands there; nothing if nobody holds it.
local function lease_end(text)
  local ends = text and tonumber(text)
  return ends
end

-- Whether a lease that ends then is still held. One that ends more than twice its length from now was taken before the clock
-- was set back, and whoever took it may be dead (P13). A longer lease than this caller's ends far ahead too; but its fence is
-- no later than the clock.
local function is_held(ends, fence)
  local ahead = ends and ends > now + 2 * 30.0
  ahead = ahead and (tonumber(fence) or 0) > now * 1000000
  -- P3: by the store's clock
  return ends and ends > now and not ahead
end

-- Writes a claim into the row, and returns its fence and how many attempts there were; or false, and why it cannot.
local function hold(row, key, stream, before, seen)
  local fence, revision = grown(seen[3], now), ''
  local attempts = one_more(seen[5])
  if not attempts then return false, 'attempts' .. ' is no whole number' end
  redis.call('ZADD', 'jobs/work', ends_then, key)
  redis.call('HSET', row, 'claimed_by', ARGV[1], 'fence', fence, 'claimed_until', ends_then, 'status', 'RUNNING', 'attempts', attempts)
  return fence, tonumber(attempts)
end

-- A row that cannot be decided keeps nobody from the others: it is told of, and proposed again when a lease is over.
local failed
local function pass_over(key, why)
  redis.call('ZADD', 'jobs/work', ends_then, key)
  failed = failed or {0}
  failed[#failed + 1], failed[#failed + 2] = key, why
end

local most = tonumber(ARGV[2])
local keys = redis.call('ZRANGEBYSCORE', 'jobs/work', '-inf', moment, 'LIMIT', ARGV[4], ARGV[3])
local proposed, kept = #keys, 0
local found, wins, place, looked = {proposed, 0}, 0, 2, #keys
-- P13: rows that wait for longer than any lease either rest, or were held when the clock was set back. Where there is nothing
-- else, a few of them are looked at, beginning where the clock says, so that each has its turn.
if proposed == 0 then
  local later = '(' .. string.format('%.6f', now + 2 * 30.0)
  local number = redis.call('ZCOUNT', 'jobs/work', later, '+inf')
  local first = math.floor(now * 1000) % math.max(number - 9, 1)
  for _, key in ipairs(redis.call('ZRANGEBYSCORE', 'jobs/work', later, '+inf', 'LIMIT', first, 10)) do
    keys[#keys + 1] = key
  end
end
for i, key in ipairs(keys) do
  if wins == most then break end
  local row = 'jobs:' .. key
  local stream = nil
  -- a key of another type is not a row of ours
  local seen = redis.pcall('HMGET', row, 'status', 'claimed_until', 'fence', 'rests_until', 'attempts')
  local before, ends = seen[1], lease_end(seen[2])

  local rests = seen[4] and tonumber(seen[4])
  if not open[before] then
    local following = leave(row, key)
    -- the next in its line is looked at too, and those behind it if that one is gone as well (P13)
  -- P3: nobody holds it, or the lease is over by the store's clock; if not, the index learns from when on it can be claimed
  elseif is_held(ends, seen[3]) then
    redis.call('ZADD', 'jobs/work', string.format('%.6f', ends), key)
  elseif rests and rests > now then
    redis.call('ZADD', 'jobs/work', string.format('%.6f', rests), key)
  elseif (tonumber(seen[5]) or 0) >= 3 then
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
-- lease = 30.0
-- limit = ARGV[2]
-- offset = ARGV[4]
-- given_guards = ARGV[5]
-- index = 'jobs/work'
-- row_prefix = 'jobs:'
-- seen_attempts = seen[5]
-- looked_at = 'status', 'claimed_until', 'fence', 'rests_until', 'attempts'
local open = {['QUEUED'] = true, ['RUNNING'] = true}
-- exhausted_fields = 'status', 'DEAD'
-- cleared = 'claimed_by', 'claimed_until'
-- cap = 3

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

-- Takes a row out of the index of a claim, in which it waited, and out of its line; the next in line follows, and is told.
local function leave(row, key)
  redis.call('ZREM', 'jobs/work', key)
end

local time = redis.call('TIME')
local moment = string.format('%s.%06d', time[1], time[2])
local now = tonumber(moment)
local ends_then = string.format('%.6f', now + 30.0)
local guarded = cjson.decode(ARGV[5])

-- When the lease of a row is over, by what stands there; nothing if nobody holds it.
local function lease_end(text)
  local ends = text and tonumber(text)
  return ends
end

-- Whether a lease that ends then is still held. One that ends more than twice its length from now was taken before the clock
-- was set back, and whoever took it may be dead (P13). A longer lease than this caller's ends far ahead too; but its fence is
-- no later than the clock.
local function is_held(ends, fence)
  local ahead = ends and ends > now + 2 * 30.0
  ahead = ahead and (tonumber(fence) or 0) > now * 1000000
  -- P3: by the store's clock
  return ends and ends > now and not ahead
end

-- Moves a row out of the way; or says why it cannot.
local function set_aside(row, stream, before, seen)
  local revision = ''
  redis.call('HDEL', row, 'claimed_by', 'claimed_until')
  redis.call('HSET', row, 'status', 'DEAD')
end

-- A row that cannot be decided keeps nobody from the others: it is told of, and proposed again when a lease is over.
local failed
local function pass_over(key, why)
  redis.call('ZADD', 'jobs/work', ends_then, key)
  failed = failed or {0}
  failed[#failed + 1], failed[#failed + 2] = key, why
end

local most = tonumber(ARGV[2])
local keys = redis.call('ZRANGEBYSCORE', 'jobs/work', '-inf', moment, 'LIMIT', ARGV[4], ARGV[3])
local proposed, kept = #keys, 0
local found, wins, place, looked = {proposed, 0}, 0, 2, #keys
-- P13: rows that wait for longer than any lease either rest, or were held when the clock was set back. Where there is nothing
-- else, a few of them are looked at, beginning where the clock says, so that each has its turn.
for i, key in ipairs(keys) do
  if wins == most then break end
  local row = 'jobs:' .. key
  local stream = nil
  -- a key of another type is not a row of ours
  local seen = redis.pcall('HMGET', row, 'status', 'claimed_until', 'fence', 'rests_until', 'attempts')
  local before, ends = seen[1], lease_end(seen[2])

-- A row that has had all its attempts, and that nobody holds.
  local attempts = tonumber(seen[5]) or 0
  if not open[before] or is_held(ends, seen[3]) or attempts < 3 or unmet_guards(row, guarded, 1) > 0 then
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

-- step down: lease.release
-- lease.release
-- by = ARGV[1]
-- lease = ARGV[2]
-- epoch = ARGV[3]

local time = redis.call('TIME')
local moment = string.format('%s.%06d', time[1], time[2])
local now = tonumber(moment)
local found = redis.call('HMGET', KEYS[1], 'holder', 'epoch', 'until')
local holder, led, ends = found[1], found[2], found[3]
-- P13: a lease that ends more than twice its length from now was taken before the clock was set back; a longer one than this
-- caller's ends far ahead too, but its epoch is no later than the clock
local ahead = ends and tonumber(ends) > now + 2 * ARGV[2] and (tonumber(led) or 0) > now * 1000000
local held = ends and tonumber(ends) > now and not ahead

-- P10: as above
if holder == ARGV[1] and led == ARGV[3] then
  redis.call('HDEL', KEYS[1], 'until')
  return {1, '', led, ends or ''}
end
return {0, held and holder or '', led or '0', ends or ''}

-- step down at a given time: lease.release
-- lease.release
-- by = ARGV[1]
-- lease = ARGV[2]
-- epoch = ARGV[3]
-- given_now = ARGV[4]

local moment = ARGV[4]
local now = tonumber(moment)
local found = redis.call('HMGET', KEYS[1], 'holder', 'epoch', 'until')
local holder, led, ends = found[1], found[2], found[3]
-- P13: a lease that ends more than twice its length from now was taken before the clock was set back; a longer one than this
-- caller's ends far ahead too, but its epoch is no later than the clock
local ahead = ends and tonumber(ends) > now + 2 * ARGV[2] and (tonumber(led) or 0) > now * 1000000
local held = ends and tonumber(ends) > now and not ahead

-- P10: as above
if holder == ARGV[1] and led == ARGV[3] then
  redis.call('HDEL', KEYS[1], 'until')
  return {1, '', led, ends or ''}
end
return {0, held and holder or '', led or '0', ends or ''}
