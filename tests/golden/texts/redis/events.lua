-- receive: inbox.receive
-- inbox.receive
-- The inbox on Redis and Valkey: each event is a hash, which is made once, and stands in the index of the claim from then on.
--
-- KEYS  1 the index of the claim · 2 which line each event is in · then for each event its row and its line
-- ARGV  1 the time to use in seconds, '' for the server's
--       then for each event: member, source, event id, ordering key or '', body, headers
-- returns 1 for each that is new, 0 for each that was there

local moment = ARGV[1]
if moment == '' then
  local time = redis.call('TIME')
  moment = string.format('%s.%06d', time[1], tonumber(time[2]))
end
local answers = {}
local events = (#KEYS - 2) / 2
for i = 1, events do
  local member, row, line, at = ARGV[i * 6 - 4], KEYS[i * 2 + 1], KEYS[i * 2 + 2], i * 6 - 4
  -- P8: the same event once, however often and by however many it is brought
  if redis.call('EXISTS', row) == 1 then
    answers[i] = 0
  else
    redis.call('HSET', row, 'source', ARGV[at + 1], 'event_id', ARGV[at + 2], 'body', ARGV[at + 4], 'headers', ARGV[at + 5],
      'status', 'received', 'received_at', moment)
    -- events that come together keep their order, and none comes before one that is in its line already
    local when = tonumber(moment) - (events - i) * 0.000001
    local first = member
    if ARGV[at + 3] == '' then
      redis.call('HSET', KEYS[2], member, '')
    else
      redis.call('HSET', row, 'ordering_key', ARGV[at + 3])
      redis.call('HSET', KEYS[2], member, line)
      local last = redis.call('ZRANGE', line, -1, -1, 'WITHSCORES')[2]
      if last then when = math.max(when, tonumber(last) + 0.000001) end
      redis.call('ZADD', line, 'NX', string.format('%.6f', when), member)
      first = redis.call('ZRANGE', line, 0, 0)[1]
    end
    if first == member then redis.call('ZADD', KEYS[1], 'NX', string.format('%.6f', when), member) end
    answers[i] = 1
  end
end
redis.call('PUBLISH', KEYS[1], '')
return answers

-- receive again, at a given time: inbox.receive
-- receive many: inbox.receive
-- claim: claim.acquire, claim.set_aside
-- claim.acquire
-- page = ARGV[3]
-- lease = 60.0
-- limit = ARGV[2]
-- offset = ARGV[4]
-- index = 'raceproof_inbox/work'
-- lines = 'raceproof_inbox/work/lines'
-- row_prefix = 'raceproof_inbox:'
-- serial = 'ordering_key'
-- seen_attempts = seen[5]
-- seen_after = seen[4]
-- looked_at = 'status', 'claimed_until', 'fence', 'rests_until', 'attempts'
local open = {['received'] = true, ['processing'] = true}
-- claim_fields = 'claimed_by', ARGV[1], 'fence', fence, 'claimed_until', ends_then, 'status', 'processing', 'attempts', attempts
-- attempts_column = 'attempts'
-- cap = 10
-- returned = 'body', 'headers'

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
  local value = redis.pcall('HGET', row, 'ordering_key')
  if type(value) ~= 'string' then return '' end
  return 'raceproof_inbox/work' .. '/line:' .. value
end

-- The line in which a row stands. It is kept beside the index, for a row that is gone cannot tell it any more (P13).
local function line_of(row, key)
  return redis.call('HGET', 'raceproof_inbox/work/lines', key) or own_line(row, key)
end

-- Takes a row out of the index of a claim, in which it waited, and out of its line; the next in line follows, and is told.
local function leave(row, key)
  redis.call('ZREM', 'raceproof_inbox/work', key)
  local line = line_of(row, key)
  redis.call('HDEL', 'raceproof_inbox/work/lines', key)
  if line == '' then return end
  redis.call('ZREM', line, key)
  local following = redis.call('ZRANGE', line, 0, 0)[1]
  if not following then return end
  local time = redis.call('TIME')
  local since = string.format('%s.%06d', time[1], time[2])
  if redis.call('ZADD', 'raceproof_inbox/work', 'NX', since, following) == 1 then return following end
end

local time = redis.call('TIME')
local moment = string.format('%s.%06d', time[1], time[2])
local now = tonumber(moment)
local ends_then = string.format('%.6f', now + 60.0)

-- When the lease of a row is over, by what stands there; nothing if nobody holds it.
local function lease_end(text)
  local ends = text and tonumber(text)
  return ends
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

-- Writes a claim into the row, and returns its fence and how many attempts there were; or false, and why it cannot.
local function hold(row, key, stream, before, seen)
  local fence, revision = grown(seen[3], now), ''
  local attempts = one_more(seen[5])
  if not attempts then return false, 'attempts' .. ' is no whole number' end
  redis.call('ZADD', 'raceproof_inbox/work', ends_then, key)
  redis.call('HSET', row, 'claimed_by', ARGV[1], 'fence', fence, 'claimed_until', ends_then, 'status', 'processing', 'attempts', attempts)
  return fence, tonumber(attempts)
end

-- A row that cannot be decided keeps nobody from the others: it is told of, and proposed again when a lease is over.
local failed
local function pass_over(key, why)
  redis.call('ZADD', 'raceproof_inbox/work', ends_then, key)
  failed = failed or {0}
  failed[#failed + 1], failed[#failed + 2] = key, why
end

local most = tonumber(ARGV[2])
local keys = redis.call('ZRANGEBYSCORE', 'raceproof_inbox/work', '-inf', moment, 'LIMIT', ARGV[4], ARGV[3])
local proposed, kept = #keys, 0
local found, wins, place, looked = {proposed, 0}, 0, 2, #keys
-- P13: rows that wait for longer than any lease either rest, or were held when the clock was set back. Where there is nothing
-- else, a few of them are looked at, beginning where the clock says, so that each has its turn.
if proposed == 0 then
  local later = '(' .. string.format('%.6f', now + 2 * 60.0)
  local number = redis.call('ZCOUNT', 'raceproof_inbox/work', later, '+inf')
  local first = math.floor(now * 1000) % math.max(number - 9, 1)
  for _, key in ipairs(redis.call('ZRANGEBYSCORE', 'raceproof_inbox/work', later, '+inf', 'LIMIT', first, 10)) do
    keys[#keys + 1] = key
  end
end
for i, key in ipairs(keys) do
  if wins == most then break end
  local row = 'raceproof_inbox:' .. key
  local stream = nil
  -- a key of another type is not a row of ours
  local seen = redis.pcall('HMGET', row, 'status', 'claimed_until', 'fence', 'rests_until', 'attempts')
  local before, ends = seen[1], lease_end(seen[2])

  local rests = seen[4] and tonumber(seen[4])
  if not open[before] then
    local following = leave(row, key)
    -- the next in its line is looked at too, and those behind it if that one is gone as well (P13)
    if i < 1000 then keys[#keys + 1] = following end
  -- P3: nobody holds it, or the lease is over by the store's clock; if not, the index learns from when on it can be claimed
  elseif is_held(ends, seen[3]) then
    redis.call('ZADD', 'raceproof_inbox/work', string.format('%.6f', ends), key)
  elseif rests and rests > now then
    redis.call('ZADD', 'raceproof_inbox/work', string.format('%.6f', rests), key)
  elseif (tonumber(seen[5]) or 0) >= 10 then
    if i <= looked then kept = kept + 1 end
  else
    local fence, attempts = hold(row, key, stream, before, seen)
    if not fence then
      pass_over(key, attempts)
    else
      wins = wins + 1
      found[place + 1], found[place + 2], found[place + 3], found[place + 4] = key, fence, attempts, before
      place = place + 4
      for _, value in ipairs(redis.call('HMGET', row, 'body', 'headers')) do
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

-- claim.set_aside
-- page = ARGV[3]
-- lease = 60.0
-- limit = ARGV[2]
-- offset = ARGV[4]
-- index = 'raceproof_inbox/work'
-- lines = 'raceproof_inbox/work/lines'
-- row_prefix = 'raceproof_inbox:'
-- serial = 'ordering_key'
-- seen_attempts = seen[5]
-- looked_at = 'status', 'claimed_until', 'fence', 'rests_until', 'attempts'
local open = {['received'] = true, ['processing'] = true}
-- exhausted_fields = 'status', 'dead', 'ended_at', moment
-- cleared = 'claimed_by', 'claimed_until'
-- cap = 10
-- expires = '2592000000'

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
  local value = redis.pcall('HGET', row, 'ordering_key')
  if type(value) ~= 'string' then return '' end
  return 'raceproof_inbox/work' .. '/line:' .. value
end

-- The line in which a row stands. It is kept beside the index, for a row that is gone cannot tell it any more (P13).
local function line_of(row, key)
  return redis.call('HGET', 'raceproof_inbox/work/lines', key) or own_line(row, key)
end

-- Takes a row out of the index of a claim, in which it waited, and out of its line; the next in line follows, and is told.
local function leave(row, key)
  redis.call('ZREM', 'raceproof_inbox/work', key)
  local line = line_of(row, key)
  redis.call('HDEL', 'raceproof_inbox/work/lines', key)
  if line == '' then return end
  redis.call('ZREM', line, key)
  local following = redis.call('ZRANGE', line, 0, 0)[1]
  if not following then return end
  local time = redis.call('TIME')
  local since = string.format('%s.%06d', time[1], time[2])
  if redis.call('ZADD', 'raceproof_inbox/work', 'NX', since, following) == 1 then return following end
end

local time = redis.call('TIME')
local moment = string.format('%s.%06d', time[1], time[2])
local now = tonumber(moment)
local ends_then = string.format('%.6f', now + 60.0)

-- When the lease of a row is over, by what stands there; nothing if nobody holds it.
local function lease_end(text)
  local ends = text and tonumber(text)
  return ends
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

-- Moves a row out of the way; or says why it cannot.
local function set_aside(row, stream, before, seen)
  local revision = ''
  redis.call('HDEL', row, 'claimed_by', 'claimed_until')
  redis.call('HSET', row, 'status', 'dead', 'ended_at', moment)
  redis.call('PEXPIRE', row, '2592000000')
end

-- A row that cannot be decided keeps nobody from the others: it is told of, and proposed again when a lease is over.
local failed
local function pass_over(key, why)
  redis.call('ZADD', 'raceproof_inbox/work', ends_then, key)
  failed = failed or {0}
  failed[#failed + 1], failed[#failed + 2] = key, why
end

local most = tonumber(ARGV[2])
local keys = redis.call('ZRANGEBYSCORE', 'raceproof_inbox/work', '-inf', moment, 'LIMIT', ARGV[4], ARGV[3])
local proposed, kept = #keys, 0
local found, wins, place, looked = {proposed, 0}, 0, 2, #keys
-- P13: rows that wait for longer than any lease either rest, or were held when the clock was set back. Where there is nothing
-- else, a few of them are looked at, beginning where the clock says, so that each has its turn.
for i, key in ipairs(keys) do
  if wins == most then break end
  local row = 'raceproof_inbox:' .. key
  local stream = nil
  -- a key of another type is not a row of ours
  local seen = redis.pcall('HMGET', row, 'status', 'claimed_until', 'fence', 'rests_until', 'attempts')
  local before, ends = seen[1], lease_end(seen[2])

-- A row that has had all its attempts, and that nobody holds.
  local attempts = tonumber(seen[5]) or 0
  if not open[before] or is_held(ends, seen[3]) or attempts < 10 then
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

-- fail: claim.give_back
-- claim.give_back
-- index = 'raceproof_inbox/work'
-- lines = 'raceproof_inbox/work/lines'
-- row_prefix = 'raceproof_inbox:'
-- serial = 'ordering_key'
-- seen_holder = seen[6]
-- seen_attempts = seen[5]
-- looked_at = 'status', 'claimed_until', 'fence', 'rests_until', 'attempts', 'claimed_by'
local held = {['processing'] = true}
-- stream_key = nil
-- back_fields = 'fence', fence, 'status', 'received'
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

-- The line of rows with the value that this one has in its column `serial`; '' without a value, for such a row stands alone.
local function own_line(row, key)
  local value = redis.pcall('HGET', row, 'ordering_key')
  if type(value) ~= 'string' then return '' end
  return 'raceproof_inbox/work' .. '/line:' .. value
end

-- The line in which a row stands. It is kept beside the index, for a row that is gone cannot tell it any more (P13).
local function line_of(row, key)
  return redis.call('HGET', 'raceproof_inbox/work/lines', key) or own_line(row, key)
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
  redis.call('HSET', row, 'fence', fence, 'status', 'received')
  redis.call('ZADD', 'raceproof_inbox/work', ready, string.sub(row, #'raceproof_inbox:' + 1))
  return {'released'}
end

local answers, rows = {}, (#KEYS - 1) / 1
for i = 1, rows do
  local place = 0 + i * 3
  answers[i] = decide(KEYS[i], nil, ARGV[place], ARGV[place + 1], rows - i, ARGV[place + 2])
end
return answers

-- finish: move
-- move
-- given_fence = ARGV[1]
local sources = {['processing'] = true}
-- looked_at = 'status', 'fence'
-- seen_fence = found[2]
-- seen_revision = false
-- move_fields = 'status', 'done', 'ended_at', moment
-- cleared = 'claimed_by', 'claimed_until'
-- expires = '2592000000'
-- keys_of_a_row = 1
-- stream_key = nil
-- leases = 0
-- index = 'raceproof_inbox/work'
-- lines = 'raceproof_inbox/work/lines'
-- row_prefix = 'raceproof_inbox:'
-- serial = 'ordering_key'

-- The line of rows with the value that this one has in its column `serial`; '' without a value, for such a row stands alone.
local function own_line(row, key)
  local value = redis.pcall('HGET', row, 'ordering_key')
  if type(value) ~= 'string' then return '' end
  return 'raceproof_inbox/work' .. '/line:' .. value
end

-- The line in which a row stands. It is kept beside the index, for a row that is gone cannot tell it any more (P13).
local function line_of(row, key)
  return redis.call('HGET', 'raceproof_inbox/work/lines', key) or own_line(row, key)
end

-- Takes a row out of the index of a claim, in which it waited, and out of its line; the next in line follows, and is told.
local function leave(row, key)
  redis.call('ZREM', 'raceproof_inbox/work', key)
  local line = line_of(row, key)
  redis.call('HDEL', 'raceproof_inbox/work/lines', key)
  if line == '' then return end
  redis.call('ZREM', line, key)
  local following = redis.call('ZRANGE', line, 0, 0)[1]
  if not following then return end
  local time = redis.call('TIME')
  local since = string.format('%s.%06d', time[1], time[2])
  if redis.call('ZADD', 'raceproof_inbox/work', 'NX', since, following) == 1 then return following end
end

local rows = (#KEYS - 0) / 1
local time = redis.call('TIME')
local moment = string.format('%s.%06d', time[1], time[2])

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
    redis.call('HSET', row, 'status', 'done', 'ended_at', moment)
    redis.call('PEXPIRE', row, '2592000000')
    leave(row, string.sub(row, #'raceproof_inbox:' + 1))
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

-- forget: nothing
-- counts: inbox.counts
-- inbox.counts
HLEN
