-- offer: claim.offer
-- claim.offer
-- index = 'jobs/work'
-- row_prefix = 'jobs:'
-- column = 'status'
local open = {['QUEUED'] = true, ['RUNNING'] = true}
-- stream_key = nil
-- other_keys = 1
-- keys_of_a_row = 1
-- first_value = -1

local time = redis.call('TIME')
local moment = string.format('%s.%06d', time[1], time[2])
local now = tonumber(moment)

-- Puts a row into the index, and into its line; of a line only the first is in the index. So many are offered after it.
local function decide(row, stream, fence, delay, after)
  if not open[redis.pcall('HGET', row, 'status')] then return {'gone'} end
  -- rows that are offered together keep their order
  local key, when = string.sub(row, #'jobs:' + 1), now - after * 0.000001
  -- a row whose value has changed since it was offered leaves the line of the old one
  when = string.format('%.6f', when)
  redis.call('ZADD', 'jobs/work', 'NX', when, key)
  redis.call('PUBLISH', 'jobs/work', '')
  return {'offered'}
end

local answers, rows = {}, (#KEYS - 1) / 1
for i = 1, rows do
  local place = -1 + i * 3
  answers[i] = decide(KEYS[i], nil, ARGV[place], ARGV[place + 1], rows - i, ARGV[place + 2])
end
return answers

-- claim: claim.acquire
-- claim.acquire
-- page = ARGV[3]
-- lease = 30.0
-- limit = ARGV[2]
-- offset = ARGV[4]
-- given_now = ARGV[5]
-- index = 'jobs/work'
-- row_prefix = 'jobs:'
-- seen_attempts = seen[5]
-- seen_after = seen[4]
-- looked_at = 'status', 'claimed_until', 'fence', 'rests_until', 'attempts'
local open = {['QUEUED'] = true, ['RUNNING'] = true}
-- claim_fields = 'claimed_by', ARGV[1], 'fence', fence, 'claimed_until', ends_then, 'status', 'RUNNING', 'attempts', attempts
-- attempts_column = 'attempts'
-- cap = 3

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

local moment = ARGV[5]
local now = tonumber(moment)
local ends_then = string.format('%.6f', now + 30.0)

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

-- claim by the store's clock, returning: claim.acquire
-- claim.acquire
-- page = ARGV[3]
-- lease = 30.0
-- limit = ARGV[2]
-- offset = ARGV[4]
-- index = 'jobs/work'
-- row_prefix = 'jobs:'
-- seen_attempts = seen[5]
-- seen_after = seen[4]
-- looked_at = 'status', 'claimed_until', 'fence', 'rests_until', 'attempts'
local open = {['QUEUED'] = true, ['RUNNING'] = true}
-- claim_fields = 'claimed_by', ARGV[1], 'fence', fence, 'claimed_until', ends_then, 'status', 'RUNNING', 'attempts', attempts
-- attempts_column = 'attempts'
-- cap = 3
-- returned = 'made_at'

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
  else
    local fence, attempts = hold(row, key, stream, before, seen)
    if not fence then
      pass_over(key, attempts)
    else
      wins = wins + 1
      found[place + 1], found[place + 2], found[place + 3], found[place + 4] = key, fence, attempts, before
      place = place + 4
      for _, value in ipairs(redis.call('HMGET', row, 'made_at')) do
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

-- claim with a guard and another lease: claim.acquire
-- claim.acquire
-- page = ARGV[3]
-- lease = ARGV[5]
-- limit = ARGV[2]
-- offset = ARGV[4]
-- given_guards = ARGV[6]
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
local ends_then = string.format('%.6f', now + ARGV[5])
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
  local ahead = ends and ends > now + 2 * ARGV[5]
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
  local later = '(' .. string.format('%.6f', now + 2 * ARGV[5])
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

-- claim_one, won: claim.one
-- claim.one
-- lease = 30.0
-- given_now = ARGV[3]
-- index = 'jobs/work'
-- row_prefix = 'jobs:'
-- seen_holder = seen[6]
-- seen_attempts = seen[5]
-- seen_after = seen[4]
-- looked_at = 'status', 'claimed_until', 'fence', 'rests_until', 'attempts', 'claimed_by'
local open = {['QUEUED'] = true, ['RUNNING'] = true}
-- stream_key = nil
-- claim_fields = 'claimed_by', ARGV[1], 'fence', fence, 'claimed_until', ends_then, 'status', 'RUNNING', 'attempts', attempts
-- attempts_column = 'attempts'
-- cap = 3
-- other_keys = 1
-- keys_of_a_row = 1
-- first_value = 1

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

local moment = ARGV[3]
local now = tonumber(moment)
local ends_then = string.format('%.6f', now + 30.0)

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

-- One row by its key: {'claimed', fence, attempts, before, columns …} or {'taken', before, unmet, holder}, {'missing'}.
-- Why it cannot be claimed is told as bits: status, held, resting, attempts, line, then the guards.
local function decide(row, stream)
  local key, seen = string.sub(row, #'jobs:' + 1), redis.pcall('HMGET', row, 'status', 'claimed_until', 'fence', 'rests_until', 'attempts', 'claimed_by')
  local before, ends, unmet = seen[1], lease_end(seen[2]), 0
  if not before then return {'missing'} end
  if not open[before] then unmet = 1 end
  -- P3: as above
  if is_held(ends, seen[3]) then unmet = unmet + 2 end
  if (tonumber(seen[4]) or 0) > now then unmet = unmet + 4 end
  if (tonumber(seen[5]) or 0) >= 3 then unmet = unmet + 8 end
  if unmet > 0 then return {'taken', before, unmet, seen[6]} end
  local fence, attempts = hold(row, key, stream, before, seen)
  if not fence then return {'error', attempts} end
  return {'claimed', fence, attempts, before}
end

local answers, rows = {}, (#KEYS - 1) / 1
for i = 1, rows do
  local place = 1 + i * 3
  answers[i] = decide(KEYS[i], nil, ARGV[place], ARGV[place + 1], rows - i, ARGV[place + 2])
end
return answers

-- claim_one, taken: claim.one
-- claim_one, missing: claim.one
-- claim.one
-- lease = 30.0
-- index = 'jobs/work'
-- row_prefix = 'jobs:'
-- seen_holder = seen[6]
-- seen_attempts = seen[5]
-- seen_after = seen[4]
-- looked_at = 'status', 'claimed_until', 'fence', 'rests_until', 'attempts', 'claimed_by'
local open = {['QUEUED'] = true, ['RUNNING'] = true}
-- stream_key = nil
-- claim_fields = 'claimed_by', ARGV[1], 'fence', fence, 'claimed_until', ends_then, 'status', 'RUNNING', 'attempts', attempts
-- attempts_column = 'attempts'
-- cap = 3
-- other_keys = 1
-- keys_of_a_row = 1
-- first_value = 0

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
local ends_then = string.format('%.6f', now + 30.0)

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

-- One row by its key: {'claimed', fence, attempts, before, columns …} or {'taken', before, unmet, holder}, {'missing'}.
-- Why it cannot be claimed is told as bits: status, held, resting, attempts, line, then the guards.
local function decide(row, stream)
  local key, seen = string.sub(row, #'jobs:' + 1), redis.pcall('HMGET', row, 'status', 'claimed_until', 'fence', 'rests_until', 'attempts', 'claimed_by')
  local before, ends, unmet = seen[1], lease_end(seen[2]), 0
  if not before then return {'missing'} end
  if not open[before] then unmet = 1 end
  -- P3: as above
  if is_held(ends, seen[3]) then unmet = unmet + 2 end
  if (tonumber(seen[4]) or 0) > now then unmet = unmet + 4 end
  if (tonumber(seen[5]) or 0) >= 3 then unmet = unmet + 8 end
  if unmet > 0 then return {'taken', before, unmet, seen[6]} end
  local fence, attempts = hold(row, key, stream, before, seen)
  if not fence then return {'error', attempts} end
  return {'claimed', fence, attempts, before}
end

local answers, rows = {}, (#KEYS - 1) / 1
for i = 1, rows do
  local place = 0 + i * 3
  answers[i] = decide(KEYS[i], nil, ARGV[place], ARGV[place + 1], rows - i, ARGV[place + 2])
end
return answers

-- renew: claim.renew
-- claim.renew
-- lease = 30.0
-- index = 'jobs/work'
-- row_prefix = 'jobs:'
-- seen_holder = seen[6]
-- looked_at = 'status', 'claimed_until', 'fence', 'rests_until', 'attempts', 'claimed_by'
local held = {['RUNNING'] = true}
-- stream_key = nil
-- renew_fields = 'claimed_until', ends_then
-- other_keys = 1
-- keys_of_a_row = 1
-- first_value = 0

-- The whole number after this one, the first if there is none, and nothing if it is no such number. Lua's own numbers lose
-- digits beyond 2^53: a longer one stays text.
local function one_more(text)
  if not text then return 1 end
  if #text < 16 and string.find(text, '^%-?%d+$') then return text + 1 end
  local head, digit, nines = string.match('0' .. text, '^(%d-)([0-8])(9*)$')
  return head and string.gsub(head .. digit + 1 .. string.rep('0', #nines), '^0+', '') or nil
end

local time = redis.call('TIME')
local moment = string.format('%s.%06d', time[1], time[2])
local now = tonumber(moment)
local ends_then = string.format('%.6f', now + 30.0)

-- P5: only the current holder; P4: an older fence than the newest is refused.
local function refusal(seen, fence)
  if not seen[1] then return {'missing'} end
  if seen[3] ~= fence or not held[seen[1]] then return {'lost', seen[1], seen[3], seen[6]} end
end

local function decide(row, stream, fence)
  local seen = redis.pcall('HMGET', row, 'status', 'claimed_until', 'fence', 'rests_until', 'attempts', 'claimed_by')
  local refused = refusal(seen, fence)
  if refused then return refused end
  redis.call('HSET', row, 'claimed_until', ends_then)
  redis.call('ZADD', 'jobs/work', ends_then, string.sub(row, #'jobs:' + 1))
  return {'renewed', fence}
end

local answers, rows = {}, (#KEYS - 1) / 1
for i = 1, rows do
  local place = 0 + i * 3
  answers[i] = decide(KEYS[i], nil, ARGV[place], ARGV[place + 1], rows - i, ARGV[place + 2])
end
return answers

-- renew at a given time: claim.renew
-- claim.renew
-- lease = 30.0
-- given_now = ARGV[2]
-- index = 'jobs/work'
-- row_prefix = 'jobs:'
-- seen_holder = seen[6]
-- looked_at = 'status', 'claimed_until', 'fence', 'rests_until', 'attempts', 'claimed_by'
local held = {['RUNNING'] = true}
-- stream_key = nil
-- renew_fields = 'claimed_until', ends_then
-- other_keys = 1
-- keys_of_a_row = 1
-- first_value = 1

-- The whole number after this one, the first if there is none, and nothing if it is no such number. Lua's own numbers lose
-- digits beyond 2^53: a longer one stays text.
local function one_more(text)
  if not text then return 1 end
  if #text < 16 and string.find(text, '^%-?%d+$') then return text + 1 end
  local head, digit, nines = string.match('0' .. text, '^(%d-)([0-8])(9*)$')
  return head and string.gsub(head .. digit + 1 .. string.rep('0', #nines), '^0+', '') or nil
end

local moment = ARGV[2]
local now = tonumber(moment)
local ends_then = string.format('%.6f', now + 30.0)

-- P5: only the current holder; P4: an older fence than the newest is refused.
local function refusal(seen, fence)
  if not seen[1] then return {'missing'} end
  if seen[3] ~= fence or not held[seen[1]] then return {'lost', seen[1], seen[3], seen[6]} end
end

local function decide(row, stream, fence)
  local seen = redis.pcall('HMGET', row, 'status', 'claimed_until', 'fence', 'rests_until', 'attempts', 'claimed_by')
  local refused = refusal(seen, fence)
  if refused then return refused end
  redis.call('HSET', row, 'claimed_until', ends_then)
  redis.call('ZADD', 'jobs/work', ends_then, string.sub(row, #'jobs:' + 1))
  return {'renewed', fence}
end

local answers, rows = {}, (#KEYS - 1) / 1
for i = 1, rows do
  local place = 1 + i * 3
  answers[i] = decide(KEYS[i], nil, ARGV[place], ARGV[place + 1], rows - i, ARGV[place + 2])
end
return answers

-- release: claim.give_back
-- claim.give_back
-- index = 'jobs/work'
-- row_prefix = 'jobs:'
-- seen_holder = seen[6]
-- seen_attempts = seen[5]
-- looked_at = 'status', 'claimed_until', 'fence', 'rests_until', 'attempts', 'claimed_by'
local held = {['RUNNING'] = true}
-- stream_key = nil
-- back_fields = 'fence', fence, 'status', 'QUEUED'
-- cleared = 'claimed_by', 'claimed_until'
-- attempts_column = 'attempts'
-- after_column = 'rests_until'
-- other_keys = 1
-- keys_of_a_row = 1
-- first_value = 0

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

-- P5: only the current holder; P4: an older fence than the newest is refused.
local function refusal(seen, fence)
  if not seen[1] then return {'missing'} end
  if seen[3] ~= fence or not held[seen[1]] then return {'lost', seen[1], seen[3], seen[6]} end
end

-- Gives the row back; with a delay it rests, without one its attempt is refunded.
local function decide(row, stream, fence, delay, after, holder)
  local seen = redis.pcall('HMGET', row, 'status', 'claimed_until', 'fence', 'rests_until', 'attempts', 'claimed_by')
  local refused = refusal(seen, fence)
  if refused then return refused end
  local before, ready, revision = seen[1], moment, ''
  redis.call('HDEL', row, 'claimed_by', 'claimed_until')
  if delay == '' then
    if (tonumber(seen[5]) or 0) > 0 then redis.pcall('HINCRBY', row, 'attempts', -1) end
  else
    ready = string.format('%.6f', now + delay)
    redis.call('HSET', row, 'rests_until', ready)
  end
  fence = grown(seen[3], now)
  redis.call('HSET', row, 'fence', fence, 'status', 'QUEUED')
  redis.call('ZADD', 'jobs/work', ready, string.sub(row, #'jobs:' + 1))
  return {'released'}
end

local answers, rows = {}, (#KEYS - 1) / 1
for i = 1, rows do
  local place = 0 + i * 3
  answers[i] = decide(KEYS[i], nil, ARGV[place], ARGV[place + 1], rows - i, ARGV[place + 2])
end
return answers

-- release, lost: claim.give_back
-- claim.give_back
-- given_now = ARGV[2]
-- index = 'jobs/work'
-- row_prefix = 'jobs:'
-- seen_holder = seen[6]
-- seen_attempts = seen[5]
-- looked_at = 'status', 'claimed_until', 'fence', 'rests_until', 'attempts', 'claimed_by'
local held = {['RUNNING'] = true}
-- stream_key = nil
-- back_fields = 'fence', fence, 'status', 'QUEUED'
-- cleared = 'claimed_by', 'claimed_until'
-- attempts_column = 'attempts'
-- after_column = 'rests_until'
-- other_keys = 1
-- keys_of_a_row = 1
-- first_value = 1

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

local moment = ARGV[2]
local now = tonumber(moment)

-- P5: only the current holder; P4: an older fence than the newest is refused.
local function refusal(seen, fence)
  if not seen[1] then return {'missing'} end
  if seen[3] ~= fence or not held[seen[1]] then return {'lost', seen[1], seen[3], seen[6]} end
end

-- Gives the row back; with a delay it rests, without one its attempt is refunded.
local function decide(row, stream, fence, delay, after, holder)
  local seen = redis.pcall('HMGET', row, 'status', 'claimed_until', 'fence', 'rests_until', 'attempts', 'claimed_by')
  local refused = refusal(seen, fence)
  if refused then return refused end
  local before, ready, revision = seen[1], moment, ''
  redis.call('HDEL', row, 'claimed_by', 'claimed_until')
  if delay == '' then
    if (tonumber(seen[5]) or 0) > 0 then redis.pcall('HINCRBY', row, 'attempts', -1) end
  else
    ready = string.format('%.6f', now + delay)
    redis.call('HSET', row, 'rests_until', ready)
  end
  fence = grown(seen[3], now)
  redis.call('HSET', row, 'fence', fence, 'status', 'QUEUED')
  redis.call('ZADD', 'jobs/work', ready, string.sub(row, #'jobs:' + 1))
  return {'released'}
end

local answers, rows = {}, (#KEYS - 1) / 1
for i = 1, rows do
  local place = 1 + i * 3
  answers[i] = decide(KEYS[i], nil, ARGV[place], ARGV[place + 1], rows - i, ARGV[place + 2])
end
return answers

-- fail: claim.give_back
-- fail at a given time: claim.give_back
-- finish: move
-- move
-- given_fence = ARGV[1]
-- given_change = ARGV[2]
local sources = {['RUNNING'] = true}
-- looked_at = 'status', 'fence'
-- seen_fence = found[2]
-- seen_revision = false
-- move_fields = 'status', 'DONE'
-- cleared = 'claimed_by', 'claimed_until'
-- index = 'jobs/work'
-- row_prefix = 'jobs:'

-- Takes a row out of the index of a claim, in which it waited, and out of its line; the next in line follows, and is told.
local function leave(row, key)
  redis.call('ZREM', 'jobs/work', key)
end


local row, stream, i = KEYS[1], KEYS[2], 1
  -- a key of another type is not a row of ours
  local found = redis.pcall('HMGET', row, 'status', 'fence')
  local before = found[1]
  if found.err or not before then return {} end
  -- numbers stay texts, because Lua's lose digits beyond 2^53
  local revision, fence = false, found[2]


  local unmet = 0
  -- P4: a write with another fence than the row's is refused
  if fence ~= ARGV[1] then unmet = unmet + 1 end

  -- P1: the row leaves only a status from which this move is declared
  if unmet == 0 and sources[before] then
    -- what can fail comes first, for a script that fails half-way is not undone: the history, and then the whole row at once
    local after, counted = false, false
    redis.call('HDEL', row, 'claimed_by', 'claimed_until')
    -- the end of a claim that another process holds; P4: its fence fits no more, also if the row comes back
    local fields, change = {'status', 'DONE'}, cjson.decode(ARGV[2])
    for _, name in ipairs(change.clear) do redis.call('HDEL', row, name) end
    for name, value in pairs(change.set) do
      fields[#fields + 1] = name
      fields[#fields + 1] = value
    end
    redis.call('HSET', row, unpack(fields))
    leave(row, string.sub(row, #'jobs:' + 1))
    return before
  end

  local by = false
  -- what the caller asked of the row comes before 'already': its revision (2), and its guards, which follow the declared ones
  return {false, 'not moved', before, revision, fence, unmet, by}

-- finish, again: move
-- finish many of several claims: move
-- move
-- given_fence = ARGV[0 + 0 * rows + i]
local sources = {['RUNNING'] = true}
-- looked_at = 'status', 'fence'
-- seen_fence = found[2]
-- seen_revision = false
-- move_fields = 'status', 'DONE'
-- cleared = 'claimed_by', 'claimed_until'
-- keys_of_a_row = 1
-- stream_key = nil
-- leases = 0
-- index = 'jobs/work'
-- row_prefix = 'jobs:'

-- Takes a row out of the index of a claim, in which it waited, and out of its line; the next in line follows, and is told.
local function leave(row, key)
  redis.call('ZREM', 'jobs/work', key)
end

local rows = (#KEYS - 0) / 1

local function decide(row, stream, i)
  -- a key of another type is not a row of ours
  local found = redis.pcall('HMGET', row, 'status', 'fence')
  local before = found[1]
  if found.err or not before then return {} end
  -- numbers stay texts, because Lua's lose digits beyond 2^53
  local revision, fence = false, found[2]


  local unmet = 0
  -- P4: a write with another fence than the row's is refused
  if fence ~= ARGV[0 + 0 * rows + i] then unmet = unmet + 1 end

  -- P1: the row leaves only a status from which this move is declared
  if unmet == 0 and sources[before] then
    -- what can fail comes first, for a script that fails half-way is not undone: the history, and then the whole row at once
    local after, counted = false, false
    redis.call('HDEL', row, 'claimed_by', 'claimed_until')
    -- the end of a claim that another process holds; P4: its fence fits no more, also if the row comes back
    redis.call('HSET', row, 'status', 'DONE')
    leave(row, string.sub(row, #'jobs:' + 1))
    return before
  end

  local by = false
  -- what the caller asked of the row comes before 'already': its revision (2), and its guards, which follow the declared ones
  return {false, 'not moved', before, revision, fence, unmet, by}
end

-- A row that fails is told alone.
local answers = {}
for i = 1, rows do
  local fine, answer = pcall(decide, KEYS[i], nil, i)
  if not fine then answer = {false, 'error', type(answer) == 'table' and answer.err or tostring(answer)} end
  answers[i] = answer
end
return answers

-- finish many of one claim: move
-- move
-- given_fence = ARGV[1]
local sources = {['RUNNING'] = true}
-- looked_at = 'status', 'fence'
-- seen_fence = found[2]
-- seen_revision = false
-- move_fields = 'status', 'DONE'
-- cleared = 'claimed_by', 'claimed_until'
-- keys_of_a_row = 1
-- stream_key = nil
-- leases = 0
-- index = 'jobs/work'
-- row_prefix = 'jobs:'

-- Takes a row out of the index of a claim, in which it waited, and out of its line; the next in line follows, and is told.
local function leave(row, key)
  redis.call('ZREM', 'jobs/work', key)
end

local rows = (#KEYS - 0) / 1

local function decide(row, stream, i)
  -- a key of another type is not a row of ours
  local found = redis.pcall('HMGET', row, 'status', 'fence')
  local before = found[1]
  if found.err or not before then return {} end
  -- numbers stay texts, because Lua's lose digits beyond 2^53
  local revision, fence = false, found[2]


  local unmet = 0
  -- P4: a write with another fence than the row's is refused
  if fence ~= ARGV[1] then unmet = unmet + 1 end

  -- P1: the row leaves only a status from which this move is declared
  if unmet == 0 and sources[before] then
    -- what can fail comes first, for a script that fails half-way is not undone: the history, and then the whole row at once
    local after, counted = false, false
    redis.call('HDEL', row, 'claimed_by', 'claimed_until')
    -- the end of a claim that another process holds; P4: its fence fits no more, also if the row comes back
    redis.call('HSET', row, 'status', 'DONE')
    leave(row, string.sub(row, #'jobs:' + 1))
    return before
  end

  local by = false
  -- what the caller asked of the row comes before 'already': its revision (2), and its guards, which follow the declared ones
  return {false, 'not moved', before, revision, fence, unmet, by}
end

-- A row that fails is told alone.
local answers = {}
for i = 1, rows do
  local fine, answer = pcall(decide, KEYS[i], nil, i)
  if not fine then answer = {false, 'error', type(answer) == 'table' and answer.err or tostring(answer)} end
  answers[i] = answer
end
return answers

-- finish many with columns: move
-- move
-- given_fence = ARGV[1]
-- given_change = ARGV[2]
local sources = {['RUNNING'] = true}
-- looked_at = 'status', 'fence'
-- seen_fence = found[2]
-- seen_revision = false
-- move_fields = 'status', 'DONE'
-- cleared = 'claimed_by', 'claimed_until'
-- keys_of_a_row = 1
-- stream_key = nil
-- leases = 0
-- index = 'jobs/work'
-- row_prefix = 'jobs:'

-- Takes a row out of the index of a claim, in which it waited, and out of its line; the next in line follows, and is told.
local function leave(row, key)
  redis.call('ZREM', 'jobs/work', key)
end

local rows = (#KEYS - 0) / 1

local function decide(row, stream, i)
  -- a key of another type is not a row of ours
  local found = redis.pcall('HMGET', row, 'status', 'fence')
  local before = found[1]
  if found.err or not before then return {} end
  -- numbers stay texts, because Lua's lose digits beyond 2^53
  local revision, fence = false, found[2]


  local unmet = 0
  -- P4: a write with another fence than the row's is refused
  if fence ~= ARGV[1] then unmet = unmet + 1 end

  -- P1: the row leaves only a status from which this move is declared
  if unmet == 0 and sources[before] then
    -- what can fail comes first, for a script that fails half-way is not undone: the history, and then the whole row at once
    local after, counted = false, false
    redis.call('HDEL', row, 'claimed_by', 'claimed_until')
    -- the end of a claim that another process holds; P4: its fence fits no more, also if the row comes back
    local fields, change = {'status', 'DONE'}, cjson.decode(ARGV[2])
    for _, name in ipairs(change.clear) do redis.call('HDEL', row, name) end
    for name, value in pairs(change.set) do
      fields[#fields + 1] = name
      fields[#fields + 1] = value
    end
    redis.call('HSET', row, unpack(fields))
    leave(row, string.sub(row, #'jobs:' + 1))
    return before
  end

  local by = false
  -- what the caller asked of the row comes before 'already': its revision (2), and its guards, which follow the declared ones
  return {false, 'not moved', before, revision, fence, unmet, by}
end

-- A row that fails is told alone.
local answers = {}
for i = 1, rows do
  local fine, answer = pcall(decide, KEYS[i], nil, i)
  if not fine then answer = {false, 'error', type(answer) == 'table' and answer.err or tostring(answer)} end
  answers[i] = answer
end
return answers

-- claim, with rows out of attempts: claim.acquire, claim.set_aside
-- claim.set_aside
-- page = ARGV[3]
-- lease = 30.0
-- limit = ARGV[2]
-- offset = ARGV[4]
-- given_now = ARGV[5]
-- index = 'jobs/work'
-- row_prefix = 'jobs:'
-- seen_attempts = seen[5]
-- looked_at = 'status', 'claimed_until', 'fence', 'rests_until', 'attempts'
local open = {['QUEUED'] = true, ['RUNNING'] = true}
-- exhausted_fields = 'status', 'DEAD'
-- cleared = 'claimed_by', 'claimed_until'
-- cap = 3

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

local moment = ARGV[5]
local now = tonumber(moment)
local ends_then = string.format('%.6f', now + 30.0)

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
  if not open[before] or is_held(ends, seen[3]) or attempts < 3 then
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

-- move of a row by key: move
-- move
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

-- move of a row by key that ends its claim: move
-- move
local sources = {['QUEUED'] = true, ['RUNNING'] = true}
-- looked_at = 'status', 'claimed_by', 'fence'
-- seen_fence = false
-- seen_revision = false
-- move_fields = 'status', 'DEAD'
-- returned = 'result'
-- fenced_off = found[2] or false
-- ended_columns = 'claimed_by', 'claimed_until'
-- ended_fences = 'fence', grown(found[3], now)
-- index = 'jobs/work'
-- row_prefix = 'jobs:'

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

  -- P1: the row leaves only a status from which this move is declared
  if unmet == 0 and sources[before] then
    -- what can fail comes first, for a script that fails half-way is not undone: the history, and then the whole row at once
    local after, counted = false, false
    -- the end of a claim that another process holds; P4: its fence fits no more, also if the row comes back
    redis.call('HDEL', row, 'claimed_by', 'claimed_until')
    redis.call('HSET', row, 'fence', grown(found[3], now))
    redis.call('HSET', row, 'status', 'DEAD')
    leave(row, string.sub(row, #'jobs:' + 1))
    return {before, after, found[2] or false, unpack(redis.call('HMGET', row, 'result'))}
  end

  local by = false
  -- what the caller asked of the row comes before 'already': its revision (2), and its guards, which follow the declared ones
  return {false, 'not moved', before, revision, fence, unmet, by}

-- move_many of rows by key: move
-- move
local sources = {['QUEUED'] = true, ['RUNNING'] = true}
-- looked_at = 'status', 'claimed_by', 'fence'
-- seen_fence = false
-- seen_revision = false
-- move_fields = 'status', 'DEAD'
-- keys_of_a_row = 1
-- stream_key = nil
-- leases = 0
-- fenced_off = found[2] or false
-- ended_columns = 'claimed_by', 'claimed_until'
-- ended_fences = 'fence', grown(found[3], now)
-- index = 'jobs/work'
-- row_prefix = 'jobs:'

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

local rows = (#KEYS - 0) / 1
local time = redis.call('TIME')
local moment = string.format('%s.%06d', time[1], time[2])
local now = tonumber(moment)

local function decide(row, stream, i)
  -- a key of another type is not a row of ours
  local found = redis.pcall('HMGET', row, 'status', 'claimed_by', 'fence')
  local before = found[1]
  if found.err or not before then return {} end
  -- numbers stay texts, because Lua's lose digits beyond 2^53
  local revision, fence = false, false


  local unmet = 0
  -- P4: a write with another fence than the row's is refused

  -- P1: the row leaves only a status from which this move is declared
  if unmet == 0 and sources[before] then
    -- what can fail comes first, for a script that fails half-way is not undone: the history, and then the whole row at once
    local after, counted = false, false
    -- the end of a claim that another process holds; P4: its fence fits no more, also if the row comes back
    redis.call('HDEL', row, 'claimed_by', 'claimed_until')
    redis.call('HSET', row, 'fence', grown(found[3], now))
    redis.call('HSET', row, 'status', 'DEAD')
    leave(row, string.sub(row, #'jobs:' + 1))
    return {before, after, found[2] or false}
  end

  local by = false
  -- what the caller asked of the row comes before 'already': its revision (2), and its guards, which follow the declared ones
  return {false, 'not moved', before, revision, fence, unmet, by}
end

-- A row that fails is told alone.
local answers = {}
for i = 1, rows do
  local fine, answer = pcall(decide, KEYS[i], nil, i)
  if not fine then answer = {false, 'error', type(answer) == 'table' and answer.err or tostring(answer)} end
  answers[i] = answer
end
return answers

-- claims: claim.listed
-- claim.listed
-- page = 500
-- lease = 30.0
-- offset = ARGV[1]
-- index = 'jobs/work'
-- row_prefix = 'jobs:'
-- seen_holder = seen[6]
-- seen_attempts = seen[5]
-- looked_at = 'status', 'claimed_until', 'fence', 'rests_until', 'attempts', 'claimed_by'

local time = redis.call('TIME')
local moment = string.format('%s.%06d', time[1], time[2])
local now = tonumber(moment)

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

-- Who holds what, among so many rows of the index: key, until, status, holder, fence, attempts.
local keys = redis.call('ZRANGE', 'jobs/work', ARGV[1], ARGV[1] + 500 - 1, 'WITHSCORES')
local found = {#keys / 2}
for i = 1, #keys, 2 do
  local seen = redis.pcall('HMGET', 'jobs:' .. keys[i], 'status', 'claimed_until', 'fence', 'rests_until', 'attempts', 'claimed_by')
  if lease_end(seen[2]) then
    local place = #found
    found[place + 1], found[place + 2], found[place + 3] = keys[i], keys[i + 1], seen[1]
    found[place + 4], found[place + 5], found[place + 6] = seen[6], seen[3], seen[5]
  end
end
found[#found + 1] = moment
return found
