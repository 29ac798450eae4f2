-- receive: inbox.receive
-- inbox.receive
-- given_now = false
-- first_event = 1

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local moment = false or clock()

-- When an event of this line came: none comes before one that is in its line already.
local function behind(line, when)
  local last = redis.call('ZRANGE', line, -1, -1, 'WITHSCORES')[2]
  return last and math.max(when, tonumber(last) + 0.000001) or when
end

-- Stores one event; `at` is the place of its member in ARGV.
local function store(row, line, at, when)
  local member, ordering_key, first = ARGV[at], ARGV[at + 3], ARGV[at]
  redis.call('HSET', row, 'source', ARGV[at + 1], 'event_id', ARGV[at + 2], 'body', ARGV[at + 4], 'headers', ARGV[at + 5],
    'status', 'received', 'received_at', moment)
  if ordering_key == '' then
    redis.call('HSET', KEYS[2], member, '')
  else
    redis.call('HSET', row, 'ordering_key', ordering_key)
    redis.call('HSET', KEYS[2], member, line)
    when = behind(line, when)
    redis.call('ZADD', line, 'NX', string.format('%.6f', when), member)
    first = redis.call('ZRANGE', line, 0, 0)[1]
  end
  if first == member then redis.call('ZADD', KEYS[1], 'NX', string.format('%.6f', when), member) end
end

local function receive()
  local answers, events = {}, (#KEYS - 2) / 2
  for i = 1, events do
    local row, line = KEYS[i * 2 + 1], KEYS[i * 2 + 2]
    -- P8: the same event once, however often and by however many it is brought
    if redis.call('EXISTS', row) == 1 then
      answers[i] = 0
    else
      -- events that come together keep their order
      store(row, line, 1 + (i - 1) * 6, tonumber(moment) - (events - i) * 0.000001)
      answers[i] = 1
    end
  end
  redis.call('PUBLISH', KEYS[1], '')
  return answers
end

return receive()

-- receive again, at a given time: inbox.receive
-- inbox.receive
-- given_now = ARGV[1]
-- first_event = 2

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local moment = ARGV[1] or clock()

-- When an event of this line came: none comes before one that is in its line already.
local function behind(line, when)
  local last = redis.call('ZRANGE', line, -1, -1, 'WITHSCORES')[2]
  return last and math.max(when, tonumber(last) + 0.000001) or when
end

-- Stores one event; `at` is the place of its member in ARGV.
local function store(row, line, at, when)
  local member, ordering_key, first = ARGV[at], ARGV[at + 3], ARGV[at]
  redis.call('HSET', row, 'source', ARGV[at + 1], 'event_id', ARGV[at + 2], 'body', ARGV[at + 4], 'headers', ARGV[at + 5],
    'status', 'received', 'received_at', moment)
  if ordering_key == '' then
    redis.call('HSET', KEYS[2], member, '')
  else
    redis.call('HSET', row, 'ordering_key', ordering_key)
    redis.call('HSET', KEYS[2], member, line)
    when = behind(line, when)
    redis.call('ZADD', line, 'NX', string.format('%.6f', when), member)
    first = redis.call('ZRANGE', line, 0, 0)[1]
  end
  if first == member then redis.call('ZADD', KEYS[1], 'NX', string.format('%.6f', when), member) end
end

local function receive()
  local answers, events = {}, (#KEYS - 2) / 2
  for i = 1, events do
    local row, line = KEYS[i * 2 + 1], KEYS[i * 2 + 2]
    -- P8: the same event once, however often and by however many it is brought
    if redis.call('EXISTS', row) == 1 then
      answers[i] = 0
    else
      -- events that come together keep their order
      store(row, line, 2 + (i - 1) * 6, tonumber(moment) - (events - i) * 0.000001)
      answers[i] = 1
    end
  end
  redis.call('PUBLISH', KEYS[1], '')
  return answers
end

return receive()

-- receive many: inbox.receive
-- claim: claim.acquire, claim.dead_letter
-- claim.acquire
-- given_now = false
-- limit = ARGV[2]
-- offset = ARGV[4]
-- page = ARGV[3]
-- lease = 60.0
-- row_prefix = 'raceproof_inbox:'
-- revision_column = false
-- history = false
-- stream_prefix = 'raceproof_inbox/history:'
-- returned = 'body', 'headers'
-- index = 'raceproof_inbox/work'
-- lines = 'raceproof_inbox/work/lines'
-- ordering_key = 'ordering_key'
-- seen_attempts = seen[5]
-- seen_not_before = seen[4]
-- looked_at = 'status', 'claimed_until', 'fence', 'rests_until', 'attempts'
local open = {['received'] = true, ['processing'] = true}
-- lease_end = columns_end
-- next_fence = columns_fence
-- claim_fields = 'claimed_by', ARGV[1], 'fence', fence, 'claimed_until', ends_then, 'status', 'processing', 'attempts', attempts
-- attempts_column = 'attempts'
-- max_attempts = 10

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
  local ahead = ends and ends > now + 2 * 60.0
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
  if (tonumber(seen[5]) or 0) >= 10 then unmet = unmet + 8 end
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

local ends_then = string.format('%.6f', now + 60.0)

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
  redis.call('ZADD', 'raceproof_inbox/work', ends_then, key)
  redis.call('HSET', row, 'claimed_by', ARGV[1], 'fence', fence, 'claimed_until', ends_then, 'status', 'processing', 'attempts', attempts)
  return fence, tonumber(attempts)
end

-- The keys that the index proposes, how many it proposed, and how many of these are of other tenants and stay where they are.
local function proposals()
  local keys = redis.call('ZRANGEBYSCORE', 'raceproof_inbox/work', '-inf', moment, 'LIMIT', ARGV[4], ARGV[3])
  local proposed = #keys
  return keys, proposed, proposed - #keys
end

-- P13: rows that wait for longer than any lease either back off, or were held when the clock was set back. Where there is
-- nothing else, a few of them are looked at, from a place that the clock chooses, so that each is reached.
local function far_ahead()
  local later = '(' .. string.format('%.6f', now + 2 * 60.0)
  local number = redis.call('ZCOUNT', 'raceproof_inbox/work', later, '+inf')
  local first = math.floor(now * 1000) % math.max(number - 9, 1)
  local keys = redis.call('ZRANGEBYSCORE', 'raceproof_inbox/work', later, '+inf', 'LIMIT', first, 10)
  return keys
end

-- The stream of a row that the index proposes.
local function stream_of(key)
  return false and 'raceproof_inbox/history:' .. key
end

-- A row that cannot be decided does not block the others: it is reported, and proposed again when a lease is over.
local function pass_over(failed, key, why)
  redis.call('ZADD', 'raceproof_inbox/work', ends_then, key)
  failed[#failed + 1], failed[#failed + 2] = key, why
end

-- The answer to a search: how many were proposed, how many stay, and what was found.
local function searched(found, kept, failed)
  found[2] = kept
  if #failed > 1 then failed[1], found[2] = kept, failed end
  return found
end

-- The line of rows with the value that this one has in its column `ordering_key`; '' without a value: such a row stands alone.
local function own_line(row, key)
  local value, tenant = redis.pcall('HGET', row, 'ordering_key'), ''
  if type(value) ~= 'string' then return '' end
  return 'raceproof_inbox/work' .. '/line:' .. tenant .. value
end

-- The line in which a row stands. It is kept beside the index, because a row that is gone can no longer say it (P13).
local function line_of(row, key)
  return redis.call('HGET', 'raceproof_inbox/work/lines', key) or own_line(row, key)
end

-- Takes a row out of its line; the next in line follows into the index, and is returned.
local function leave_line(row, key)
  local line = line_of(row, key)
  redis.call('HDEL', 'raceproof_inbox/work/lines', key)
  if line == '' then return end
  redis.call('ZREM', line, key)
  local following = redis.call('ZRANGE', line, 0, 0)[1]
  if following and redis.call('ZADD', 'raceproof_inbox/work', 'NX', clock(), following) == 1 then return following end
end

-- Takes a row out of the index in which it waited, and out of its line.
local function leave(row, key)
  redis.call('ZREM', 'raceproof_inbox/work', key)
  if 'ordering_key' then return leave_line(row, key) end
end

-- What becomes of a proposed row that cannot be claimed. Returns whether it stays where it is in the index, and who follows it.
local function put_aside(row, key, seen, unmet)
  if unmet % 2 == 1 then return false, leave(row, key) end
  if unmet % 4 >= 2 then
    -- held: it is proposed again when the lease is over
    redis.call('ZADD', 'raceproof_inbox/work', string.format('%.6f', columns_end(seen[2])), key)
    return false
  end
  if unmet % 8 >= 4 then
    redis.call('ZADD', 'raceproof_inbox/work', string.format('%.6f', seen[4]), key)
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
    local row = 'raceproof_inbox:' .. key
    -- a key of another type is not a row of ours
    local seen = redis.pcall('HMGET', row, 'status', 'claimed_until', 'fence', 'rests_until', 'attempts')
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
        for _, value in ipairs(redis.call('HMGET', row, 'body', 'headers')) do
          place = place + 1
          found[place] = value
        end
      end
    end
  end
  return searched(found, kept, failed)
end

return acquire()

-- claim.dead_letter
-- given_now = false
-- limit = ARGV[2]
-- offset = ARGV[4]
-- page = ARGV[3]
-- lease = 60.0
-- row_prefix = 'raceproof_inbox:'
-- revision_column = false
-- history = false
-- stream_prefix = 'raceproof_inbox/history:'
-- expires = '2592000000'
-- index = 'raceproof_inbox/work'
-- lines = 'raceproof_inbox/work/lines'
-- ordering_key = 'ordering_key'
-- seen_attempts = seen[5]
-- seen_not_before = seen[4]
-- looked_at = 'status', 'claimed_until', 'fence', 'rests_until', 'attempts'
local open = {['received'] = true, ['processing'] = true}
-- lease_end = columns_end
-- dead_letter_fields = 'status', 'dead', 'ended_at', moment
-- cleared = 'claimed_by', 'claimed_until'
-- max_attempts = 10

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

-- The line of rows with the value that this one has in its column `ordering_key`; '' without a value: such a row stands alone.
local function own_line(row, key)
  local value, tenant = redis.pcall('HGET', row, 'ordering_key'), ''
  if type(value) ~= 'string' then return '' end
  return 'raceproof_inbox/work' .. '/line:' .. tenant .. value
end

-- The line in which a row stands. It is kept beside the index, because a row that is gone can no longer say it (P13).
local function line_of(row, key)
  return redis.call('HGET', 'raceproof_inbox/work/lines', key) or own_line(row, key)
end

-- Takes a row out of its line; the next in line follows into the index, and is returned.
local function leave_line(row, key)
  local line = line_of(row, key)
  redis.call('HDEL', 'raceproof_inbox/work/lines', key)
  if line == '' then return end
  redis.call('ZREM', line, key)
  local following = redis.call('ZRANGE', line, 0, 0)[1]
  if following and redis.call('ZADD', 'raceproof_inbox/work', 'NX', clock(), following) == 1 then return following end
end

-- Takes a row out of the index in which it waited, and out of its line.
local function leave(row, key)
  redis.call('ZREM', 'raceproof_inbox/work', key)
  if 'ordering_key' then return leave_line(row, key) end
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
  local ahead = ends and ends > now + 2 * 60.0
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
  if (tonumber(seen[5]) or 0) >= 10 then unmet = unmet + 8 end
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
  redis.call('HSET', row, 'status', 'dead', 'ended_at', moment)
  redis.call('PEXPIRE', row, '2592000000')
end

-- The keys that the index proposes, how many it proposed, and how many of these are of other tenants and stay where they are.
local function proposals()
  local keys = redis.call('ZRANGEBYSCORE', 'raceproof_inbox/work', '-inf', moment, 'LIMIT', ARGV[4], ARGV[3])
  local proposed = #keys
  return keys, proposed, proposed - #keys
end

-- The stream of a row that the index proposes.
local function stream_of(key)
  return false and 'raceproof_inbox/history:' .. key
end

local ends_then = string.format('%.6f', now + 60.0)

-- A row that cannot be decided does not block the others: it is reported, and proposed again when a lease is over.
local function pass_over(failed, key, why)
  redis.call('ZADD', 'raceproof_inbox/work', ends_then, key)
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
    local row = 'raceproof_inbox:' .. key
    local seen = redis.pcall('HMGET', row, 'status', 'claimed_until', 'fence', 'rests_until', 'attempts')
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

-- fail: claim.give_back
-- claim.give_back
-- given_now = false
-- row_prefix = 'raceproof_inbox:'
-- stream_key = nil
-- keys_of_a_row = 1
-- index = 'raceproof_inbox/work'
-- seen_holder = seen[6]
-- seen_attempts = seen[5]
-- seen_revision = false
-- looked_at = 'status', 'claimed_until', 'fence', 'rests_until', 'attempts', 'claimed_by'
local held = {['processing'] = true}
-- next_fence = columns_fence
-- back_fields = 'fence', fence, 'status', 'received'
-- cleared = 'claimed_by', 'claimed_until'
-- attempts_column = 'attempts'
-- not_before_column = 'rests_until'
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
  local seen = redis.pcall('HMGET', row, 'status', 'claimed_until', 'fence', 'rests_until', 'attempts', 'claimed_by')
  local refused = refusal(seen, fence)
  if refused then return refused end
  local before, ready, revision = seen[1], moment, false or ''
  redis.call('HDEL', row, 'claimed_by', 'claimed_until')
  if delay == '' and (tonumber(seen[5]) or 0) > 0 then redis.pcall('HINCRBY', row, 'attempts', -1) end
  if delay ~= '' then
    ready = string.format('%.6f', now + delay)
    redis.call('HSET', row, 'rests_until', ready)
  end
  fence = columns_fence(seen[3])
  redis.call('HSET', row, 'fence', fence, 'status', 'received')
  redis.call('ZADD', 'raceproof_inbox/work', ready, string.sub(row, #'raceproof_inbox:' + 1))
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

-- finish: move
-- move
-- given_now = false
-- given_fence = ARGV[1]
-- row_prefix = 'raceproof_inbox:'
-- stream_key = nil
-- keys_of_a_row = 1
-- expires = '2592000000'
-- index = 'raceproof_inbox/work'
-- lines = 'raceproof_inbox/work/lines'
-- ordering_key = 'ordering_key'
local sources = {['processing'] = true}
-- looked_at = 'status', 'fence'
-- seen_fence = found[2]
-- seen_revision = false
-- move_fields = 'status', 'done', 'ended_at', moment
-- cleared = 'claimed_by', 'claimed_until'
-- leases = 0

local rows = (#KEYS - 0) / 1

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

-- The line of rows with the value that this one has in its column `ordering_key`; '' without a value: such a row stands alone.
local function own_line(row, key)
  local value, tenant = redis.pcall('HGET', row, 'ordering_key'), ''
  if type(value) ~= 'string' then return '' end
  return 'raceproof_inbox/work' .. '/line:' .. tenant .. value
end

-- The line in which a row stands. It is kept beside the index, because a row that is gone can no longer say it (P13).
local function line_of(row, key)
  return redis.call('HGET', 'raceproof_inbox/work/lines', key) or own_line(row, key)
end

-- Takes a row out of its line; the next in line follows into the index, and is returned.
local function leave_line(row, key)
  local line = line_of(row, key)
  redis.call('HDEL', 'raceproof_inbox/work/lines', key)
  if line == '' then return end
  redis.call('ZREM', line, key)
  local following = redis.call('ZRANGE', line, 0, 0)[1]
  if following and redis.call('ZADD', 'raceproof_inbox/work', 'NX', clock(), following) == 1 then return following end
end

-- Takes a row out of the index in which it waited, and out of its line.
local function leave(row, key)
  redis.call('ZREM', 'raceproof_inbox/work', key)
  if 'ordering_key' then return leave_line(row, key) end
end

local moment = false or clock()

-- Which of the caller's and the declared guards do not hold, as bits: the fence 1, the revision 2, then the predicates.
local function unmet_by(row, fence, revision, i)
  local unmet = 0
  -- P4: a write with another fence than the row's is refused
  if fence ~= ARGV[1] then unmet = unmet + 1 end
  return unmet
end

-- A row that has ended is kept for a while; one that is open again, for good.
local function keep_for(row, stream)
  redis.call('PEXPIRE', row, '2592000000')
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
  redis.call('HSET', row, 'status', 'done', 'ended_at', moment)
  keep_for(row, stream)
  leave(row, string.sub(row, #'raceproof_inbox:' + 1))
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

-- forget: nothing
-- counts: inbox.counts
-- inbox.counts
HLEN
