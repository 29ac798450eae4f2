-- offer: claim.offer
-- claim.offer
-- given_now = false
-- column = 'status'
-- row_prefix = 'jobs:'
-- stream_key = nil
-- keys_of_a_row = 1
-- index = 'jobs/work'
local open = {['QUEUED'] = true, ['RUNNING'] = true}
-- other_keys = 1
-- first_value = -1

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local moment = false or clock()

local now = tonumber(moment)

-- Puts a row into the index, or into its line behind others; `after` is how many are offered after it.
local function offer_row(row, stream, fence, delay, holder, after)
  if not open[redis.pcall('HGET', row, 'status')] then return {'gone'} end
  -- rows that are offered together keep their order
  local key, when = string.sub(row, #'jobs:' + 1), now - after * 0.000001
  redis.call('ZADD', 'jobs/work', 'NX', string.format('%.6f', when), key)
  redis.call('PUBLISH', 'jobs/work', '')
  return {'offered'}
end

-- The answers of a decision about each row that the caller names.
local function each_row(decide)
  local answers, rows = {}, (#KEYS - 1) / 1
  for i = 1, rows do
    local place = -1 + i * 3
    answers[i] = decide(KEYS[i], nil, ARGV[place], ARGV[place + 1], ARGV[place + 2], rows - i)
  end
  return answers
end

local function offer()
  return each_row(offer_row)
end

return offer()

-- claim: claim.acquire
-- claim.acquire
-- given_now = ARGV[5]
-- limit = ARGV[2]
-- offset = ARGV[4]
-- page = ARGV[3]
-- lease = 30.0
-- row_prefix = 'jobs:'
-- revision_column = false
-- history = false
-- stream_prefix = 'jobs/history:'
-- index = 'jobs/work'
-- seen_attempts = seen[5]
-- seen_not_before = seen[4]
-- looked_at = 'status', 'claimed_until', 'fence', 'not_before', 'attempts'
local open = {['QUEUED'] = true, ['RUNNING'] = true}
-- lease_end = columns_end
-- next_fence = columns_fence
-- claim_fields = 'claimed_by', ARGV[1], 'fence', fence, 'claimed_until', ends_then, 'status', 'RUNNING', 'attempts', attempts
-- attempts_column = 'attempts'
-- max_attempts = 3

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local moment = ARGV[5] or clock()

local now = tonumber(moment)

-- When the lease of a row ends, by what stands there; nothing if it has no holder. For each form of a claim.
local function columns_end(text)
  return tonumber(text or nil)
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

-- Why a row cannot be claimed, as bits: its status 1, its holder 2, its backoff 4, its attempts 8, then from 32 on the guards.
local function obstacles(row, seen)
  if not seen[1] then return 1 end
  local unmet = open[seen[1]] and 0 or 1
  if is_held(columns_end(seen[2]), seen[3]) then unmet = unmet + 2 end
  if (tonumber(seen[4]) or 0) > now then unmet = unmet + 4 end
  if (tonumber(seen[5]) or 0) >= 3 then unmet = unmet + 8 end
  return unmet
end

-- The whole number after this one, 1 if there is none, and nothing if it is not a whole number. Lua's own numbers lose
-- digits beyond 2^53: a longer one stays text.
local function one_more(text)
  if not text then return 1 end
  if #text < 16 and string.find(text, '^%-?%d+$') then return text + 1 end
  local head, digit, nines = string.match('0' .. text, '^(%d-)([0-8])(9*)$')
  return head and string.gsub(head .. digit + 1 .. string.rep('0', #nines), '^0+', '') or nil
end

local ends_then = string.format('%.6f', now + 30.0)

-- A number that grows with each holder (P4, P10): by at least one, and to the microseconds of now, so that it grows even
-- after a lossy failover has forgotten the last ones.
local function grown(number, now)
  local least, following = math.floor(now * 1000000), (tonumber(number) or 0) + 1
  if following < 9007199254740992 then return string.format('%.0f', math.max(following, least)) end
  return one_more(number) or string.format('%.0f', least)
end

-- P4: no two claims of a row have the same fence. For each form of a claim.
local function columns_fence(fence)
  return grown(fence, now)
end

-- The row's next revision as text, '' without one; nothing if it is not a number.
local function next_revision(seen)
  return ''
end

-- Writes a claim into the row, and returns its fence and how many attempts there were; or false, and why it cannot.
local function hold(row, key, stream, seen)
  local before, fence, revision, attempts = seen[1], columns_fence(seen[3]), next_revision(seen), 1
  attempts = one_more(seen[5])
  if not attempts then return false, 'attempts' .. ' is not a whole number' end
  if not revision then return false, false .. ' is not a whole number' end
  redis.call('ZADD', 'jobs/work', ends_then, key)
  redis.call('HSET', row, 'claimed_by', ARGV[1], 'fence', fence, 'claimed_until', ends_then, 'status', 'RUNNING', 'attempts', attempts)
  return fence, tonumber(attempts)
end

-- The keys that the index proposes, how many it proposed, and how many of these are of other tenants and stay where they are.
local function proposals()
  local keys = redis.call('ZRANGEBYSCORE', 'jobs/work', '-inf', moment, 'LIMIT', ARGV[4], ARGV[3])
  local proposed = #keys
  return keys, proposed, proposed - #keys
end

-- P13: rows that wait for longer than any lease either back off, or were held when the clock was set back. Where there is
-- nothing else, a few of them are looked at, from a place that the clock chooses, so that each is reached.
local function far_ahead()
  local later = '(' .. string.format('%.6f', now + 2 * 30.0)
  local number = redis.call('ZCOUNT', 'jobs/work', later, '+inf')
  local first = math.floor(now * 1000) % math.max(number - 9, 1)
  local keys = redis.call('ZRANGEBYSCORE', 'jobs/work', later, '+inf', 'LIMIT', first, 10)
  return keys
end

-- The stream of a row that the index proposes.
local function stream_of(key)
  return false and 'jobs/history:' .. key
end

-- A row that cannot be decided does not block the others: it is reported, and proposed again when a lease is over.
local function pass_over(failed, key, why)
  redis.call('ZADD', 'jobs/work', ends_then, key)
  failed[#failed + 1], failed[#failed + 2] = key, why
end

-- The answer to a search: how many were proposed, how many stay, and what was found.
local function searched(found, kept, failed)
  found[2] = kept
  if #failed > 1 then failed[1], found[2] = kept, failed end
  return found
end

-- Takes a row out of the index in which it waited, and out of its line.
local function leave(row, key)
  redis.call('ZREM', 'jobs/work', key)
end

-- What becomes of a proposed row that cannot be claimed. Returns whether it stays where it is in the index, and who follows it.
local function put_aside(row, key, seen, unmet)
  if unmet % 2 == 1 then return false, leave(row, key) end
  if unmet % 4 >= 2 then
    -- held: it is proposed again when the lease is over
    redis.call('ZADD', 'jobs/work', string.format('%.6f', columns_end(seen[2])), key)
    return false
  end
  if unmet % 8 >= 4 then
    redis.call('ZADD', 'jobs/work', string.format('%.6f', seen[4]), key)
    return false
  end
  return true
end

-- Up to `limit` rows, in the order in which they became ready: for each key, fence, attempts, status before, columns ….
local function acquire()
  local keys, proposed, kept = proposals()
  if proposed == 0 then keys = far_ahead() end
  local most, wins, looked, place = tonumber(ARGV[2]), 0, #keys, 2
  local found, failed = {proposed, 0}, {0}
  for i, key in ipairs(keys) do
    if wins == most then break end
    local row = 'jobs:' .. key
    -- a key of another type is not a row of ours
    local seen = redis.pcall('HMGET', row, 'status', 'claimed_until', 'fence', 'not_before', 'attempts')
    local unmet = obstacles(row, seen)
    if unmet > 0 then
      local stays, following = put_aside(row, key, seen, unmet)
      if stays and i <= looked then kept = kept + 1 end
      -- the next in its line is looked at too, and those behind it if that one is gone as well (P13)
      if i < 1000 then keys[#keys + 1] = following end
    else
      local fence, attempts = hold(row, key, stream_of(key), seen)
      if not fence then
        pass_over(failed, key, attempts)
      else
        wins = wins + 1
        found[place + 1], found[place + 2], found[place + 3], found[place + 4] = key, fence, attempts, seen[1]
        place = place + 4
      end
    end
  end
  return searched(found, kept, failed)
end

return acquire()

-- claim by the store's clock, returning: claim.acquire
-- claim.acquire
-- given_now = false
-- limit = ARGV[2]
-- offset = ARGV[4]
-- page = ARGV[3]
-- lease = 30.0
-- row_prefix = 'jobs:'
-- revision_column = false
-- history = false
-- stream_prefix = 'jobs/history:'
-- returned = 'made_at'
-- index = 'jobs/work'
-- seen_attempts = seen[5]
-- seen_not_before = seen[4]
-- looked_at = 'status', 'claimed_until', 'fence', 'not_before', 'attempts'
local open = {['QUEUED'] = true, ['RUNNING'] = true}
-- lease_end = columns_end
-- next_fence = columns_fence
-- claim_fields = 'claimed_by', ARGV[1], 'fence', fence, 'claimed_until', ends_then, 'status', 'RUNNING', 'attempts', attempts
-- attempts_column = 'attempts'
-- max_attempts = 3

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local moment = false or clock()

local now = tonumber(moment)

-- When the lease of a row ends, by what stands there; nothing if it has no holder. For each form of a claim.
local function columns_end(text)
  return tonumber(text or nil)
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

-- Why a row cannot be claimed, as bits: its status 1, its holder 2, its backoff 4, its attempts 8, then from 32 on the guards.
local function obstacles(row, seen)
  if not seen[1] then return 1 end
  local unmet = open[seen[1]] and 0 or 1
  if is_held(columns_end(seen[2]), seen[3]) then unmet = unmet + 2 end
  if (tonumber(seen[4]) or 0) > now then unmet = unmet + 4 end
  if (tonumber(seen[5]) or 0) >= 3 then unmet = unmet + 8 end
  return unmet
end

-- The whole number after this one, 1 if there is none, and nothing if it is not a whole number. Lua's own numbers lose
-- digits beyond 2^53: a longer one stays text.
local function one_more(text)
  if not text then return 1 end
  if #text < 16 and string.find(text, '^%-?%d+$') then return text + 1 end
  local head, digit, nines = string.match('0' .. text, '^(%d-)([0-8])(9*)$')
  return head and string.gsub(head .. digit + 1 .. string.rep('0', #nines), '^0+', '') or nil
end

local ends_then = string.format('%.6f', now + 30.0)

-- A number that grows with each holder (P4, P10): by at least one, and to the microseconds of now, so that it grows even
-- after a lossy failover has forgotten the last ones.
local function grown(number, now)
  local least, following = math.floor(now * 1000000), (tonumber(number) or 0) + 1
  if following < 9007199254740992 then return string.format('%.0f', math.max(following, least)) end
  return one_more(number) or string.format('%.0f', least)
end

-- P4: no two claims of a row have the same fence. For each form of a claim.
local function columns_fence(fence)
  return grown(fence, now)
end

-- The row's next revision as text, '' without one; nothing if it is not a number.
local function next_revision(seen)
  return ''
end

-- Writes a claim into the row, and returns its fence and how many attempts there were; or false, and why it cannot.
local function hold(row, key, stream, seen)
  local before, fence, revision, attempts = seen[1], columns_fence(seen[3]), next_revision(seen), 1
  attempts = one_more(seen[5])
  if not attempts then return false, 'attempts' .. ' is not a whole number' end
  if not revision then return false, false .. ' is not a whole number' end
  redis.call('ZADD', 'jobs/work', ends_then, key)
  redis.call('HSET', row, 'claimed_by', ARGV[1], 'fence', fence, 'claimed_until', ends_then, 'status', 'RUNNING', 'attempts', attempts)
  return fence, tonumber(attempts)
end

-- The keys that the index proposes, how many it proposed, and how many of these are of other tenants and stay where they are.
local function proposals()
  local keys = redis.call('ZRANGEBYSCORE', 'jobs/work', '-inf', moment, 'LIMIT', ARGV[4], ARGV[3])
  local proposed = #keys
  return keys, proposed, proposed - #keys
end

-- P13: rows that wait for longer than any lease either back off, or were held when the clock was set back. Where there is
-- nothing else, a few of them are looked at, from a place that the clock chooses, so that each is reached.
local function far_ahead()
  local later = '(' .. string.format('%.6f', now + 2 * 30.0)
  local number = redis.call('ZCOUNT', 'jobs/work', later, '+inf')
  local first = math.floor(now * 1000) % math.max(number - 9, 1)
  local keys = redis.call('ZRANGEBYSCORE', 'jobs/work', later, '+inf', 'LIMIT', first, 10)
  return keys
end

-- The stream of a row that the index proposes.
local function stream_of(key)
  return false and 'jobs/history:' .. key
end

-- A row that cannot be decided does not block the others: it is reported, and proposed again when a lease is over.
local function pass_over(failed, key, why)
  redis.call('ZADD', 'jobs/work', ends_then, key)
  failed[#failed + 1], failed[#failed + 2] = key, why
end

-- The answer to a search: how many were proposed, how many stay, and what was found.
local function searched(found, kept, failed)
  found[2] = kept
  if #failed > 1 then failed[1], found[2] = kept, failed end
  return found
end

-- Takes a row out of the index in which it waited, and out of its line.
local function leave(row, key)
  redis.call('ZREM', 'jobs/work', key)
end

-- What becomes of a proposed row that cannot be claimed. Returns whether it stays where it is in the index, and who follows it.
local function put_aside(row, key, seen, unmet)
  if unmet % 2 == 1 then return false, leave(row, key) end
  if unmet % 4 >= 2 then
    -- held: it is proposed again when the lease is over
    redis.call('ZADD', 'jobs/work', string.format('%.6f', columns_end(seen[2])), key)
    return false
  end
  if unmet % 8 >= 4 then
    redis.call('ZADD', 'jobs/work', string.format('%.6f', seen[4]), key)
    return false
  end
  return true
end

-- Up to `limit` rows, in the order in which they became ready: for each key, fence, attempts, status before, columns ….
local function acquire()
  local keys, proposed, kept = proposals()
  if proposed == 0 then keys = far_ahead() end
  local most, wins, looked, place = tonumber(ARGV[2]), 0, #keys, 2
  local found, failed = {proposed, 0}, {0}
  for i, key in ipairs(keys) do
    if wins == most then break end
    local row = 'jobs:' .. key
    -- a key of another type is not a row of ours
    local seen = redis.pcall('HMGET', row, 'status', 'claimed_until', 'fence', 'not_before', 'attempts')
    local unmet = obstacles(row, seen)
    if unmet > 0 then
      local stays, following = put_aside(row, key, seen, unmet)
      if stays and i <= looked then kept = kept + 1 end
      -- the next in its line is looked at too, and those behind it if that one is gone as well (P13)
      if i < 1000 then keys[#keys + 1] = following end
    else
      local fence, attempts = hold(row, key, stream_of(key), seen)
      if not fence then
        pass_over(failed, key, attempts)
      else
        wins = wins + 1
        found[place + 1], found[place + 2], found[place + 3], found[place + 4] = key, fence, attempts, seen[1]
        place = place + 4
        for _, value in ipairs(redis.call('HMGET', row, 'made_at')) do
          place = place + 1
          found[place] = value
        end
      end
    end
  end
  return searched(found, kept, failed)
end

return acquire()

-- claim with a guard and another lease: claim.acquire
-- claim.acquire
-- given_now = false
-- given_guards = ARGV[6]
-- limit = ARGV[2]
-- offset = ARGV[4]
-- page = ARGV[3]
-- lease = ARGV[5]
-- row_prefix = 'jobs:'
-- revision_column = false
-- history = false
-- stream_prefix = 'jobs/history:'
-- index = 'jobs/work'
-- seen_attempts = seen[5]
-- seen_not_before = seen[4]
-- looked_at = 'status', 'claimed_until', 'fence', 'not_before', 'attempts'
local open = {['QUEUED'] = true, ['RUNNING'] = true}
-- lease_end = columns_end
-- next_fence = columns_fence
-- claim_fields = 'claimed_by', ARGV[1], 'fence', fence, 'claimed_until', ends_then, 'status', 'RUNNING', 'attempts', attempts
-- attempts_column = 'attempts'
-- max_attempts = 3

-- Whether a row meets a guard [column, operator, value].
-- A comparison with a missing field is never true, as with NULL in SQL. Numbers compare as numbers, text as text.
local function holds(row, guard)
  local operator, value = guard[2], guard[3]
  -- P10: the lease (its key is counted from the last one) is still in this epoch, so an old leader can write nothing
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

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local moment = false or clock()

local now = tonumber(moment)

local guarded = cjson.decode(ARGV[6])

-- When the lease of a row ends, by what stands there; nothing if it has no holder. For each form of a claim.
local function columns_end(text)
  return tonumber(text or nil)
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

-- Why a row cannot be claimed, as bits: its status 1, its holder 2, its backoff 4, its attempts 8, then from 32 on the guards.
local function obstacles(row, seen)
  if not seen[1] then return 1 end
  local unmet = open[seen[1]] and 0 or 1
  if is_held(columns_end(seen[2]), seen[3]) then unmet = unmet + 2 end
  if (tonumber(seen[4]) or 0) > now then unmet = unmet + 4 end
  if (tonumber(seen[5]) or 0) >= 3 then unmet = unmet + 8 end
  unmet = unmet + unmet_guards(row, guarded, 32)
  return unmet
end

-- The whole number after this one, 1 if there is none, and nothing if it is not a whole number. Lua's own numbers lose
-- digits beyond 2^53: a longer one stays text.
local function one_more(text)
  if not text then return 1 end
  if #text < 16 and string.find(text, '^%-?%d+$') then return text + 1 end
  local head, digit, nines = string.match('0' .. text, '^(%d-)([0-8])(9*)$')
  return head and string.gsub(head .. digit + 1 .. string.rep('0', #nines), '^0+', '') or nil
end

local ends_then = string.format('%.6f', now + ARGV[5])

-- A number that grows with each holder (P4, P10): by at least one, and to the microseconds of now, so that it grows even
-- after a lossy failover has forgotten the last ones.
local function grown(number, now)
  local least, following = math.floor(now * 1000000), (tonumber(number) or 0) + 1
  if following < 9007199254740992 then return string.format('%.0f', math.max(following, least)) end
  return one_more(number) or string.format('%.0f', least)
end

-- P4: no two claims of a row have the same fence. For each form of a claim.
local function columns_fence(fence)
  return grown(fence, now)
end

-- The row's next revision as text, '' without one; nothing if it is not a number.
local function next_revision(seen)
  return ''
end

-- Writes a claim into the row, and returns its fence and how many attempts there were; or false, and why it cannot.
local function hold(row, key, stream, seen)
  local before, fence, revision, attempts = seen[1], columns_fence(seen[3]), next_revision(seen), 1
  attempts = one_more(seen[5])
  if not attempts then return false, 'attempts' .. ' is not a whole number' end
  if not revision then return false, false .. ' is not a whole number' end
  redis.call('ZADD', 'jobs/work', ends_then, key)
  redis.call('HSET', row, 'claimed_by', ARGV[1], 'fence', fence, 'claimed_until', ends_then, 'status', 'RUNNING', 'attempts', attempts)
  return fence, tonumber(attempts)
end

-- The keys that the index proposes, how many it proposed, and how many of these are of other tenants and stay where they are.
local function proposals()
  local keys = redis.call('ZRANGEBYSCORE', 'jobs/work', '-inf', moment, 'LIMIT', ARGV[4], ARGV[3])
  local proposed = #keys
  return keys, proposed, proposed - #keys
end

-- P13: rows that wait for longer than any lease either back off, or were held when the clock was set back. Where there is
-- nothing else, a few of them are looked at, from a place that the clock chooses, so that each is reached.
local function far_ahead()
  local later = '(' .. string.format('%.6f', now + 2 * ARGV[5])
  local number = redis.call('ZCOUNT', 'jobs/work', later, '+inf')
  local first = math.floor(now * 1000) % math.max(number - 9, 1)
  local keys = redis.call('ZRANGEBYSCORE', 'jobs/work', later, '+inf', 'LIMIT', first, 10)
  return keys
end

-- The stream of a row that the index proposes.
local function stream_of(key)
  return false and 'jobs/history:' .. key
end

-- A row that cannot be decided does not block the others: it is reported, and proposed again when a lease is over.
local function pass_over(failed, key, why)
  redis.call('ZADD', 'jobs/work', ends_then, key)
  failed[#failed + 1], failed[#failed + 2] = key, why
end

-- The answer to a search: how many were proposed, how many stay, and what was found.
local function searched(found, kept, failed)
  found[2] = kept
  if #failed > 1 then failed[1], found[2] = kept, failed end
  return found
end

-- Takes a row out of the index in which it waited, and out of its line.
local function leave(row, key)
  redis.call('ZREM', 'jobs/work', key)
end

-- What becomes of a proposed row that cannot be claimed. Returns whether it stays where it is in the index, and who follows it.
local function put_aside(row, key, seen, unmet)
  if unmet % 2 == 1 then return false, leave(row, key) end
  if unmet % 4 >= 2 then
    -- held: it is proposed again when the lease is over
    redis.call('ZADD', 'jobs/work', string.format('%.6f', columns_end(seen[2])), key)
    return false
  end
  if unmet % 8 >= 4 then
    redis.call('ZADD', 'jobs/work', string.format('%.6f', seen[4]), key)
    return false
  end
  return true
end

-- Up to `limit` rows, in the order in which they became ready: for each key, fence, attempts, status before, columns ….
local function acquire()
  local keys, proposed, kept = proposals()
  if proposed == 0 then keys = far_ahead() end
  local most, wins, looked, place = tonumber(ARGV[2]), 0, #keys, 2
  local found, failed = {proposed, 0}, {0}
  for i, key in ipairs(keys) do
    if wins == most then break end
    local row = 'jobs:' .. key
    -- a key of another type is not a row of ours
    local seen = redis.pcall('HMGET', row, 'status', 'claimed_until', 'fence', 'not_before', 'attempts')
    local unmet = obstacles(row, seen)
    if unmet > 0 then
      local stays, following = put_aside(row, key, seen, unmet)
      if stays and i <= looked then kept = kept + 1 end
      -- the next in its line is looked at too, and those behind it if that one is gone as well (P13)
      if i < 1000 then keys[#keys + 1] = following end
    else
      local fence, attempts = hold(row, key, stream_of(key), seen)
      if not fence then
        pass_over(failed, key, attempts)
      else
        wins = wins + 1
        found[place + 1], found[place + 2], found[place + 3], found[place + 4] = key, fence, attempts, seen[1]
        place = place + 4
      end
    end
  end
  return searched(found, kept, failed)
end

return acquire()

-- claim_one, won: claim.one
-- claim.one
-- given_now = ARGV[3]
-- lease = 30.0
-- row_prefix = 'jobs:'
-- revision_column = false
-- stream_key = nil
-- keys_of_a_row = 1
-- index = 'jobs/work'
-- seen_holder = seen[6]
-- seen_attempts = seen[5]
-- seen_not_before = seen[4]
-- looked_at = 'status', 'claimed_until', 'fence', 'not_before', 'attempts', 'claimed_by'
local open = {['QUEUED'] = true, ['RUNNING'] = true}
-- lease_end = columns_end
-- next_fence = columns_fence
-- claim_fields = 'claimed_by', ARGV[1], 'fence', fence, 'claimed_until', ends_then, 'status', 'RUNNING', 'attempts', attempts
-- attempts_column = 'attempts'
-- max_attempts = 3
-- other_keys = 1
-- first_value = 1

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local moment = ARGV[3] or clock()

local now = tonumber(moment)

-- When the lease of a row ends, by what stands there; nothing if it has no holder. For each form of a claim.
local function columns_end(text)
  return tonumber(text or nil)
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

-- Why a row cannot be claimed, as bits: its status 1, its holder 2, its backoff 4, its attempts 8, then from 32 on the guards.
local function obstacles(row, seen)
  if not seen[1] then return 1 end
  local unmet = open[seen[1]] and 0 or 1
  if is_held(columns_end(seen[2]), seen[3]) then unmet = unmet + 2 end
  if (tonumber(seen[4]) or 0) > now then unmet = unmet + 4 end
  if (tonumber(seen[5]) or 0) >= 3 then unmet = unmet + 8 end
  return unmet
end

-- The whole number after this one, 1 if there is none, and nothing if it is not a whole number. Lua's own numbers lose
-- digits beyond 2^53: a longer one stays text.
local function one_more(text)
  if not text then return 1 end
  if #text < 16 and string.find(text, '^%-?%d+$') then return text + 1 end
  local head, digit, nines = string.match('0' .. text, '^(%d-)([0-8])(9*)$')
  return head and string.gsub(head .. digit + 1 .. string.rep('0', #nines), '^0+', '') or nil
end

local ends_then = string.format('%.6f', now + 30.0)

-- A number that grows with each holder (P4, P10): by at least one, and to the microseconds of now, so that it grows even
-- after a lossy failover has forgotten the last ones.
local function grown(number, now)
  local least, following = math.floor(now * 1000000), (tonumber(number) or 0) + 1
  if following < 9007199254740992 then return string.format('%.0f', math.max(following, least)) end
  return one_more(number) or string.format('%.0f', least)
end

-- P4: no two claims of a row have the same fence. For each form of a claim.
local function columns_fence(fence)
  return grown(fence, now)
end

-- The row's next revision as text, '' without one; nothing if it is not a number.
local function next_revision(seen)
  return ''
end

-- Writes a claim into the row, and returns its fence and how many attempts there were; or false, and why it cannot.
local function hold(row, key, stream, seen)
  local before, fence, revision, attempts = seen[1], columns_fence(seen[3]), next_revision(seen), 1
  attempts = one_more(seen[5])
  if not attempts then return false, 'attempts' .. ' is not a whole number' end
  if not revision then return false, false .. ' is not a whole number' end
  redis.call('ZADD', 'jobs/work', ends_then, key)
  redis.call('HSET', row, 'claimed_by', ARGV[1], 'fence', fence, 'claimed_until', ends_then, 'status', 'RUNNING', 'attempts', attempts)
  return fence, tonumber(attempts)
end

-- One row by its key: {'claimed', fence, attempts, before, columns …} or {'taken', before, unmet, holder}, {'missing'}.
local function claim_row(row, stream)
  local key, seen = string.sub(row, #'jobs:' + 1), redis.pcall('HMGET', row, 'status', 'claimed_until', 'fence', 'not_before', 'attempts', 'claimed_by')
  if not seen[1] then return {'missing'} end
  local unmet = obstacles(row, seen)
  if unmet > 0 then return {'taken', seen[1], unmet, seen[6]} end
  local fence, attempts = hold(row, key, stream, seen)
  if not fence then return {'error', attempts} end
  return {'claimed', fence, attempts, seen[1]}
end

-- The answers of a decision about each row that the caller names.
local function each_row(decide)
  local answers, rows = {}, (#KEYS - 1) / 1
  for i = 1, rows do
    local place = 1 + i * 3
    answers[i] = decide(KEYS[i], nil, ARGV[place], ARGV[place + 1], ARGV[place + 2], rows - i)
  end
  return answers
end

local function one()
  return each_row(claim_row)
end

return one()

-- claim_one, taken: claim.one
-- claim_one, missing: claim.one
-- claim.one
-- given_now = false
-- lease = 30.0
-- row_prefix = 'jobs:'
-- revision_column = false
-- stream_key = nil
-- keys_of_a_row = 1
-- index = 'jobs/work'
-- seen_holder = seen[6]
-- seen_attempts = seen[5]
-- seen_not_before = seen[4]
-- looked_at = 'status', 'claimed_until', 'fence', 'not_before', 'attempts', 'claimed_by'
local open = {['QUEUED'] = true, ['RUNNING'] = true}
-- lease_end = columns_end
-- next_fence = columns_fence
-- claim_fields = 'claimed_by', ARGV[1], 'fence', fence, 'claimed_until', ends_then, 'status', 'RUNNING', 'attempts', attempts
-- attempts_column = 'attempts'
-- max_attempts = 3
-- other_keys = 1
-- first_value = 0

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local moment = false or clock()

local now = tonumber(moment)

-- When the lease of a row ends, by what stands there; nothing if it has no holder. For each form of a claim.
local function columns_end(text)
  return tonumber(text or nil)
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

-- Why a row cannot be claimed, as bits: its status 1, its holder 2, its backoff 4, its attempts 8, then from 32 on the guards.
local function obstacles(row, seen)
  if not seen[1] then return 1 end
  local unmet = open[seen[1]] and 0 or 1
  if is_held(columns_end(seen[2]), seen[3]) then unmet = unmet + 2 end
  if (tonumber(seen[4]) or 0) > now then unmet = unmet + 4 end
  if (tonumber(seen[5]) or 0) >= 3 then unmet = unmet + 8 end
  return unmet
end

-- The whole number after this one, 1 if there is none, and nothing if it is not a whole number. Lua's own numbers lose
-- digits beyond 2^53: a longer one stays text.
local function one_more(text)
  if not text then return 1 end
  if #text < 16 and string.find(text, '^%-?%d+$') then return text + 1 end
  local head, digit, nines = string.match('0' .. text, '^(%d-)([0-8])(9*)$')
  return head and string.gsub(head .. digit + 1 .. string.rep('0', #nines), '^0+', '') or nil
end

local ends_then = string.format('%.6f', now + 30.0)

-- A number that grows with each holder (P4, P10): by at least one, and to the microseconds of now, so that it grows even
-- after a lossy failover has forgotten the last ones.
local function grown(number, now)
  local least, following = math.floor(now * 1000000), (tonumber(number) or 0) + 1
  if following < 9007199254740992 then return string.format('%.0f', math.max(following, least)) end
  return one_more(number) or string.format('%.0f', least)
end

-- P4: no two claims of a row have the same fence. For each form of a claim.
local function columns_fence(fence)
  return grown(fence, now)
end

-- The row's next revision as text, '' without one; nothing if it is not a number.
local function next_revision(seen)
  return ''
end

-- Writes a claim into the row, and returns its fence and how many attempts there were; or false, and why it cannot.
local function hold(row, key, stream, seen)
  local before, fence, revision, attempts = seen[1], columns_fence(seen[3]), next_revision(seen), 1
  attempts = one_more(seen[5])
  if not attempts then return false, 'attempts' .. ' is not a whole number' end
  if not revision then return false, false .. ' is not a whole number' end
  redis.call('ZADD', 'jobs/work', ends_then, key)
  redis.call('HSET', row, 'claimed_by', ARGV[1], 'fence', fence, 'claimed_until', ends_then, 'status', 'RUNNING', 'attempts', attempts)
  return fence, tonumber(attempts)
end

-- One row by its key: {'claimed', fence, attempts, before, columns …} or {'taken', before, unmet, holder}, {'missing'}.
local function claim_row(row, stream)
  local key, seen = string.sub(row, #'jobs:' + 1), redis.pcall('HMGET', row, 'status', 'claimed_until', 'fence', 'not_before', 'attempts', 'claimed_by')
  if not seen[1] then return {'missing'} end
  local unmet = obstacles(row, seen)
  if unmet > 0 then return {'taken', seen[1], unmet, seen[6]} end
  local fence, attempts = hold(row, key, stream, seen)
  if not fence then return {'error', attempts} end
  return {'claimed', fence, attempts, seen[1]}
end

-- The answers of a decision about each row that the caller names.
local function each_row(decide)
  local answers, rows = {}, (#KEYS - 1) / 1
  for i = 1, rows do
    local place = 0 + i * 3
    answers[i] = decide(KEYS[i], nil, ARGV[place], ARGV[place + 1], ARGV[place + 2], rows - i)
  end
  return answers
end

local function one()
  return each_row(claim_row)
end

return one()

-- renew: claim.renew
-- claim.renew
-- given_now = false
-- lease = 30.0
-- row_prefix = 'jobs:'
-- stream_key = nil
-- keys_of_a_row = 1
-- index = 'jobs/work'
-- seen_holder = seen[6]
-- looked_at = 'status', 'claimed_until', 'fence', 'not_before', 'attempts', 'claimed_by'
local held = {['RUNNING'] = true}
-- renew_fields = 'claimed_until', ends_then
-- other_keys = 1
-- first_value = 0

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local moment = false or clock()

local now = tonumber(moment)

local ends_then = string.format('%.6f', now + 30.0)

-- P5: only the current holder; P4: an older fence than the newest is refused.
local function refusal(seen, fence)
  if not seen[1] then return {'missing'} end
  if seen[3] ~= fence or not held[seen[1]] then return {'lost', seen[1], seen[3], seen[6]} end
end

local function renew_row(row, stream, fence)
  local seen = redis.pcall('HMGET', row, 'status', 'claimed_until', 'fence', 'not_before', 'attempts', 'claimed_by')
  local refused = refusal(seen, fence)
  if refused then return refused end
  redis.call('HSET', row, 'claimed_until', ends_then)
  redis.call('ZADD', 'jobs/work', ends_then, string.sub(row, #'jobs:' + 1))
  return {'renewed', fence}
end

-- The answers of a decision about each row that the caller names.
local function each_row(decide)
  local answers, rows = {}, (#KEYS - 1) / 1
  for i = 1, rows do
    local place = 0 + i * 3
    answers[i] = decide(KEYS[i], nil, ARGV[place], ARGV[place + 1], ARGV[place + 2], rows - i)
  end
  return answers
end

local function renew()
  return each_row(renew_row)
end

return renew()

-- renew at a given time: claim.renew
-- claim.renew
-- given_now = ARGV[2]
-- lease = 30.0
-- row_prefix = 'jobs:'
-- stream_key = nil
-- keys_of_a_row = 1
-- index = 'jobs/work'
-- seen_holder = seen[6]
-- looked_at = 'status', 'claimed_until', 'fence', 'not_before', 'attempts', 'claimed_by'
local held = {['RUNNING'] = true}
-- renew_fields = 'claimed_until', ends_then
-- other_keys = 1
-- first_value = 1

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local moment = ARGV[2] or clock()

local now = tonumber(moment)

local ends_then = string.format('%.6f', now + 30.0)

-- P5: only the current holder; P4: an older fence than the newest is refused.
local function refusal(seen, fence)
  if not seen[1] then return {'missing'} end
  if seen[3] ~= fence or not held[seen[1]] then return {'lost', seen[1], seen[3], seen[6]} end
end

local function renew_row(row, stream, fence)
  local seen = redis.pcall('HMGET', row, 'status', 'claimed_until', 'fence', 'not_before', 'attempts', 'claimed_by')
  local refused = refusal(seen, fence)
  if refused then return refused end
  redis.call('HSET', row, 'claimed_until', ends_then)
  redis.call('ZADD', 'jobs/work', ends_then, string.sub(row, #'jobs:' + 1))
  return {'renewed', fence}
end

-- The answers of a decision about each row that the caller names.
local function each_row(decide)
  local answers, rows = {}, (#KEYS - 1) / 1
  for i = 1, rows do
    local place = 1 + i * 3
    answers[i] = decide(KEYS[i], nil, ARGV[place], ARGV[place + 1], ARGV[place + 2], rows - i)
  end
  return answers
end

local function renew()
  return each_row(renew_row)
end

return renew()

-- release: claim.give_back
-- claim.give_back
-- given_now = false
-- row_prefix = 'jobs:'
-- stream_key = nil
-- keys_of_a_row = 1
-- index = 'jobs/work'
-- seen_holder = seen[6]
-- seen_attempts = seen[5]
-- seen_revision = false
-- looked_at = 'status', 'claimed_until', 'fence', 'not_before', 'attempts', 'claimed_by'
local held = {['RUNNING'] = true}
-- next_fence = columns_fence
-- back_fields = 'fence', fence, 'status', 'QUEUED'
-- cleared = 'claimed_by', 'claimed_until'
-- attempts_column = 'attempts'
-- not_before_column = 'not_before'
-- other_keys = 1
-- first_value = 0

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local moment = false or clock()

local now = tonumber(moment)

-- The whole number after this one, 1 if there is none, and nothing if it is not a whole number. Lua's own numbers lose
-- digits beyond 2^53: a longer one stays text.
local function one_more(text)
  if not text then return 1 end
  if #text < 16 and string.find(text, '^%-?%d+$') then return text + 1 end
  local head, digit, nines = string.match('0' .. text, '^(%d-)([0-8])(9*)$')
  return head and string.gsub(head .. digit + 1 .. string.rep('0', #nines), '^0+', '') or nil
end

-- A number that grows with each holder (P4, P10): by at least one, and to the microseconds of now, so that it grows even
-- after a lossy failover has forgotten the last ones.
local function grown(number, now)
  local least, following = math.floor(now * 1000000), (tonumber(number) or 0) + 1
  if following < 9007199254740992 then return string.format('%.0f', math.max(following, least)) end
  return one_more(number) or string.format('%.0f', least)
end

-- P4: no two claims of a row have the same fence. For each form of a claim.
local function columns_fence(fence)
  return grown(fence, now)
end

-- P5: only the current holder; P4: an older fence than the newest is refused.
local function refusal(seen, fence)
  if not seen[1] then return {'missing'} end
  if seen[3] ~= fence or not held[seen[1]] then return {'lost', seen[1], seen[3], seen[6]} end
end

-- Gives the row back: with a delay it backs off, without one its attempt does not count.
local function give_back_row(row, stream, fence, delay, holder)
  local seen = redis.pcall('HMGET', row, 'status', 'claimed_until', 'fence', 'not_before', 'attempts', 'claimed_by')
  local refused = refusal(seen, fence)
  if refused then return refused end
  local before, ready, revision = seen[1], moment, false or ''
  redis.call('HDEL', row, 'claimed_by', 'claimed_until')
  if delay == '' and (tonumber(seen[5]) or 0) > 0 then redis.pcall('HINCRBY', row, 'attempts', -1) end
  if delay ~= '' then
    ready = string.format('%.6f', now + delay)
    redis.call('HSET', row, 'not_before', ready)
  end
  fence = columns_fence(seen[3])
  redis.call('HSET', row, 'fence', fence, 'status', 'QUEUED')
  redis.call('ZADD', 'jobs/work', ready, string.sub(row, #'jobs:' + 1))
  return {'released'}
end

-- The answers of a decision about each row that the caller names.
local function each_row(decide)
  local answers, rows = {}, (#KEYS - 1) / 1
  for i = 1, rows do
    local place = 0 + i * 3
    answers[i] = decide(KEYS[i], nil, ARGV[place], ARGV[place + 1], ARGV[place + 2], rows - i)
  end
  return answers
end

local function give_back()
  return each_row(give_back_row)
end

return give_back()

-- release, lost: claim.give_back
-- claim.give_back
-- given_now = ARGV[2]
-- row_prefix = 'jobs:'
-- stream_key = nil
-- keys_of_a_row = 1
-- index = 'jobs/work'
-- seen_holder = seen[6]
-- seen_attempts = seen[5]
-- seen_revision = false
-- looked_at = 'status', 'claimed_until', 'fence', 'not_before', 'attempts', 'claimed_by'
local held = {['RUNNING'] = true}
-- next_fence = columns_fence
-- back_fields = 'fence', fence, 'status', 'QUEUED'
-- cleared = 'claimed_by', 'claimed_until'
-- attempts_column = 'attempts'
-- not_before_column = 'not_before'
-- other_keys = 1
-- first_value = 1

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local moment = ARGV[2] or clock()

local now = tonumber(moment)

-- The whole number after this one, 1 if there is none, and nothing if it is not a whole number. Lua's own numbers lose
-- digits beyond 2^53: a longer one stays text.
local function one_more(text)
  if not text then return 1 end
  if #text < 16 and string.find(text, '^%-?%d+$') then return text + 1 end
  local head, digit, nines = string.match('0' .. text, '^(%d-)([0-8])(9*)$')
  return head and string.gsub(head .. digit + 1 .. string.rep('0', #nines), '^0+', '') or nil
end

-- A number that grows with each holder (P4, P10): by at least one, and to the microseconds of now, so that it grows even
-- after a lossy failover has forgotten the last ones.
local function grown(number, now)
  local least, following = math.floor(now * 1000000), (tonumber(number) or 0) + 1
  if following < 9007199254740992 then return string.format('%.0f', math.max(following, least)) end
  return one_more(number) or string.format('%.0f', least)
end

-- P4: no two claims of a row have the same fence. For each form of a claim.
local function columns_fence(fence)
  return grown(fence, now)
end

-- P5: only the current holder; P4: an older fence than the newest is refused.
local function refusal(seen, fence)
  if not seen[1] then return {'missing'} end
  if seen[3] ~= fence or not held[seen[1]] then return {'lost', seen[1], seen[3], seen[6]} end
end

-- Gives the row back: with a delay it backs off, without one its attempt does not count.
local function give_back_row(row, stream, fence, delay, holder)
  local seen = redis.pcall('HMGET', row, 'status', 'claimed_until', 'fence', 'not_before', 'attempts', 'claimed_by')
  local refused = refusal(seen, fence)
  if refused then return refused end
  local before, ready, revision = seen[1], moment, false or ''
  redis.call('HDEL', row, 'claimed_by', 'claimed_until')
  if delay == '' and (tonumber(seen[5]) or 0) > 0 then redis.pcall('HINCRBY', row, 'attempts', -1) end
  if delay ~= '' then
    ready = string.format('%.6f', now + delay)
    redis.call('HSET', row, 'not_before', ready)
  end
  fence = columns_fence(seen[3])
  redis.call('HSET', row, 'fence', fence, 'status', 'QUEUED')
  redis.call('ZADD', 'jobs/work', ready, string.sub(row, #'jobs:' + 1))
  return {'released'}
end

-- The answers of a decision about each row that the caller names.
local function each_row(decide)
  local answers, rows = {}, (#KEYS - 1) / 1
  for i = 1, rows do
    local place = 1 + i * 3
    answers[i] = decide(KEYS[i], nil, ARGV[place], ARGV[place + 1], ARGV[place + 2], rows - i)
  end
  return answers
end

local function give_back()
  return each_row(give_back_row)
end

return give_back()

-- fail: claim.give_back
-- fail at a given time: claim.give_back
-- finish: move
-- move
-- given_fence = ARGV[1]
-- given_change = ARGV[2]
-- row_prefix = 'jobs:'
-- index = 'jobs/work'
local sources = {['RUNNING'] = true}
-- looked_at = 'status', 'fence'
-- seen_fence = found[2]
-- seen_revision = false
-- move_fields = 'status', 'DONE'
-- cleared = 'claimed_by', 'claimed_until'

-- Takes a row out of the index in which it waited, and out of its line.
local function leave(row, key)
  redis.call('ZREM', 'jobs/work', key)
end

-- Which of the caller's and the declared guards do not hold, as bits: the fence 1, the revision 2, then the predicates.
local function unmet_by(row, fence, revision, i)
  local unmet = 0
  -- P4: a write with another fence than the row's is refused
  if fence ~= ARGV[1] then unmet = unmet + 1 end
  return unmet
end

-- Writes the columns that the call sets beside those of the move.
local function write(row, i, after)
  local fields, change = {'status', 'DONE'}, cjson.decode(ARGV[2])
  for _, name in ipairs(change.clear) do redis.call('HDEL', row, name) end
  for name, value in pairs(change.set) do
    fields[#fields + 1] = name
    fields[#fields + 1] = value
  end
  redis.call('HSET', row, unpack(fields))
end

-- The refusal, with what was found.
local function not_moved(stream, i, before, revision, fence, unmet)
  local by = false
  return {false, 'not moved', before, revision, fence, unmet, by}
end

local function decide(row, stream, i)
  -- a key of another type is not a row of ours
  local found = redis.pcall('HMGET', row, 'status', 'fence')
  local before = found[1]
  if found.err or not before then return {} end
  -- numbers stay texts, because Lua's lose digits beyond 2^53
  local revision, fence, unmet = false, found[2], 0
  unmet = unmet_by(row, fence, revision, i)
  -- P1: the row leaves only a status from which this move is declared
  if unmet > 0 or not sources[before] then return not_moved(stream, i, before, revision, fence, unmet) end

  -- what can fail comes first, for a script that fails half-way is not undone: the history, and then the whole row at once
  local after, counted = false, false
  redis.call('HDEL', row, 'claimed_by', 'claimed_until')
  write(row, i, after)
  leave(row, string.sub(row, #'jobs:' + 1))
  return after and {before, after} or before
end

local function move_one()
  return decide(KEYS[1], KEYS[2], 1)
end

return move_one()

-- finish, again: move
-- finish many of several claims: move
-- move
-- given_fence = ARGV[0 + 0 * rows + i]
-- row_prefix = 'jobs:'
-- stream_key = nil
-- keys_of_a_row = 1
-- index = 'jobs/work'
local sources = {['RUNNING'] = true}
-- looked_at = 'status', 'fence'
-- seen_fence = found[2]
-- seen_revision = false
-- move_fields = 'status', 'DONE'
-- cleared = 'claimed_by', 'claimed_until'
-- leases = 0

local rows = (#KEYS - 0) / 1

-- Takes a row out of the index in which it waited, and out of its line.
local function leave(row, key)
  redis.call('ZREM', 'jobs/work', key)
end

-- Which of the caller's and the declared guards do not hold, as bits: the fence 1, the revision 2, then the predicates.
local function unmet_by(row, fence, revision, i)
  local unmet = 0
  -- P4: a write with another fence than the row's is refused
  if fence ~= ARGV[0 + 0 * rows + i] then unmet = unmet + 1 end
  return unmet
end

-- The refusal, with what was found.
local function not_moved(stream, i, before, revision, fence, unmet)
  local by = false
  return {false, 'not moved', before, revision, fence, unmet, by}
end

local function decide(row, stream, i)
  -- a key of another type is not a row of ours
  local found = redis.pcall('HMGET', row, 'status', 'fence')
  local before = found[1]
  if found.err or not before then return {} end
  -- numbers stay texts, because Lua's lose digits beyond 2^53
  local revision, fence, unmet = false, found[2], 0
  unmet = unmet_by(row, fence, revision, i)
  -- P1: the row leaves only a status from which this move is declared
  if unmet > 0 or not sources[before] then return not_moved(stream, i, before, revision, fence, unmet) end

  -- what can fail comes first, for a script that fails half-way is not undone: the history, and then the whole row at once
  local after, counted = false, false
  redis.call('HDEL', row, 'claimed_by', 'claimed_until')
  redis.call('HSET', row, 'status', 'DONE')
  leave(row, string.sub(row, #'jobs:' + 1))
  return after and {before, after} or before
end

-- A row that fails is answered alone.
local function move_many()
  local answers = {}
  for i = 1, rows do
    local fine, answer = pcall(decide, KEYS[i], nil, i)
    if not fine then answer = {false, 'error', type(answer) == 'table' and answer.err or tostring(answer)} end
    answers[i] = answer
  end
  return answers
end

return move_many()

-- finish many of one claim: move
-- move
-- given_fence = ARGV[1]
-- row_prefix = 'jobs:'
-- stream_key = nil
-- keys_of_a_row = 1
-- index = 'jobs/work'
local sources = {['RUNNING'] = true}
-- looked_at = 'status', 'fence'
-- seen_fence = found[2]
-- seen_revision = false
-- move_fields = 'status', 'DONE'
-- cleared = 'claimed_by', 'claimed_until'
-- leases = 0

local rows = (#KEYS - 0) / 1

-- Takes a row out of the index in which it waited, and out of its line.
local function leave(row, key)
  redis.call('ZREM', 'jobs/work', key)
end

-- Which of the caller's and the declared guards do not hold, as bits: the fence 1, the revision 2, then the predicates.
local function unmet_by(row, fence, revision, i)
  local unmet = 0
  -- P4: a write with another fence than the row's is refused
  if fence ~= ARGV[1] then unmet = unmet + 1 end
  return unmet
end

-- The refusal, with what was found.
local function not_moved(stream, i, before, revision, fence, unmet)
  local by = false
  return {false, 'not moved', before, revision, fence, unmet, by}
end

local function decide(row, stream, i)
  -- a key of another type is not a row of ours
  local found = redis.pcall('HMGET', row, 'status', 'fence')
  local before = found[1]
  if found.err or not before then return {} end
  -- numbers stay texts, because Lua's lose digits beyond 2^53
  local revision, fence, unmet = false, found[2], 0
  unmet = unmet_by(row, fence, revision, i)
  -- P1: the row leaves only a status from which this move is declared
  if unmet > 0 or not sources[before] then return not_moved(stream, i, before, revision, fence, unmet) end

  -- what can fail comes first, for a script that fails half-way is not undone: the history, and then the whole row at once
  local after, counted = false, false
  redis.call('HDEL', row, 'claimed_by', 'claimed_until')
  redis.call('HSET', row, 'status', 'DONE')
  leave(row, string.sub(row, #'jobs:' + 1))
  return after and {before, after} or before
end

-- A row that fails is answered alone.
local function move_many()
  local answers = {}
  for i = 1, rows do
    local fine, answer = pcall(decide, KEYS[i], nil, i)
    if not fine then answer = {false, 'error', type(answer) == 'table' and answer.err or tostring(answer)} end
    answers[i] = answer
  end
  return answers
end

return move_many()

-- finish many with columns: move
-- move
-- given_fence = ARGV[1]
-- given_change = ARGV[2]
-- row_prefix = 'jobs:'
-- stream_key = nil
-- keys_of_a_row = 1
-- index = 'jobs/work'
local sources = {['RUNNING'] = true}
-- looked_at = 'status', 'fence'
-- seen_fence = found[2]
-- seen_revision = false
-- move_fields = 'status', 'DONE'
-- cleared = 'claimed_by', 'claimed_until'
-- leases = 0

local rows = (#KEYS - 0) / 1

-- Takes a row out of the index in which it waited, and out of its line.
local function leave(row, key)
  redis.call('ZREM', 'jobs/work', key)
end

-- Which of the caller's and the declared guards do not hold, as bits: the fence 1, the revision 2, then the predicates.
local function unmet_by(row, fence, revision, i)
  local unmet = 0
  -- P4: a write with another fence than the row's is refused
  if fence ~= ARGV[1] then unmet = unmet + 1 end
  return unmet
end

-- Writes the columns that the call sets beside those of the move.
local function write(row, i, after)
  local fields, change = {'status', 'DONE'}, cjson.decode(ARGV[2])
  for _, name in ipairs(change.clear) do redis.call('HDEL', row, name) end
  for name, value in pairs(change.set) do
    fields[#fields + 1] = name
    fields[#fields + 1] = value
  end
  redis.call('HSET', row, unpack(fields))
end

-- The refusal, with what was found.
local function not_moved(stream, i, before, revision, fence, unmet)
  local by = false
  return {false, 'not moved', before, revision, fence, unmet, by}
end

local function decide(row, stream, i)
  -- a key of another type is not a row of ours
  local found = redis.pcall('HMGET', row, 'status', 'fence')
  local before = found[1]
  if found.err or not before then return {} end
  -- numbers stay texts, because Lua's lose digits beyond 2^53
  local revision, fence, unmet = false, found[2], 0
  unmet = unmet_by(row, fence, revision, i)
  -- P1: the row leaves only a status from which this move is declared
  if unmet > 0 or not sources[before] then return not_moved(stream, i, before, revision, fence, unmet) end

  -- what can fail comes first, for a script that fails half-way is not undone: the history, and then the whole row at once
  local after, counted = false, false
  redis.call('HDEL', row, 'claimed_by', 'claimed_until')
  write(row, i, after)
  leave(row, string.sub(row, #'jobs:' + 1))
  return after and {before, after} or before
end

-- A row that fails is answered alone.
local function move_many()
  local answers = {}
  for i = 1, rows do
    local fine, answer = pcall(decide, KEYS[i], nil, i)
    if not fine then answer = {false, 'error', type(answer) == 'table' and answer.err or tostring(answer)} end
    answers[i] = answer
  end
  return answers
end

return move_many()

-- claim, with rows out of attempts: claim.acquire, claim.dead_letter
-- claim.dead_letter
-- given_now = ARGV[5]
-- limit = ARGV[2]
-- offset = ARGV[4]
-- page = ARGV[3]
-- lease = 30.0
-- row_prefix = 'jobs:'
-- revision_column = false
-- history = false
-- stream_prefix = 'jobs/history:'
-- index = 'jobs/work'
-- seen_attempts = seen[5]
-- seen_not_before = seen[4]
-- looked_at = 'status', 'claimed_until', 'fence', 'not_before', 'attempts'
local open = {['QUEUED'] = true, ['RUNNING'] = true}
-- lease_end = columns_end
-- dead_letter_fields = 'status', 'DEAD'
-- cleared = 'claimed_by', 'claimed_until'
-- max_attempts = 3

-- Takes a row out of the index in which it waited, and out of its line.
local function leave(row, key)
  redis.call('ZREM', 'jobs/work', key)
end

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local moment = ARGV[5] or clock()

local now = tonumber(moment)

-- When the lease of a row ends, by what stands there; nothing if it has no holder. For each form of a claim.
local function columns_end(text)
  return tonumber(text or nil)
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

-- Why a row cannot be claimed, as bits: its status 1, its holder 2, its backoff 4, its attempts 8, then from 32 on the guards.
local function obstacles(row, seen)
  if not seen[1] then return 1 end
  local unmet = open[seen[1]] and 0 or 1
  if is_held(columns_end(seen[2]), seen[3]) then unmet = unmet + 2 end
  if (tonumber(seen[4]) or 0) > now then unmet = unmet + 4 end
  if (tonumber(seen[5]) or 0) >= 3 then unmet = unmet + 8 end
  return unmet
end

-- The row's next revision as text, '' without one; nothing if it is not a number.
local function next_revision(seen)
  return ''
end

-- Moves a row out of the way; returns why it cannot.
local function dead_letter_row(row, stream, seen)
  local revision = next_revision(seen)
  if not revision then return false .. ' is not a whole number' end
  redis.call('HDEL', row, 'claimed_by', 'claimed_until')
  redis.call('HSET', row, 'status', 'DEAD')
end

-- The keys that the index proposes, how many it proposed, and how many of these are of other tenants and stay where they are.
local function proposals()
  local keys = redis.call('ZRANGEBYSCORE', 'jobs/work', '-inf', moment, 'LIMIT', ARGV[4], ARGV[3])
  local proposed = #keys
  return keys, proposed, proposed - #keys
end

-- The stream of a row that the index proposes.
local function stream_of(key)
  return false and 'jobs/history:' .. key
end

local ends_then = string.format('%.6f', now + 30.0)

-- A row that cannot be decided does not block the others: it is reported, and proposed again when a lease is over.
local function pass_over(failed, key, why)
  redis.call('ZADD', 'jobs/work', ends_then, key)
  failed[#failed + 1], failed[#failed + 2] = key, why
end

-- The answer to a search: how many were proposed, how many stay, and what was found.
local function searched(found, kept, failed)
  found[2] = kept
  if #failed > 1 then failed[1], found[2] = kept, failed end
  return found
end

-- Rows that have used up their attempts and have no holder: key and attempts, for each.
local function dead_letter()
  local keys, proposed, kept = proposals()
  local most, wins, found, failed = tonumber(ARGV[2]), 0, {proposed, 0}, {0}
  for _, key in ipairs(keys) do
    if wins == most then break end
    local row = 'jobs:' .. key
    local seen = redis.pcall('HMGET', row, 'status', 'claimed_until', 'fence', 'not_before', 'attempts')
    if obstacles(row, seen) ~= 8 then
      kept = kept + 1
    else
      local why = dead_letter_row(row, stream_of(key), seen)
      if why then
        pass_over(failed, key, why)
      else
        wins = wins + 1
        leave(row, key)
        found[#found + 1], found[#found + 2] = key, tonumber(seen[5]) or 0
      end
    end
  end
  return searched(found, kept, failed)
end

return dead_letter()

-- move of a row by key: move
-- move
-- given_now = false
-- row_prefix = 'jobs:'
-- index = 'jobs/work'
-- ends_claims = true
-- ended_columns = 'claimed_by', 'claimed_until'
-- ended_fences = 'fence', grown(found[3], now)
local sources = {['RUNNING'] = true}
-- looked_at = 'status', 'claimed_by', 'fence'
-- seen_fence = false
-- seen_revision = false
-- move_fields = 'status', 'DONE'
-- fenced_off = found[2] or false

-- Takes a row out of the index in which it waited, and out of its line.
local function leave(row, key)
  redis.call('ZREM', 'jobs/work', key)
end

-- The whole number after this one, 1 if there is none, and nothing if it is not a whole number. Lua's own numbers lose
-- digits beyond 2^53: a longer one stays text.
local function one_more(text)
  if not text then return 1 end
  if #text < 16 and string.find(text, '^%-?%d+$') then return text + 1 end
  local head, digit, nines = string.match('0' .. text, '^(%d-)([0-8])(9*)$')
  return head and string.gsub(head .. digit + 1 .. string.rep('0', #nines), '^0+', '') or nil
end

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local moment = false or clock()

local now = tonumber(moment)

-- A number that grows with each holder (P4, P10): by at least one, and to the microseconds of now, so that it grows even
-- after a lossy failover has forgotten the last ones.
local function grown(number, now)
  local least, following = math.floor(now * 1000000), (tonumber(number) or 0) + 1
  if following < 9007199254740992 then return string.format('%.0f', math.max(following, least)) end
  return one_more(number) or string.format('%.0f', least)
end

-- Ends the claims that other processes may hold on a row; `found` is what its columns were. P4: their fences no longer fit,
-- even if the row comes back.
local function end_claims(row, found)
  redis.call('HDEL', row, 'claimed_by', 'claimed_until')
  redis.call('HSET', row, 'fence', grown(found[3], now))
end

-- The refusal, with what was found.
local function not_moved(stream, i, before, revision, fence, unmet)
  local by = false
  return {false, 'not moved', before, revision, fence, unmet, by}
end

local function decide(row, stream, i)
  -- a key of another type is not a row of ours
  local found = redis.pcall('HMGET', row, 'status', 'claimed_by', 'fence')
  local before = found[1]
  if found.err or not before then return {} end
  -- numbers stay texts, because Lua's lose digits beyond 2^53
  local revision, fence, unmet = false, false, 0
  -- P1: the row leaves only a status from which this move is declared
  if unmet > 0 or not sources[before] then return not_moved(stream, i, before, revision, fence, unmet) end

  -- what can fail comes first, for a script that fails half-way is not undone: the history, and then the whole row at once
  local after, counted = false, false
  end_claims(row, found)
  redis.call('HSET', row, 'status', 'DONE')
  leave(row, string.sub(row, #'jobs:' + 1))
  if true then return {before, after, found[2] or false} end
  return after and {before, after} or before
end

local function move_one()
  return decide(KEYS[1], KEYS[2], 1)
end

return move_one()

-- move of a row by key that ends its claim: move
-- move
-- given_now = false
-- row_prefix = 'jobs:'
-- returning = true
-- returned = 'result'
-- index = 'jobs/work'
-- ends_claims = true
-- ended_columns = 'claimed_by', 'claimed_until'
-- ended_fences = 'fence', grown(found[3], now)
local sources = {['QUEUED'] = true, ['RUNNING'] = true}
-- looked_at = 'status', 'claimed_by', 'fence'
-- seen_fence = false
-- seen_revision = false
-- move_fields = 'status', 'DEAD'
-- fenced_off = found[2] or false

-- Takes a row out of the index in which it waited, and out of its line.
local function leave(row, key)
  redis.call('ZREM', 'jobs/work', key)
end

-- The whole number after this one, 1 if there is none, and nothing if it is not a whole number. Lua's own numbers lose
-- digits beyond 2^53: a longer one stays text.
local function one_more(text)
  if not text then return 1 end
  if #text < 16 and string.find(text, '^%-?%d+$') then return text + 1 end
  local head, digit, nines = string.match('0' .. text, '^(%d-)([0-8])(9*)$')
  return head and string.gsub(head .. digit + 1 .. string.rep('0', #nines), '^0+', '') or nil
end

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local moment = false or clock()

local now = tonumber(moment)

-- A number that grows with each holder (P4, P10): by at least one, and to the microseconds of now, so that it grows even
-- after a lossy failover has forgotten the last ones.
local function grown(number, now)
  local least, following = math.floor(now * 1000000), (tonumber(number) or 0) + 1
  if following < 9007199254740992 then return string.format('%.0f', math.max(following, least)) end
  return one_more(number) or string.format('%.0f', least)
end

-- Ends the claims that other processes may hold on a row; `found` is what its columns were. P4: their fences no longer fit,
-- even if the row comes back.
local function end_claims(row, found)
  redis.call('HDEL', row, 'claimed_by', 'claimed_until')
  redis.call('HSET', row, 'fence', grown(found[3], now))
end

-- The refusal, with what was found.
local function not_moved(stream, i, before, revision, fence, unmet)
  local by = false
  return {false, 'not moved', before, revision, fence, unmet, by}
end

local function decide(row, stream, i)
  -- a key of another type is not a row of ours
  local found = redis.pcall('HMGET', row, 'status', 'claimed_by', 'fence')
  local before = found[1]
  if found.err or not before then return {} end
  -- numbers stay texts, because Lua's lose digits beyond 2^53
  local revision, fence, unmet = false, false, 0
  -- P1: the row leaves only a status from which this move is declared
  if unmet > 0 or not sources[before] then return not_moved(stream, i, before, revision, fence, unmet) end

  -- what can fail comes first, for a script that fails half-way is not undone: the history, and then the whole row at once
  local after, counted = false, false
  end_claims(row, found)
  redis.call('HSET', row, 'status', 'DEAD')
  leave(row, string.sub(row, #'jobs:' + 1))
  if true and true then return {before, after, found[2] or false, unpack(redis.call('HMGET', row, 'result'))} end
  if true then return {before, after, found[2] or false} end
  return after and {before, after} or before
end

local function move_one()
  return decide(KEYS[1], KEYS[2], 1)
end

return move_one()

-- move_many of rows by key: move
-- move
-- given_now = false
-- row_prefix = 'jobs:'
-- stream_key = nil
-- keys_of_a_row = 1
-- index = 'jobs/work'
-- ends_claims = true
-- ended_columns = 'claimed_by', 'claimed_until'
-- ended_fences = 'fence', grown(found[3], now)
local sources = {['QUEUED'] = true, ['RUNNING'] = true}
-- looked_at = 'status', 'claimed_by', 'fence'
-- seen_fence = false
-- seen_revision = false
-- move_fields = 'status', 'DEAD'
-- fenced_off = found[2] or false
-- leases = 0

local rows = (#KEYS - 0) / 1

-- Takes a row out of the index in which it waited, and out of its line.
local function leave(row, key)
  redis.call('ZREM', 'jobs/work', key)
end

-- The whole number after this one, 1 if there is none, and nothing if it is not a whole number. Lua's own numbers lose
-- digits beyond 2^53: a longer one stays text.
local function one_more(text)
  if not text then return 1 end
  if #text < 16 and string.find(text, '^%-?%d+$') then return text + 1 end
  local head, digit, nines = string.match('0' .. text, '^(%d-)([0-8])(9*)$')
  return head and string.gsub(head .. digit + 1 .. string.rep('0', #nines), '^0+', '') or nil
end

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local moment = false or clock()

local now = tonumber(moment)

-- A number that grows with each holder (P4, P10): by at least one, and to the microseconds of now, so that it grows even
-- after a lossy failover has forgotten the last ones.
local function grown(number, now)
  local least, following = math.floor(now * 1000000), (tonumber(number) or 0) + 1
  if following < 9007199254740992 then return string.format('%.0f', math.max(following, least)) end
  return one_more(number) or string.format('%.0f', least)
end

-- Ends the claims that other processes may hold on a row; `found` is what its columns were. P4: their fences no longer fit,
-- even if the row comes back.
local function end_claims(row, found)
  redis.call('HDEL', row, 'claimed_by', 'claimed_until')
  redis.call('HSET', row, 'fence', grown(found[3], now))
end

-- The refusal, with what was found.
local function not_moved(stream, i, before, revision, fence, unmet)
  local by = false
  return {false, 'not moved', before, revision, fence, unmet, by}
end

local function decide(row, stream, i)
  -- a key of another type is not a row of ours
  local found = redis.pcall('HMGET', row, 'status', 'claimed_by', 'fence')
  local before = found[1]
  if found.err or not before then return {} end
  -- numbers stay texts, because Lua's lose digits beyond 2^53
  local revision, fence, unmet = false, false, 0
  -- P1: the row leaves only a status from which this move is declared
  if unmet > 0 or not sources[before] then return not_moved(stream, i, before, revision, fence, unmet) end

  -- what can fail comes first, for a script that fails half-way is not undone: the history, and then the whole row at once
  local after, counted = false, false
  end_claims(row, found)
  redis.call('HSET', row, 'status', 'DEAD')
  leave(row, string.sub(row, #'jobs:' + 1))
  if true then return {before, after, found[2] or false} end
  return after and {before, after} or before
end

-- A row that fails is answered alone.
local function move_many()
  local answers = {}
  for i = 1, rows do
    local fine, answer = pcall(decide, KEYS[i], nil, i)
    if not fine then answer = {false, 'error', type(answer) == 'table' and answer.err or tostring(answer)} end
    answers[i] = answer
  end
  return answers
end

return move_many()

-- claims: claim.listed
-- claim.listed
-- given_now = false
-- offset = ARGV[1]
-- page = 500
-- row_prefix = 'jobs:'
-- index = 'jobs/work'
-- seen_holder = seen[6]
-- seen_attempts = seen[5]
-- looked_at = 'status', 'claimed_until', 'fence', 'not_before', 'attempts', 'claimed_by'
-- lease_end = columns_end

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local moment = false or clock()

-- When the lease of a row ends, by what stands there; nothing if it has no holder. For each form of a claim.
local function columns_end(text)
  return tonumber(text or nil)
end

-- Who holds what, on one page of the index: key, until, status, holder, fence, attempts.
local function listed()
  local keys = redis.call('ZRANGE', 'jobs/work', ARGV[1], ARGV[1] + 500 - 1, 'WITHSCORES')
  local found = {#keys / 2}
  for i = 1, #keys, 2 do
    local seen = redis.pcall('HMGET', 'jobs:' .. keys[i], 'status', 'claimed_until', 'fence', 'not_before', 'attempts', 'claimed_by')
    if columns_end(seen[2]) then
      local place = #found
      found[place + 1], found[place + 2], found[place + 3] = keys[i], keys[i + 1], seen[1]
      found[place + 4], found[place + 5], found[place + 6] = seen[6], seen[3], seen[5]
    end
  end
  found[#found + 1] = moment
  return found
end

return listed()
