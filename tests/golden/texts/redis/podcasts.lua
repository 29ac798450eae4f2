-- claim send: claim.acquire
-- claim.acquire
-- page = ARGV[3]
-- lease = 300.0
-- limit = ARGV[2]
-- offset = ARGV[4]
-- given_now = ARGV[5]
-- index = 'podcasts/send'
-- row_prefix = 'podcasts:'
-- seen_attempts = seen[4]
-- looked_at = 'status', 'sending_at', 'sending_at', 'tries'
local open = {['NEW'] = true, ['BUSY'] = true}
-- claim_fields = 'sending_at', fence, 'status', 'BUSY', 'tries', attempts
-- attempts_column = 'tries'
-- cap = 5

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
  redis.call('ZREM', 'podcasts/send', key)
end

local moment = ARGV[5]
local now = tonumber(moment)
local ends_then = string.format('%.6f', now + 300.0)

-- When the lease of a row is over, by what stands there; nothing if nobody holds it.
local function lease_end(text)
  local ends = text and tonumber(text)
  return ends and ends + 300.0
end

-- Whether a lease that ends then is still held. One that ends more than twice its length from now was taken before the clock
-- was set back, and whoever took it may be dead (P13). A longer lease than this caller's ends far ahead too; but its fence is
-- no later than the clock.
local function is_held(ends, fence)
  local ahead = ends and ends > now + 2 * 300.0
  -- P3: by the store's clock
  return ends and ends > now and not ahead
end

-- P4: no two claims of a row have the same.
local function grown(fence, now)
  local least = (tonumber(fence) or 0) + 0.000001
  -- but where the clock was set back by more than a lease, nobody could hold the row until it is there again
  if least > now + 300.0 then least = 0 end
  return string.format('%.6f', math.max(least, now))
end

-- Writes a claim into the row, and returns its fence and how many attempts there were; or false, and why it cannot.
local function hold(row, key, stream, before, seen)
  local fence, revision = grown(seen[3], now), ''
  local attempts = one_more(seen[4])
  if not attempts then return false, 'tries' .. ' is no whole number' end
  redis.call('ZADD', 'podcasts/send', ends_then, key)
  redis.call('HSET', row, 'sending_at', fence, 'status', 'BUSY', 'tries', attempts)
  return fence, tonumber(attempts)
end

-- A row that cannot be decided keeps nobody from the others: it is told of, and proposed again when a lease is over.
local failed
local function pass_over(key, why)
  redis.call('ZADD', 'podcasts/send', ends_then, key)
  failed = failed or {0}
  failed[#failed + 1], failed[#failed + 2] = key, why
end

local most = tonumber(ARGV[2])
local keys = redis.call('ZRANGEBYSCORE', 'podcasts/send', '-inf', moment, 'LIMIT', ARGV[4], ARGV[3])
local proposed, kept = #keys, 0
local found, wins, place, looked = {proposed, 0}, 0, 2, #keys
-- P13: rows that wait for longer than any lease either rest, or were held when the clock was set back. Where there is nothing
-- else, a few of them are looked at, beginning where the clock says, so that each has its turn.
if proposed == 0 then
  local later = '(' .. string.format('%.6f', now + 2 * 300.0)
  local number = redis.call('ZCOUNT', 'podcasts/send', later, '+inf')
  local first = math.floor(now * 1000) % math.max(number - 9, 1)
  for _, key in ipairs(redis.call('ZRANGEBYSCORE', 'podcasts/send', later, '+inf', 'LIMIT', first, 10)) do
    keys[#keys + 1] = key
  end
end
for i, key in ipairs(keys) do
  if wins == most then break end
  local row = 'podcasts:' .. key
  local stream = nil
  -- a key of another type is not a row of ours
  local seen = redis.pcall('HMGET', row, 'status', 'sending_at', 'sending_at', 'tries')
  local before, ends = seen[1], lease_end(seen[2])

  if not open[before] then
    local following = leave(row, key)
    -- the next in its line is looked at too, and those behind it if that one is gone as well (P13)
  -- P3: nobody holds it, or the lease is over by the store's clock; if not, the index learns from when on it can be claimed
  elseif is_held(ends, seen[3]) then
    redis.call('ZADD', 'podcasts/send', string.format('%.6f', ends), key)
  elseif (tonumber(seen[4]) or 0) >= 5 then
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

-- claim send by the store's clock: claim.acquire
-- claim.acquire
-- page = ARGV[3]
-- lease = 300.0
-- limit = ARGV[2]
-- offset = ARGV[4]
-- index = 'podcasts/send'
-- row_prefix = 'podcasts:'
-- seen_attempts = seen[4]
-- looked_at = 'status', 'sending_at', 'sending_at', 'tries'
local open = {['NEW'] = true, ['BUSY'] = true}
-- claim_fields = 'sending_at', fence, 'status', 'BUSY', 'tries', attempts
-- attempts_column = 'tries'
-- cap = 5

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
  redis.call('ZREM', 'podcasts/send', key)
end

local time = redis.call('TIME')
local moment = string.format('%s.%06d', time[1], time[2])
local now = tonumber(moment)
local ends_then = string.format('%.6f', now + 300.0)

-- When the lease of a row is over, by what stands there; nothing if nobody holds it.
local function lease_end(text)
  local ends = text and tonumber(text)
  return ends and ends + 300.0
end

-- Whether a lease that ends then is still held. One that ends more than twice its length from now was taken before the clock
-- was set back, and whoever took it may be dead (P13). A longer lease than this caller's ends far ahead too; but its fence is
-- no later than the clock.
local function is_held(ends, fence)
  local ahead = ends and ends > now + 2 * 300.0
  -- P3: by the store's clock
  return ends and ends > now and not ahead
end

-- P4: no two claims of a row have the same.
local function grown(fence, now)
  local least = (tonumber(fence) or 0) + 0.000001
  -- but where the clock was set back by more than a lease, nobody could hold the row until it is there again
  if least > now + 300.0 then least = 0 end
  return string.format('%.6f', math.max(least, now))
end

-- Writes a claim into the row, and returns its fence and how many attempts there were; or false, and why it cannot.
local function hold(row, key, stream, before, seen)
  local fence, revision = grown(seen[3], now), ''
  local attempts = one_more(seen[4])
  if not attempts then return false, 'tries' .. ' is no whole number' end
  redis.call('ZADD', 'podcasts/send', ends_then, key)
  redis.call('HSET', row, 'sending_at', fence, 'status', 'BUSY', 'tries', attempts)
  return fence, tonumber(attempts)
end

-- A row that cannot be decided keeps nobody from the others: it is told of, and proposed again when a lease is over.
local failed
local function pass_over(key, why)
  redis.call('ZADD', 'podcasts/send', ends_then, key)
  failed = failed or {0}
  failed[#failed + 1], failed[#failed + 2] = key, why
end

local most = tonumber(ARGV[2])
local keys = redis.call('ZRANGEBYSCORE', 'podcasts/send', '-inf', moment, 'LIMIT', ARGV[4], ARGV[3])
local proposed, kept = #keys, 0
local found, wins, place, looked = {proposed, 0}, 0, 2, #keys
-- P13: rows that wait for longer than any lease either rest, or were held when the clock was set back. Where there is nothing
-- else, a few of them are looked at, beginning where the clock says, so that each has its turn.
if proposed == 0 then
  local later = '(' .. string.format('%.6f', now + 2 * 300.0)
  local number = redis.call('ZCOUNT', 'podcasts/send', later, '+inf')
  local first = math.floor(now * 1000) % math.max(number - 9, 1)
  for _, key in ipairs(redis.call('ZRANGEBYSCORE', 'podcasts/send', later, '+inf', 'LIMIT', first, 10)) do
    keys[#keys + 1] = key
  end
end
for i, key in ipairs(keys) do
  if wins == most then break end
  local row = 'podcasts:' .. key
  local stream = nil
  -- a key of another type is not a row of ours
  local seen = redis.pcall('HMGET', row, 'status', 'sending_at', 'sending_at', 'tries')
  local before, ends = seen[1], lease_end(seen[2])

  if not open[before] then
    local following = leave(row, key)
    -- the next in its line is looked at too, and those behind it if that one is gone as well (P13)
  -- P3: nobody holds it, or the lease is over by the store's clock; if not, the index learns from when on it can be claimed
  elseif is_held(ends, seen[3]) then
    redis.call('ZADD', 'podcasts/send', string.format('%.6f', ends), key)
  elseif (tonumber(seen[4]) or 0) >= 5 then
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

-- claim_one send: claim.one
-- claim.one
-- lease = 300.0
-- given_now = ARGV[3]
-- index = 'podcasts/send'
-- row_prefix = 'podcasts:'
-- seen_holder = false
-- seen_attempts = seen[4]
-- looked_at = 'status', 'sending_at', 'sending_at', 'tries'
local open = {['NEW'] = true, ['BUSY'] = true}
-- stream_key = nil
-- claim_fields = 'sending_at', fence, 'status', 'BUSY', 'tries', attempts
-- attempts_column = 'tries'
-- cap = 5
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

local moment = ARGV[3]
local now = tonumber(moment)
local ends_then = string.format('%.6f', now + 300.0)

-- When the lease of a row is over, by what stands there; nothing if nobody holds it.
local function lease_end(text)
  local ends = text and tonumber(text)
  return ends and ends + 300.0
end

-- Whether a lease that ends then is still held. One that ends more than twice its length from now was taken before the clock
-- was set back, and whoever took it may be dead (P13). A longer lease than this caller's ends far ahead too; but its fence is
-- no later than the clock.
local function is_held(ends, fence)
  local ahead = ends and ends > now + 2 * 300.0
  -- P3: by the store's clock
  return ends and ends > now and not ahead
end

-- P4: no two claims of a row have the same.
local function grown(fence, now)
  local least = (tonumber(fence) or 0) + 0.000001
  -- but where the clock was set back by more than a lease, nobody could hold the row until it is there again
  if least > now + 300.0 then least = 0 end
  return string.format('%.6f', math.max(least, now))
end

-- Writes a claim into the row, and returns its fence and how many attempts there were; or false, and why it cannot.
local function hold(row, key, stream, before, seen)
  local fence, revision = grown(seen[3], now), ''
  local attempts = one_more(seen[4])
  if not attempts then return false, 'tries' .. ' is no whole number' end
  redis.call('ZADD', 'podcasts/send', ends_then, key)
  redis.call('HSET', row, 'sending_at', fence, 'status', 'BUSY', 'tries', attempts)
  return fence, tonumber(attempts)
end

-- One row by its key: {'claimed', fence, attempts, before, columns …} or {'taken', before, unmet, holder}, {'missing'}.
-- Why it cannot be claimed is told as bits: status, held, resting, attempts, line, then the guards.
local function decide(row, stream)
  local key, seen = string.sub(row, #'podcasts:' + 1), redis.pcall('HMGET', row, 'status', 'sending_at', 'sending_at', 'tries')
  local before, ends, unmet = seen[1], lease_end(seen[2]), 0
  if not before then return {'missing'} end
  if not open[before] then unmet = 1 end
  -- P3: as above
  if is_held(ends, seen[3]) then unmet = unmet + 2 end
  if (tonumber(seen[4]) or 0) >= 5 then unmet = unmet + 8 end
  if unmet > 0 then return {'taken', before, unmet, false} end
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

-- renew send: claim.renew
-- claim.renew
-- lease = 300.0
-- given_now = ARGV[2]
-- index = 'podcasts/send'
-- row_prefix = 'podcasts:'
-- seen_holder = false
-- looked_at = 'status', 'sending_at', 'sending_at', 'tries'
local held = {['BUSY'] = true}
-- stream_key = nil
-- renew_fields = 'sending_at', fence
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
local ends_then = string.format('%.6f', now + 300.0)

-- P4: no two claims of a row have the same.
local function grown(fence, now)
  local least = (tonumber(fence) or 0) + 0.000001
  -- but where the clock was set back by more than a lease, nobody could hold the row until it is there again
  if least > now + 300.0 then least = 0 end
  return string.format('%.6f', math.max(least, now))
end

-- P5: only the current holder; P4: an older fence than the newest is refused.
local function refusal(seen, fence)
  if not seen[1] then return {'missing'} end
  if seen[3] ~= fence or not held[seen[1]] then return {'lost', seen[1], seen[3], false} end
end

local function decide(row, stream, fence)
  local seen = redis.pcall('HMGET', row, 'status', 'sending_at', 'sending_at', 'tries')
  local refused = refusal(seen, fence)
  if refused then return refused end
  fence = grown(seen[3], now)
  redis.call('HSET', row, 'sending_at', fence)
  redis.call('ZADD', 'podcasts/send', ends_then, string.sub(row, #'podcasts:' + 1))
  return {'renewed', fence}
end

local answers, rows = {}, (#KEYS - 1) / 1
for i = 1, rows do
  local place = 1 + i * 3
  answers[i] = decide(KEYS[i], nil, ARGV[place], ARGV[place + 1], rows - i, ARGV[place + 2])
end
return answers

-- fail send: claim.give_back
-- claim.give_back
-- lease = ARGV[3]
-- given_now = ARGV[2]
-- index = 'podcasts/send'
-- row_prefix = 'podcasts:'
-- seen_holder = false
-- seen_attempts = seen[4]
-- looked_at = 'status', 'sending_at', 'sending_at', 'tries'
local held = {['BUSY'] = true}
-- stream_key = nil
-- back_fields = 'status', 'NEW'
-- cleared = 'sending_at'
-- attempts_column = 'tries'
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

-- P4: no two claims of a row have the same.
local function grown(fence, now)
  local least = (tonumber(fence) or 0) + 0.000001
  -- but where the clock was set back by more than a lease, nobody could hold the row until it is there again
  if least > now + ARGV[3] then least = 0 end
  return string.format('%.6f', math.max(least, now))
end

-- P5: only the current holder; P4: an older fence than the newest is refused.
local function refusal(seen, fence)
  if not seen[1] then return {'missing'} end
  if seen[3] ~= fence or not held[seen[1]] then return {'lost', seen[1], seen[3], false} end
end

-- Gives the row back; with a delay it rests, without one its attempt is refunded.
local function decide(row, stream, fence, delay, after, holder)
  local seen = redis.pcall('HMGET', row, 'status', 'sending_at', 'sending_at', 'tries')
  local refused = refusal(seen, fence)
  if refused then return refused end
  local before, ready, revision = seen[1], moment, ''
  redis.call('HDEL', row, 'sending_at')
  if delay == '' then
    if (tonumber(seen[4]) or 0) > 0 then redis.pcall('HINCRBY', row, 'tries', -1) end
  else
  end
  redis.call('HSET', row, 'status', 'NEW')
  redis.call('ZADD', 'podcasts/send', ready, string.sub(row, #'podcasts:' + 1))
  return {'released'}
end

local answers, rows = {}, (#KEYS - 1) / 1
for i = 1, rows do
  local place = 1 + i * 3
  answers[i] = decide(KEYS[i], nil, ARGV[place], ARGV[place + 1], rows - i, ARGV[place + 2])
end
return answers

-- release send: claim.give_back
-- claim.give_back
-- lease = ARGV[2]
-- index = 'podcasts/send'
-- row_prefix = 'podcasts:'
-- seen_holder = false
-- seen_attempts = seen[4]
-- looked_at = 'status', 'sending_at', 'sending_at', 'tries'
local held = {['BUSY'] = true}
-- stream_key = nil
-- back_fields = 'status', 'NEW'
-- cleared = 'sending_at'
-- attempts_column = 'tries'
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

-- P4: no two claims of a row have the same.
local function grown(fence, now)
  local least = (tonumber(fence) or 0) + 0.000001
  -- but where the clock was set back by more than a lease, nobody could hold the row until it is there again
  if least > now + ARGV[2] then least = 0 end
  return string.format('%.6f', math.max(least, now))
end

-- P5: only the current holder; P4: an older fence than the newest is refused.
local function refusal(seen, fence)
  if not seen[1] then return {'missing'} end
  if seen[3] ~= fence or not held[seen[1]] then return {'lost', seen[1], seen[3], false} end
end

-- Gives the row back; with a delay it rests, without one its attempt is refunded.
local function decide(row, stream, fence, delay, after, holder)
  local seen = redis.pcall('HMGET', row, 'status', 'sending_at', 'sending_at', 'tries')
  local refused = refusal(seen, fence)
  if refused then return refused end
  local before, ready, revision = seen[1], moment, ''
  redis.call('HDEL', row, 'sending_at')
  if delay == '' then
    if (tonumber(seen[4]) or 0) > 0 then redis.pcall('HINCRBY', row, 'tries', -1) end
  else
  end
  redis.call('HSET', row, 'status', 'NEW')
  redis.call('ZADD', 'podcasts/send', ready, string.sub(row, #'podcasts:' + 1))
  return {'released'}
end

local answers, rows = {}, (#KEYS - 1) / 1
for i = 1, rows do
  local place = 0 + i * 3
  answers[i] = decide(KEYS[i], nil, ARGV[place], ARGV[place + 1], rows - i, ARGV[place + 2])
end
return answers

-- ready, held by send: move
-- move
-- given_fence = ARGV[1]
-- given_change = ARGV[2]
local sources = {['BUSY'] = true, ['NEW'] = true}
-- looked_at = 'status', 'sending_at'
-- seen_fence = found[2]
-- seen_revision = false
-- move_fields = 'status', 'READY'
-- cleared = 'sending_at'
-- index = 'podcasts/send'
-- row_prefix = 'podcasts:'

-- Takes a row out of the index of a claim, in which it waited, and out of its line; the next in line follows, and is told.
local function leave(row, key)
  redis.call('ZREM', 'podcasts/send', key)
end


local row, stream, i = KEYS[1], KEYS[2], 1
  -- a key of another type is not a row of ours
  local found = redis.pcall('HMGET', row, 'status', 'sending_at')
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
    redis.call('HDEL', row, 'sending_at')
    -- the end of a claim that another process holds; P4: its fence fits no more, also if the row comes back
    local fields, change = {'status', 'READY'}, cjson.decode(ARGV[2])
    for _, name in ipairs(change.clear) do redis.call('HDEL', row, name) end
    for name, value in pairs(change.set) do
      fields[#fields + 1] = name
      fields[#fields + 1] = value
    end
    redis.call('HSET', row, unpack(fields))
    leave(row, string.sub(row, #'podcasts:' + 1))
    return before
  end

  local by = false
  -- what the caller asked of the row comes before 'already': its revision (2), and its guards, which follow the declared ones
  return {false, 'not moved', before, revision, fence, unmet, by}

-- claim describe: claim.acquire
-- claim.acquire
-- page = ARGV[3]
-- lease = 3600.0
-- limit = ARGV[2]
-- offset = ARGV[4]
-- given_now = ARGV[5]
-- token = ARGV[6]
-- index = 'podcasts/describe'
-- row_prefix = 'podcasts:'
-- looked_at = 'status', 'ai_error', 'ai_error'
local open = {['NEW'] = true, ['BUSY'] = true}
-- marker_prefix = 'PROCESSING:AI_DESC:'
-- claim_fields = 'ai_error', fence, 'status', 'BUSY'

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
  redis.call('ZREM', 'podcasts/describe', key)
end

local moment = ARGV[5]
local now = tonumber(moment)
local ends_then = string.format('%.6f', now + 3600.0)

-- When the lease of a row is over, by what stands there; nothing if nobody holds it.
local function lease_end(text)
  local whole, part = string.match(text or '', '^PROCESSING:[^:]+:[^:]+:(%d+)(.*)$')
  local well = whole and #whole <= 12 and #part <= 10 and (part == '' or string.find(part, '^%.%d+$'))
  text = well and whole .. part
  local ends = text and tonumber(text)
  return ends and ends + 3600.0
end

-- Whether a lease that ends then is still held. One that ends more than twice its length from now was taken before the clock
-- was set back, and whoever took it may be dead (P13). A longer lease than this caller's ends far ahead too; but its fence is
-- no later than the clock.
local function is_held(ends, fence)
  local ahead = ends and ends > now + 2 * 3600.0
  -- P3: by the store's clock
  return ends and ends > now and not ahead
end

-- P4: no two claims of a row have the same.
local function grown(fence, now)
  -- but where the clock was set back by more than a lease, nobody could hold the row until it is there again
  return 'PROCESSING:AI_DESC:' .. ARGV[6] .. ':' .. moment
end

-- Writes a claim into the row, and returns its fence and how many attempts there were; or false, and why it cannot.
local function hold(row, key, stream, before, seen)
  local fence, revision = grown(seen[3], now), ''
  redis.call('ZADD', 'podcasts/describe', ends_then, key)
  redis.call('HSET', row, 'ai_error', fence, 'status', 'BUSY')
  return fence, 1
end

local most = tonumber(ARGV[2])
local keys = redis.call('ZRANGEBYSCORE', 'podcasts/describe', '-inf', moment, 'LIMIT', ARGV[4], ARGV[3])
local proposed, kept = #keys, 0
local found, wins, place, looked = {proposed, 0}, 0, 2, #keys
-- P13: rows that wait for longer than any lease either rest, or were held when the clock was set back. Where there is nothing
-- else, a few of them are looked at, beginning where the clock says, so that each has its turn.
if proposed == 0 then
  local later = '(' .. string.format('%.6f', now + 2 * 3600.0)
  local number = redis.call('ZCOUNT', 'podcasts/describe', later, '+inf')
  local first = math.floor(now * 1000) % math.max(number - 9, 1)
  for _, key in ipairs(redis.call('ZRANGEBYSCORE', 'podcasts/describe', later, '+inf', 'LIMIT', first, 10)) do
    keys[#keys + 1] = key
  end
end
for i, key in ipairs(keys) do
  if wins == most then break end
  local row = 'podcasts:' .. key
  local stream = nil
  -- a key of another type is not a row of ours
  local seen = redis.pcall('HMGET', row, 'status', 'ai_error', 'ai_error')
  local before, ends = seen[1], lease_end(seen[2])

  if not open[before] then
    local following = leave(row, key)
    -- the next in its line is looked at too, and those behind it if that one is gone as well (P13)
  -- P3: nobody holds it, or the lease is over by the store's clock; if not, the index learns from when on it can be claimed
  elseif is_held(ends, seen[3]) then
    redis.call('ZADD', 'podcasts/describe', string.format('%.6f', ends), key)
  else
    local fence, attempts = hold(row, key, stream, before, seen)
      wins = wins + 1
      found[place + 1], found[place + 2], found[place + 3], found[place + 4] = key, fence, attempts, before
      place = place + 4
  end
end

found[2] = kept
return found

-- claim describe by the store's clock: claim.acquire
-- claim.acquire
-- page = ARGV[3]
-- lease = 3600.0
-- limit = ARGV[2]
-- offset = ARGV[4]
-- token = ARGV[5]
-- index = 'podcasts/describe'
-- row_prefix = 'podcasts:'
-- looked_at = 'status', 'ai_error', 'ai_error'
local open = {['NEW'] = true, ['BUSY'] = true}
-- marker_prefix = 'PROCESSING:AI_DESC:'
-- claim_fields = 'ai_error', fence, 'status', 'BUSY'

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
  redis.call('ZREM', 'podcasts/describe', key)
end

local time = redis.call('TIME')
local moment = string.format('%s.%06d', time[1], time[2])
local now = tonumber(moment)
local ends_then = string.format('%.6f', now + 3600.0)

-- When the lease of a row is over, by what stands there; nothing if nobody holds it.
local function lease_end(text)
  local whole, part = string.match(text or '', '^PROCESSING:[^:]+:[^:]+:(%d+)(.*)$')
  local well = whole and #whole <= 12 and #part <= 10 and (part == '' or string.find(part, '^%.%d+$'))
  text = well and whole .. part
  local ends = text and tonumber(text)
  return ends and ends + 3600.0
end

-- Whether a lease that ends then is still held. One that ends more than twice its length from now was taken before the clock
-- was set back, and whoever took it may be dead (P13). A longer lease than this caller's ends far ahead too; but its fence is
-- no later than the clock.
local function is_held(ends, fence)
  local ahead = ends and ends > now + 2 * 3600.0
  -- P3: by the store's clock
  return ends and ends > now and not ahead
end

-- P4: no two claims of a row have the same.
local function grown(fence, now)
  -- but where the clock was set back by more than a lease, nobody could hold the row until it is there again
  return 'PROCESSING:AI_DESC:' .. ARGV[5] .. ':' .. moment
end

-- Writes a claim into the row, and returns its fence and how many attempts there were; or false, and why it cannot.
local function hold(row, key, stream, before, seen)
  local fence, revision = grown(seen[3], now), ''
  redis.call('ZADD', 'podcasts/describe', ends_then, key)
  redis.call('HSET', row, 'ai_error', fence, 'status', 'BUSY')
  return fence, 1
end

local most = tonumber(ARGV[2])
local keys = redis.call('ZRANGEBYSCORE', 'podcasts/describe', '-inf', moment, 'LIMIT', ARGV[4], ARGV[3])
local proposed, kept = #keys, 0
local found, wins, place, looked = {proposed, 0}, 0, 2, #keys
-- P13: rows that wait for longer than any lease either rest, or were held when the clock was set back. Where there is nothing
-- else, a few of them are looked at, beginning where the clock says, so that each has its turn.
if proposed == 0 then
  local later = '(' .. string.format('%.6f', now + 2 * 3600.0)
  local number = redis.call('ZCOUNT', 'podcasts/describe', later, '+inf')
  local first = math.floor(now * 1000) % math.max(number - 9, 1)
  for _, key in ipairs(redis.call('ZRANGEBYSCORE', 'podcasts/describe', later, '+inf', 'LIMIT', first, 10)) do
    keys[#keys + 1] = key
  end
end
for i, key in ipairs(keys) do
  if wins == most then break end
  local row = 'podcasts:' .. key
  local stream = nil
  -- a key of another type is not a row of ours
  local seen = redis.pcall('HMGET', row, 'status', 'ai_error', 'ai_error')
  local before, ends = seen[1], lease_end(seen[2])

  if not open[before] then
    local following = leave(row, key)
    -- the next in its line is looked at too, and those behind it if that one is gone as well (P13)
  -- P3: nobody holds it, or the lease is over by the store's clock; if not, the index learns from when on it can be claimed
  elseif is_held(ends, seen[3]) then
    redis.call('ZADD', 'podcasts/describe', string.format('%.6f', ends), key)
  else
    local fence, attempts = hold(row, key, stream, before, seen)
      wins = wins + 1
      found[place + 1], found[place + 2], found[place + 3], found[place + 4] = key, fence, attempts, before
      place = place + 4
  end
end

found[2] = kept
return found

-- claim_one describe: claim.one
-- claim.one
-- lease = 3600.0
-- given_now = ARGV[3]
-- token = ARGV[4]
-- index = 'podcasts/describe'
-- row_prefix = 'podcasts:'
-- seen_holder = false
-- looked_at = 'status', 'ai_error', 'ai_error'
local open = {['NEW'] = true, ['BUSY'] = true}
-- stream_key = nil
-- marker_prefix = 'PROCESSING:AI_DESC:'
-- claim_fields = 'ai_error', fence, 'status', 'BUSY'
-- other_keys = 1
-- keys_of_a_row = 1
-- first_value = 2

-- The whole number after this one, the first if there is none, and nothing if it is no such number. Lua's own numbers lose
-- digits beyond 2^53: a longer one stays text.
local function one_more(text)
  if not text then return 1 end
  if #text < 16 and string.find(text, '^%-?%d+$') then return text + 1 end
  local head, digit, nines = string.match('0' .. text, '^(%d-)([0-8])(9*)$')
  return head and string.gsub(head .. digit + 1 .. string.rep('0', #nines), '^0+', '') or nil
end

local moment = ARGV[3]
local now = tonumber(moment)
local ends_then = string.format('%.6f', now + 3600.0)

-- When the lease of a row is over, by what stands there; nothing if nobody holds it.
local function lease_end(text)
  local whole, part = string.match(text or '', '^PROCESSING:[^:]+:[^:]+:(%d+)(.*)$')
  local well = whole and #whole <= 12 and #part <= 10 and (part == '' or string.find(part, '^%.%d+$'))
  text = well and whole .. part
  local ends = text and tonumber(text)
  return ends and ends + 3600.0
end

-- Whether a lease that ends then is still held. One that ends more than twice its length from now was taken before the clock
-- was set back, and whoever took it may be dead (P13). A longer lease than this caller's ends far ahead too; but its fence is
-- no later than the clock.
local function is_held(ends, fence)
  local ahead = ends and ends > now + 2 * 3600.0
  -- P3: by the store's clock
  return ends and ends > now and not ahead
end

-- P4: no two claims of a row have the same.
local function grown(fence, now)
  -- but where the clock was set back by more than a lease, nobody could hold the row until it is there again
  return 'PROCESSING:AI_DESC:' .. ARGV[4] .. ':' .. moment
end

-- Writes a claim into the row, and returns its fence and how many attempts there were; or false, and why it cannot.
local function hold(row, key, stream, before, seen)
  local fence, revision = grown(seen[3], now), ''
  redis.call('ZADD', 'podcasts/describe', ends_then, key)
  redis.call('HSET', row, 'ai_error', fence, 'status', 'BUSY')
  return fence, 1
end

-- One row by its key: {'claimed', fence, attempts, before, columns …} or {'taken', before, unmet, holder}, {'missing'}.
-- Why it cannot be claimed is told as bits: status, held, resting, attempts, line, then the guards.
local function decide(row, stream)
  local key, seen = string.sub(row, #'podcasts:' + 1), redis.pcall('HMGET', row, 'status', 'ai_error', 'ai_error')
  local before, ends, unmet = seen[1], lease_end(seen[2]), 0
  if not before then return {'missing'} end
  if not open[before] then unmet = 1 end
  -- P3: as above
  if is_held(ends, seen[3]) then unmet = unmet + 2 end
  if unmet > 0 then return {'taken', before, unmet, false} end
  local fence, attempts = hold(row, key, stream, before, seen)
  if not fence then return {'error', attempts} end
  return {'claimed', fence, attempts, before}
end

local answers, rows = {}, (#KEYS - 1) / 1
for i = 1, rows do
  local place = 2 + i * 3
  answers[i] = decide(KEYS[i], nil, ARGV[place], ARGV[place + 1], rows - i, ARGV[place + 2])
end
return answers

-- renew describe: claim.renew
-- claim.renew
-- lease = 3600.0
-- given_now = ARGV[2]
-- token = ARGV[3]
-- index = 'podcasts/describe'
-- row_prefix = 'podcasts:'
-- seen_holder = false
-- looked_at = 'status', 'ai_error', 'ai_error'
local held = {['BUSY'] = true}
-- stream_key = nil
-- marker_prefix = 'PROCESSING:AI_DESC:'
-- renew_fields = 'ai_error', fence
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
local ends_then = string.format('%.6f', now + 3600.0)

-- P4: no two claims of a row have the same.
local function grown(fence, now)
  -- but where the clock was set back by more than a lease, nobody could hold the row until it is there again
  return 'PROCESSING:AI_DESC:' .. ARGV[3] .. ':' .. moment
end

-- P5: only the current holder; P4: an older fence than the newest is refused.
local function refusal(seen, fence)
  if not seen[1] then return {'missing'} end
  if seen[3] ~= fence or not held[seen[1]] then return {'lost', seen[1], seen[3], false} end
end

local function decide(row, stream, fence)
  local seen = redis.pcall('HMGET', row, 'status', 'ai_error', 'ai_error')
  local refused = refusal(seen, fence)
  if refused then return refused end
  fence = grown(seen[3], now)
  redis.call('HSET', row, 'ai_error', fence)
  redis.call('ZADD', 'podcasts/describe', ends_then, string.sub(row, #'podcasts:' + 1))
  return {'renewed', fence}
end

local answers, rows = {}, (#KEYS - 1) / 1
for i = 1, rows do
  local place = 1 + i * 3
  answers[i] = decide(KEYS[i], nil, ARGV[place], ARGV[place + 1], rows - i, ARGV[place + 2])
end
return answers

-- fail describe: claim.give_back
-- claim.give_back
-- given_now = ARGV[2]
-- index = 'podcasts/describe'
-- row_prefix = 'podcasts:'
-- seen_holder = false
-- looked_at = 'status', 'ai_error', 'ai_error'
local held = {['BUSY'] = true}
-- stream_key = nil
-- marker_prefix = 'PROCESSING:AI_DESC:'
-- back_fields = 'status', 'NEW'
-- cleared = 'ai_error'
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

-- P4: no two claims of a row have the same.
local function grown(fence, now)
  -- but where the clock was set back by more than a lease, nobody could hold the row until it is there again
  return 'PROCESSING:AI_DESC:' .. token .. ':' .. moment
end

-- P5: only the current holder; P4: an older fence than the newest is refused.
local function refusal(seen, fence)
  if not seen[1] then return {'missing'} end
  if seen[3] ~= fence or not held[seen[1]] then return {'lost', seen[1], seen[3], false} end
end

-- Gives the row back; with a delay it rests, without one its attempt is refunded.
local function decide(row, stream, fence, delay, after, holder)
  local seen = redis.pcall('HMGET', row, 'status', 'ai_error', 'ai_error')
  local refused = refusal(seen, fence)
  if refused then return refused end
  local before, ready, revision = seen[1], moment, ''
  redis.call('HDEL', row, 'ai_error')
  if delay == '' then
  else
  end
  redis.call('HSET', row, 'status', 'NEW')
  redis.call('ZADD', 'podcasts/describe', ready, string.sub(row, #'podcasts:' + 1))
  return {'released'}
end

local answers, rows = {}, (#KEYS - 1) / 1
for i = 1, rows do
  local place = 1 + i * 3
  answers[i] = decide(KEYS[i], nil, ARGV[place], ARGV[place + 1], rows - i, ARGV[place + 2])
end
return answers

-- release describe: claim.give_back
-- claim.give_back
-- index = 'podcasts/describe'
-- row_prefix = 'podcasts:'
-- seen_holder = false
-- looked_at = 'status', 'ai_error', 'ai_error'
local held = {['BUSY'] = true}
-- stream_key = nil
-- marker_prefix = 'PROCESSING:AI_DESC:'
-- back_fields = 'status', 'NEW'
-- cleared = 'ai_error'
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

-- P4: no two claims of a row have the same.
local function grown(fence, now)
  -- but where the clock was set back by more than a lease, nobody could hold the row until it is there again
  return 'PROCESSING:AI_DESC:' .. token .. ':' .. moment
end

-- P5: only the current holder; P4: an older fence than the newest is refused.
local function refusal(seen, fence)
  if not seen[1] then return {'missing'} end
  if seen[3] ~= fence or not held[seen[1]] then return {'lost', seen[1], seen[3], false} end
end

-- Gives the row back; with a delay it rests, without one its attempt is refunded.
local function decide(row, stream, fence, delay, after, holder)
  local seen = redis.pcall('HMGET', row, 'status', 'ai_error', 'ai_error')
  local refused = refusal(seen, fence)
  if refused then return refused end
  local before, ready, revision = seen[1], moment, ''
  redis.call('HDEL', row, 'ai_error')
  if delay == '' then
  else
  end
  redis.call('HSET', row, 'status', 'NEW')
  redis.call('ZADD', 'podcasts/describe', ready, string.sub(row, #'podcasts:' + 1))
  return {'released'}
end

local answers, rows = {}, (#KEYS - 1) / 1
for i = 1, rows do
  local place = 0 + i * 3
  answers[i] = decide(KEYS[i], nil, ARGV[place], ARGV[place + 1], rows - i, ARGV[place + 2])
end
return answers

-- ready, held by describe: move
-- move
-- given_fence = ARGV[1]
-- given_change = ARGV[2]
local sources = {['BUSY'] = true, ['NEW'] = true}
-- looked_at = 'status', 'ai_error'
-- seen_fence = found[2]
-- seen_revision = false
-- move_fields = 'status', 'READY'
-- cleared = 'ai_error'
-- index = 'podcasts/describe'
-- row_prefix = 'podcasts:'

-- Takes a row out of the index of a claim, in which it waited, and out of its line; the next in line follows, and is told.
local function leave(row, key)
  redis.call('ZREM', 'podcasts/describe', key)
end


local row, stream, i = KEYS[1], KEYS[2], 1
  -- a key of another type is not a row of ours
  local found = redis.pcall('HMGET', row, 'status', 'ai_error')
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
    redis.call('HDEL', row, 'ai_error')
    -- the end of a claim that another process holds; P4: its fence fits no more, also if the row comes back
    local fields, change = {'status', 'READY'}, cjson.decode(ARGV[2])
    for _, name in ipairs(change.clear) do redis.call('HDEL', row, name) end
    for name, value in pairs(change.set) do
      fields[#fields + 1] = name
      fields[#fields + 1] = value
    end
    redis.call('HSET', row, unpack(fields))
    leave(row, string.sub(row, #'podcasts:' + 1))
    return before
  end

  local by = false
  -- what the caller asked of the row comes before 'already': its revision (2), and its guards, which follow the declared ones
  return {false, 'not moved', before, revision, fence, unmet, by}

-- claim vet: claim.acquire
-- claim.acquire
-- page = ARGV[3]
-- lease = 60.0
-- limit = ARGV[2]
-- offset = ARGV[4]
-- given_now = ARGV[5]
-- index = 'podcasts/vet'
-- row_prefix = 'podcasts:'
-- looked_at = 'status', 'vetted_until', 'vet_fence'
local open = {['NEW'] = true}
-- claim_fields = 'vetted_by', ARGV[1], 'vet_fence', fence, 'vetted_until', ends_then

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
  redis.call('ZREM', 'podcasts/vet', key)
end

local moment = ARGV[5]
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
  redis.call('ZADD', 'podcasts/vet', ends_then, key)
  redis.call('HSET', row, 'vetted_by', ARGV[1], 'vet_fence', fence, 'vetted_until', ends_then)
  return fence, 1
end

local most = tonumber(ARGV[2])
local keys = redis.call('ZRANGEBYSCORE', 'podcasts/vet', '-inf', moment, 'LIMIT', ARGV[4], ARGV[3])
local proposed, kept = #keys, 0
local found, wins, place, looked = {proposed, 0}, 0, 2, #keys
-- P13: rows that wait for longer than any lease either rest, or were held when the clock was set back. Where there is nothing
-- else, a few of them are looked at, beginning where the clock says, so that each has its turn.
if proposed == 0 then
  local later = '(' .. string.format('%.6f', now + 2 * 60.0)
  local number = redis.call('ZCOUNT', 'podcasts/vet', later, '+inf')
  local first = math.floor(now * 1000) % math.max(number - 9, 1)
  for _, key in ipairs(redis.call('ZRANGEBYSCORE', 'podcasts/vet', later, '+inf', 'LIMIT', first, 10)) do
    keys[#keys + 1] = key
  end
end
for i, key in ipairs(keys) do
  if wins == most then break end
  local row = 'podcasts:' .. key
  local stream = nil
  -- a key of another type is not a row of ours
  local seen = redis.pcall('HMGET', row, 'status', 'vetted_until', 'vet_fence')
  local before, ends = seen[1], lease_end(seen[2])

  if not open[before] then
    local following = leave(row, key)
    -- the next in its line is looked at too, and those behind it if that one is gone as well (P13)
  -- P3: nobody holds it, or the lease is over by the store's clock; if not, the index learns from when on it can be claimed
  elseif is_held(ends, seen[3]) then
    redis.call('ZADD', 'podcasts/vet', string.format('%.6f', ends), key)
  else
    local fence, attempts = hold(row, key, stream, before, seen)
      wins = wins + 1
      found[place + 1], found[place + 2], found[place + 3], found[place + 4] = key, fence, attempts, before
      place = place + 4
  end
end

found[2] = kept
return found

-- claim vet by the store's clock: claim.acquire
-- claim.acquire
-- page = ARGV[3]
-- lease = 60.0
-- limit = ARGV[2]
-- offset = ARGV[4]
-- index = 'podcasts/vet'
-- row_prefix = 'podcasts:'
-- looked_at = 'status', 'vetted_until', 'vet_fence'
local open = {['NEW'] = true}
-- claim_fields = 'vetted_by', ARGV[1], 'vet_fence', fence, 'vetted_until', ends_then

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
  redis.call('ZREM', 'podcasts/vet', key)
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
  redis.call('ZADD', 'podcasts/vet', ends_then, key)
  redis.call('HSET', row, 'vetted_by', ARGV[1], 'vet_fence', fence, 'vetted_until', ends_then)
  return fence, 1
end

local most = tonumber(ARGV[2])
local keys = redis.call('ZRANGEBYSCORE', 'podcasts/vet', '-inf', moment, 'LIMIT', ARGV[4], ARGV[3])
local proposed, kept = #keys, 0
local found, wins, place, looked = {proposed, 0}, 0, 2, #keys
-- P13: rows that wait for longer than any lease either rest, or were held when the clock was set back. Where there is nothing
-- else, a few of them are looked at, beginning where the clock says, so that each has its turn.
if proposed == 0 then
  local later = '(' .. string.format('%.6f', now + 2 * 60.0)
  local number = redis.call('ZCOUNT', 'podcasts/vet', later, '+inf')
  local first = math.floor(now * 1000) % math.max(number - 9, 1)
  for _, key in ipairs(redis.call('ZRANGEBYSCORE', 'podcasts/vet', later, '+inf', 'LIMIT', first, 10)) do
    keys[#keys + 1] = key
  end
end
for i, key in ipairs(keys) do
  if wins == most then break end
  local row = 'podcasts:' .. key
  local stream = nil
  -- a key of another type is not a row of ours
  local seen = redis.pcall('HMGET', row, 'status', 'vetted_until', 'vet_fence')
  local before, ends = seen[1], lease_end(seen[2])

  if not open[before] then
    local following = leave(row, key)
    -- the next in its line is looked at too, and those behind it if that one is gone as well (P13)
  -- P3: nobody holds it, or the lease is over by the store's clock; if not, the index learns from when on it can be claimed
  elseif is_held(ends, seen[3]) then
    redis.call('ZADD', 'podcasts/vet', string.format('%.6f', ends), key)
  else
    local fence, attempts = hold(row, key, stream, before, seen)
      wins = wins + 1
      found[place + 1], found[place + 2], found[place + 3], found[place + 4] = key, fence, attempts, before
      place = place + 4
  end
end

found[2] = kept
return found

-- claim_one vet: claim.one
-- claim.one
-- lease = 60.0
-- given_now = ARGV[3]
-- index = 'podcasts/vet'
-- row_prefix = 'podcasts:'
-- seen_holder = seen[4]
-- looked_at = 'status', 'vetted_until', 'vet_fence', 'vetted_by'
local open = {['NEW'] = true}
-- stream_key = nil
-- claim_fields = 'vetted_by', ARGV[1], 'vet_fence', fence, 'vetted_until', ends_then
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
  redis.call('ZADD', 'podcasts/vet', ends_then, key)
  redis.call('HSET', row, 'vetted_by', ARGV[1], 'vet_fence', fence, 'vetted_until', ends_then)
  return fence, 1
end

-- One row by its key: {'claimed', fence, attempts, before, columns …} or {'taken', before, unmet, holder}, {'missing'}.
-- Why it cannot be claimed is told as bits: status, held, resting, attempts, line, then the guards.
local function decide(row, stream)
  local key, seen = string.sub(row, #'podcasts:' + 1), redis.pcall('HMGET', row, 'status', 'vetted_until', 'vet_fence', 'vetted_by')
  local before, ends, unmet = seen[1], lease_end(seen[2]), 0
  if not before then return {'missing'} end
  if not open[before] then unmet = 1 end
  -- P3: as above
  if is_held(ends, seen[3]) then unmet = unmet + 2 end
  if unmet > 0 then return {'taken', before, unmet, seen[4]} end
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

-- renew vet: claim.renew
-- claim.renew
-- lease = 60.0
-- given_now = ARGV[2]
-- index = 'podcasts/vet'
-- row_prefix = 'podcasts:'
-- seen_holder = seen[4]
-- looked_at = 'status', 'vetted_until', 'vet_fence', 'vetted_by'
local held = {['NEW'] = true}
-- stream_key = nil
-- renew_fields = 'vetted_until', ends_then
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
local ends_then = string.format('%.6f', now + 60.0)

-- P5: only the current holder; P4: an older fence than the newest is refused.
local function refusal(seen, fence)
  if not seen[1] then return {'missing'} end
  if seen[3] ~= fence or not held[seen[1]] then return {'lost', seen[1], seen[3], seen[4]} end
end

local function decide(row, stream, fence)
  local seen = redis.pcall('HMGET', row, 'status', 'vetted_until', 'vet_fence', 'vetted_by')
  local refused = refusal(seen, fence)
  if refused then return refused end
  redis.call('HSET', row, 'vetted_until', ends_then)
  redis.call('ZADD', 'podcasts/vet', ends_then, string.sub(row, #'podcasts:' + 1))
  return {'renewed', fence}
end

local answers, rows = {}, (#KEYS - 1) / 1
for i = 1, rows do
  local place = 1 + i * 3
  answers[i] = decide(KEYS[i], nil, ARGV[place], ARGV[place + 1], rows - i, ARGV[place + 2])
end
return answers

-- fail vet: claim.give_back
-- claim.give_back
-- given_now = ARGV[2]
-- index = 'podcasts/vet'
-- row_prefix = 'podcasts:'
-- seen_holder = seen[4]
-- looked_at = 'status', 'vetted_until', 'vet_fence', 'vetted_by'
local held = {['NEW'] = true}
-- stream_key = nil
-- back_fields = 'vet_fence', fence
-- cleared = 'vetted_by', 'vetted_until'
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
  if seen[3] ~= fence or not held[seen[1]] then return {'lost', seen[1], seen[3], seen[4]} end
end

-- Gives the row back; with a delay it rests, without one its attempt is refunded.
local function decide(row, stream, fence, delay, after, holder)
  local seen = redis.pcall('HMGET', row, 'status', 'vetted_until', 'vet_fence', 'vetted_by')
  local refused = refusal(seen, fence)
  if refused then return refused end
  local before, ready, revision = seen[1], moment, ''
  redis.call('HDEL', row, 'vetted_by', 'vetted_until')
  if delay == '' then
  else
  end
  fence = grown(seen[3], now)
  redis.call('HSET', row, 'vet_fence', fence)
  redis.call('ZADD', 'podcasts/vet', ready, string.sub(row, #'podcasts:' + 1))
  return {'released'}
end

local answers, rows = {}, (#KEYS - 1) / 1
for i = 1, rows do
  local place = 1 + i * 3
  answers[i] = decide(KEYS[i], nil, ARGV[place], ARGV[place + 1], rows - i, ARGV[place + 2])
end
return answers

-- release vet: claim.give_back
-- claim.give_back
-- index = 'podcasts/vet'
-- row_prefix = 'podcasts:'
-- seen_holder = seen[4]
-- looked_at = 'status', 'vetted_until', 'vet_fence', 'vetted_by'
local held = {['NEW'] = true}
-- stream_key = nil
-- back_fields = 'vet_fence', fence
-- cleared = 'vetted_by', 'vetted_until'
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
  if seen[3] ~= fence or not held[seen[1]] then return {'lost', seen[1], seen[3], seen[4]} end
end

-- Gives the row back; with a delay it rests, without one its attempt is refunded.
local function decide(row, stream, fence, delay, after, holder)
  local seen = redis.pcall('HMGET', row, 'status', 'vetted_until', 'vet_fence', 'vetted_by')
  local refused = refusal(seen, fence)
  if refused then return refused end
  local before, ready, revision = seen[1], moment, ''
  redis.call('HDEL', row, 'vetted_by', 'vetted_until')
  if delay == '' then
  else
  end
  fence = grown(seen[3], now)
  redis.call('HSET', row, 'vet_fence', fence)
  redis.call('ZADD', 'podcasts/vet', ready, string.sub(row, #'podcasts:' + 1))
  return {'released'}
end

local answers, rows = {}, (#KEYS - 1) / 1
for i = 1, rows do
  local place = 0 + i * 3
  answers[i] = decide(KEYS[i], nil, ARGV[place], ARGV[place + 1], rows - i, ARGV[place + 2])
end
return answers

-- ready, held by vet: move
-- move
-- given_fence = ARGV[1]
-- given_change = ARGV[2]
local sources = {['BUSY'] = true, ['NEW'] = true}
-- looked_at = 'status', 'vet_fence'
-- seen_fence = found[2]
-- seen_revision = false
-- move_fields = 'status', 'READY'
-- cleared = 'vetted_by', 'vetted_until'
-- index = 'podcasts/vet'
-- row_prefix = 'podcasts:'

-- Takes a row out of the index of a claim, in which it waited, and out of its line; the next in line follows, and is told.
local function leave(row, key)
  redis.call('ZREM', 'podcasts/vet', key)
end


local row, stream, i = KEYS[1], KEYS[2], 1
  -- a key of another type is not a row of ours
  local found = redis.pcall('HMGET', row, 'status', 'vet_fence')
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
    redis.call('HDEL', row, 'vetted_by', 'vetted_until')
    -- the end of a claim that another process holds; P4: its fence fits no more, also if the row comes back
    local fields, change = {'status', 'READY'}, cjson.decode(ARGV[2])
    for _, name in ipairs(change.clear) do redis.call('HDEL', row, name) end
    for name, value in pairs(change.set) do
      fields[#fields + 1] = name
      fields[#fields + 1] = value
    end
    redis.call('HSET', row, unpack(fields))
    leave(row, string.sub(row, #'podcasts:' + 1))
    return before
  end

  local by = false
  -- what the caller asked of the row comes before 'already': its revision (2), and its guards, which follow the declared ones
  return {false, 'not moved', before, revision, fence, unmet, by}

-- ready by key: move
-- move
-- given_change = ARGV[1]
local sources = {['BUSY'] = true, ['NEW'] = true}
-- looked_at = 'status', 'sending_at', 'ai_error', 'vetted_by', 'vet_fence'
-- seen_fence = false
-- seen_revision = false
-- move_fields = 'status', 'READY'
local ended_markers = {['ai_error'] = 'PROCESSING:AI_DESC:'}
-- fenced_off = found[2] or (found[3] and string.sub(found[3], 1, 19) == 'PROCESSING:AI_DESC:' and found[3]) or found[4] or false
-- ended_columns = 'sending_at', 'vetted_by', 'vetted_until'
-- ended_fences = 'vet_fence', grown(found[5], now)
-- index = 'podcasts/send'
-- row_prefix = 'podcasts:'

-- Takes a row out of the index of a claim, in which it waited, and out of its line; the next in line follows, and is told.
local function leave(row, key)
  redis.call('ZREM', 'podcasts/send', key)
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
  local found = redis.pcall('HMGET', row, 'status', 'sending_at', 'ai_error', 'vetted_by', 'vet_fence')
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
    redis.call('HDEL', row, 'sending_at', 'vetted_by', 'vetted_until')
    for name, prefix in pairs(ended_markers) do
      local text = redis.call('HGET', row, name)
      if text and string.sub(text, 1, #prefix) == prefix then redis.call('HDEL', row, name) end
    end
    redis.call('HSET', row, 'vet_fence', grown(found[5], now))
    local fields, change = {'status', 'READY'}, cjson.decode(ARGV[1])
    for _, name in ipairs(change.clear) do redis.call('HDEL', row, name) end
    for name, value in pairs(change.set) do
      fields[#fields + 1] = name
      fields[#fields + 1] = value
    end
    redis.call('HSET', row, unpack(fields))
    leave(row, string.sub(row, #'podcasts:' + 1))
    return {before, after, found[2] or (found[3] and string.sub(found[3], 1, 19) == 'PROCESSING:AI_DESC:' and found[3]) or found[4] or false}
  end

  local by = false
  -- what the caller asked of the row comes before 'already': its revision (2), and its guards, which follow the declared ones
  return {false, 'not moved', before, revision, fence, unmet, by}

-- ready many by key: move
-- move
local sources = {['BUSY'] = true, ['NEW'] = true}
-- looked_at = 'status', 'sending_at', 'ai_error', 'vetted_by', 'vet_fence'
-- seen_fence = false
-- seen_revision = false
-- move_fields = 'status', 'READY'
-- keys_of_a_row = 1
-- stream_key = nil
-- leases = 0
local ended_markers = {['ai_error'] = 'PROCESSING:AI_DESC:'}
-- fenced_off = found[2] or (found[3] and string.sub(found[3], 1, 19) == 'PROCESSING:AI_DESC:' and found[3]) or found[4] or false
-- ended_columns = 'sending_at', 'vetted_by', 'vetted_until'
-- ended_fences = 'vet_fence', grown(found[5], now)
-- index = 'podcasts/send'
-- row_prefix = 'podcasts:'

-- Takes a row out of the index of a claim, in which it waited, and out of its line; the next in line follows, and is told.
local function leave(row, key)
  redis.call('ZREM', 'podcasts/send', key)
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
  local found = redis.pcall('HMGET', row, 'status', 'sending_at', 'ai_error', 'vetted_by', 'vet_fence')
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
    redis.call('HDEL', row, 'sending_at', 'vetted_by', 'vetted_until')
    for name, prefix in pairs(ended_markers) do
      local text = redis.call('HGET', row, name)
      if text and string.sub(text, 1, #prefix) == prefix then redis.call('HDEL', row, name) end
    end
    redis.call('HSET', row, 'vet_fence', grown(found[5], now))
    redis.call('HSET', row, 'status', 'READY')
    leave(row, string.sub(row, #'podcasts:' + 1))
    return {before, after, found[2] or (found[3] and string.sub(found[3], 1, 19) == 'PROCESSING:AI_DESC:' and found[3]) or found[4] or false}
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

-- claims of a marker: claim.listed
-- claim.listed
-- page = 500
-- lease = 3600.0
-- offset = ARGV[1]
-- token = ARGV[2]
-- index = 'podcasts/describe'
-- row_prefix = 'podcasts:'
-- seen_holder = false
-- seen_attempts = false
-- looked_at = 'status', 'ai_error', 'ai_error'
-- marker_prefix = 'PROCESSING:AI_DESC:'

local time = redis.call('TIME')
local moment = string.format('%s.%06d', time[1], time[2])
local now = tonumber(moment)

-- When the lease of a row is over, by what stands there; nothing if nobody holds it.
local function lease_end(text)
  local whole, part = string.match(text or '', '^PROCESSING:[^:]+:[^:]+:(%d+)(.*)$')
  local well = whole and #whole <= 12 and #part <= 10 and (part == '' or string.find(part, '^%.%d+$'))
  text = well and whole .. part
  local ends = text and tonumber(text)
  return ends and ends + 3600.0
end

-- Whether a lease that ends then is still held. One that ends more than twice its length from now was taken before the clock
-- was set back, and whoever took it may be dead (P13). A longer lease than this caller's ends far ahead too; but its fence is
-- no later than the clock.
local function is_held(ends, fence)
  local ahead = ends and ends > now + 2 * 3600.0
  -- P3: by the store's clock
  return ends and ends > now and not ahead
end

-- P4: no two claims of a row have the same.
local function grown(fence, now)
  -- but where the clock was set back by more than a lease, nobody could hold the row until it is there again
  return 'PROCESSING:AI_DESC:' .. ARGV[2] .. ':' .. moment
end

-- Who holds what, among so many rows of the index: key, until, status, holder, fence, attempts.
local keys = redis.call('ZRANGE', 'podcasts/describe', ARGV[1], ARGV[1] + 500 - 1, 'WITHSCORES')
local found = {#keys / 2}
for i = 1, #keys, 2 do
  local seen = redis.pcall('HMGET', 'podcasts:' .. keys[i], 'status', 'ai_error', 'ai_error')
  if lease_end(seen[2]) then
    local place = #found
    found[place + 1], found[place + 2], found[place + 3] = keys[i], keys[i + 1], seen[1]
    found[place + 4], found[place + 5], found[place + 6] = false, seen[3], false
  end
end
found[#found + 1] = moment
return found
