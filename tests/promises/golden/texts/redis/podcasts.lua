-- claim send: claim.acquire
-- claim.acquire
-- given_now = ARGV[5]
-- limit = ARGV[2]
-- offset = ARGV[4]
-- page = ARGV[3]
-- lease = 300.0
-- row_prefix = 'podcasts:'
-- revision_column = false
-- history = false
-- stream_prefix = 'podcasts/history:'
-- index = 'podcasts/send'
-- seen_attempts = seen[4]
-- looked_at = 'status', 'sending_at', 'sending_at', 'tries'
local open = {['NEW'] = true, ['BUSY'] = true}
-- lease_end = timestamp_end
-- next_fence = timestamp_fence
-- claim_fields = 'sending_at', fence, 'status', 'BUSY', 'tries', attempts
-- attempts_column = 'tries'
-- max_attempts = 5

local function timestamp_end(text)
  local since = tonumber(text or nil)
  return since and since + 300.0
end

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local moment = ARGV[5] or clock()

local now = tonumber(moment)

-- Whether a lease that ends then is still held. One that ends more than twice its length from now was taken before the clock
-- was set back, and whoever took it may be dead (P13). A longer lease than this caller's ends far ahead too; but its fence is
-- no later than the clock.
local function is_held(ends, fence)
  local ahead = ends and ends > now + 2 * 300.0
  -- P3: by the store's clock
  return ends and ends > now and not ahead
end

-- Why a row cannot be claimed, as bits: its status 1, its holder 2, its backoff 4, its attempts 8, then from 32 on the guards.
local function obstacles(row, seen)
  if not seen[1] then return 1 end
  local unmet = open[seen[1]] and 0 or 1
  if is_held(timestamp_end(seen[2]), seen[3]) then unmet = unmet + 2 end
  if (tonumber(seen[4]) or 0) >= 5 then unmet = unmet + 8 end
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

local ends_then = string.format('%.6f', now + 300.0)

local function timestamp_fence(fence)
  local least = (tonumber(fence) or 0) + 0.000001
  -- but where the clock was set back by more than a lease, no process could hold the row until it is there again
  if least > now + 300.0 then least = 0 end
  return string.format('%.6f', math.max(least, now))
end

-- The row's next revision as text, '' without one; nothing if it is not a number.
local function next_revision(seen)
  return ''
end

-- Writes a claim into the row, and returns its fence and how many attempts there were; or false, and why it cannot.
local function hold(row, key, stream, seen)
  local before, fence, revision, attempts = seen[1], timestamp_fence(seen[3]), next_revision(seen), 1
  attempts = one_more(seen[4])
  if not attempts then return false, 'tries' .. ' is not a whole number' end
  if not revision then return false, false .. ' is not a whole number' end
  redis.call('ZADD', 'podcasts/send', ends_then, key)
  redis.call('HSET', row, 'sending_at', fence, 'status', 'BUSY', 'tries', attempts)
  return fence, tonumber(attempts)
end

-- The keys that the index proposes, how many it proposed, and how many of these are of other tenants and stay where they are.
local function proposals()
  local keys = redis.call('ZRANGEBYSCORE', 'podcasts/send', '-inf', moment, 'LIMIT', ARGV[4], ARGV[3])
  local proposed = #keys
  return keys, proposed, proposed - #keys
end

-- P13: rows that wait for longer than any lease either back off, or were held when the clock was set back. Where there is
-- nothing else, a few of them are looked at, from a place that the clock chooses, so that each is reached.
local function far_ahead()
  local later = '(' .. string.format('%.6f', now + 2 * 300.0)
  local number = redis.call('ZCOUNT', 'podcasts/send', later, '+inf')
  local first = math.floor(now * 1000) % math.max(number - 9, 1)
  local keys = redis.call('ZRANGEBYSCORE', 'podcasts/send', later, '+inf', 'LIMIT', first, 10)
  return keys
end

-- The stream of a row that the index proposes.
local function stream_of(key)
  return false and 'podcasts/history:' .. key
end

-- A row that cannot be decided does not block the others: it is reported, and proposed again when a lease is over.
local function pass_over(failed, key, why)
  redis.call('ZADD', 'podcasts/send', ends_then, key)
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
  redis.call('ZREM', 'podcasts/send', key)
end

-- What becomes of a proposed row that cannot be claimed. Returns whether it stays where it is in the index, and who follows it.
local function put_aside(row, key, seen, unmet)
  if unmet % 2 == 1 then return false, leave(row, key) end
  if unmet % 4 >= 2 then
    -- held: it is proposed again when the lease is over
    redis.call('ZADD', 'podcasts/send', string.format('%.6f', timestamp_end(seen[2])), key)
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
    local row = 'podcasts:' .. key
    -- a key of another type is not a row of ours
    local seen = redis.pcall('HMGET', row, 'status', 'sending_at', 'sending_at', 'tries')
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

-- claim send by the store's clock: claim.acquire
-- claim.acquire
-- given_now = false
-- limit = ARGV[2]
-- offset = ARGV[4]
-- page = ARGV[3]
-- lease = 300.0
-- row_prefix = 'podcasts:'
-- revision_column = false
-- history = false
-- stream_prefix = 'podcasts/history:'
-- index = 'podcasts/send'
-- seen_attempts = seen[4]
-- looked_at = 'status', 'sending_at', 'sending_at', 'tries'
local open = {['NEW'] = true, ['BUSY'] = true}
-- lease_end = timestamp_end
-- next_fence = timestamp_fence
-- claim_fields = 'sending_at', fence, 'status', 'BUSY', 'tries', attempts
-- attempts_column = 'tries'
-- max_attempts = 5

local function timestamp_end(text)
  local since = tonumber(text or nil)
  return since and since + 300.0
end

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local moment = false or clock()

local now = tonumber(moment)

-- Whether a lease that ends then is still held. One that ends more than twice its length from now was taken before the clock
-- was set back, and whoever took it may be dead (P13). A longer lease than this caller's ends far ahead too; but its fence is
-- no later than the clock.
local function is_held(ends, fence)
  local ahead = ends and ends > now + 2 * 300.0
  -- P3: by the store's clock
  return ends and ends > now and not ahead
end

-- Why a row cannot be claimed, as bits: its status 1, its holder 2, its backoff 4, its attempts 8, then from 32 on the guards.
local function obstacles(row, seen)
  if not seen[1] then return 1 end
  local unmet = open[seen[1]] and 0 or 1
  if is_held(timestamp_end(seen[2]), seen[3]) then unmet = unmet + 2 end
  if (tonumber(seen[4]) or 0) >= 5 then unmet = unmet + 8 end
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

local ends_then = string.format('%.6f', now + 300.0)

local function timestamp_fence(fence)
  local least = (tonumber(fence) or 0) + 0.000001
  -- but where the clock was set back by more than a lease, no process could hold the row until it is there again
  if least > now + 300.0 then least = 0 end
  return string.format('%.6f', math.max(least, now))
end

-- The row's next revision as text, '' without one; nothing if it is not a number.
local function next_revision(seen)
  return ''
end

-- Writes a claim into the row, and returns its fence and how many attempts there were; or false, and why it cannot.
local function hold(row, key, stream, seen)
  local before, fence, revision, attempts = seen[1], timestamp_fence(seen[3]), next_revision(seen), 1
  attempts = one_more(seen[4])
  if not attempts then return false, 'tries' .. ' is not a whole number' end
  if not revision then return false, false .. ' is not a whole number' end
  redis.call('ZADD', 'podcasts/send', ends_then, key)
  redis.call('HSET', row, 'sending_at', fence, 'status', 'BUSY', 'tries', attempts)
  return fence, tonumber(attempts)
end

-- The keys that the index proposes, how many it proposed, and how many of these are of other tenants and stay where they are.
local function proposals()
  local keys = redis.call('ZRANGEBYSCORE', 'podcasts/send', '-inf', moment, 'LIMIT', ARGV[4], ARGV[3])
  local proposed = #keys
  return keys, proposed, proposed - #keys
end

-- P13: rows that wait for longer than any lease either back off, or were held when the clock was set back. Where there is
-- nothing else, a few of them are looked at, from a place that the clock chooses, so that each is reached.
local function far_ahead()
  local later = '(' .. string.format('%.6f', now + 2 * 300.0)
  local number = redis.call('ZCOUNT', 'podcasts/send', later, '+inf')
  local first = math.floor(now * 1000) % math.max(number - 9, 1)
  local keys = redis.call('ZRANGEBYSCORE', 'podcasts/send', later, '+inf', 'LIMIT', first, 10)
  return keys
end

-- The stream of a row that the index proposes.
local function stream_of(key)
  return false and 'podcasts/history:' .. key
end

-- A row that cannot be decided does not block the others: it is reported, and proposed again when a lease is over.
local function pass_over(failed, key, why)
  redis.call('ZADD', 'podcasts/send', ends_then, key)
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
  redis.call('ZREM', 'podcasts/send', key)
end

-- What becomes of a proposed row that cannot be claimed. Returns whether it stays where it is in the index, and who follows it.
local function put_aside(row, key, seen, unmet)
  if unmet % 2 == 1 then return false, leave(row, key) end
  if unmet % 4 >= 2 then
    -- held: it is proposed again when the lease is over
    redis.call('ZADD', 'podcasts/send', string.format('%.6f', timestamp_end(seen[2])), key)
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
    local row = 'podcasts:' .. key
    -- a key of another type is not a row of ours
    local seen = redis.pcall('HMGET', row, 'status', 'sending_at', 'sending_at', 'tries')
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

-- claim_one send: claim.one
-- claim.one
-- given_now = ARGV[3]
-- lease = 300.0
-- row_prefix = 'podcasts:'
-- revision_column = false
-- stream_key = nil
-- keys_of_a_row = 1
-- index = 'podcasts/send'
-- seen_holder = false
-- seen_attempts = seen[4]
-- looked_at = 'status', 'sending_at', 'sending_at', 'tries'
local open = {['NEW'] = true, ['BUSY'] = true}
-- lease_end = timestamp_end
-- next_fence = timestamp_fence
-- claim_fields = 'sending_at', fence, 'status', 'BUSY', 'tries', attempts
-- attempts_column = 'tries'
-- max_attempts = 5
-- other_keys = 1
-- first_value = 1

local function timestamp_end(text)
  local since = tonumber(text or nil)
  return since and since + 300.0
end

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local moment = ARGV[3] or clock()

local now = tonumber(moment)

-- Whether a lease that ends then is still held. One that ends more than twice its length from now was taken before the clock
-- was set back, and whoever took it may be dead (P13). A longer lease than this caller's ends far ahead too; but its fence is
-- no later than the clock.
local function is_held(ends, fence)
  local ahead = ends and ends > now + 2 * 300.0
  -- P3: by the store's clock
  return ends and ends > now and not ahead
end

-- Why a row cannot be claimed, as bits: its status 1, its holder 2, its backoff 4, its attempts 8, then from 32 on the guards.
local function obstacles(row, seen)
  if not seen[1] then return 1 end
  local unmet = open[seen[1]] and 0 or 1
  if is_held(timestamp_end(seen[2]), seen[3]) then unmet = unmet + 2 end
  if (tonumber(seen[4]) or 0) >= 5 then unmet = unmet + 8 end
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

local ends_then = string.format('%.6f', now + 300.0)

local function timestamp_fence(fence)
  local least = (tonumber(fence) or 0) + 0.000001
  -- but where the clock was set back by more than a lease, no process could hold the row until it is there again
  if least > now + 300.0 then least = 0 end
  return string.format('%.6f', math.max(least, now))
end

-- The row's next revision as text, '' without one; nothing if it is not a number.
local function next_revision(seen)
  return ''
end

-- Writes a claim into the row, and returns its fence and how many attempts there were; or false, and why it cannot.
local function hold(row, key, stream, seen)
  local before, fence, revision, attempts = seen[1], timestamp_fence(seen[3]), next_revision(seen), 1
  attempts = one_more(seen[4])
  if not attempts then return false, 'tries' .. ' is not a whole number' end
  if not revision then return false, false .. ' is not a whole number' end
  redis.call('ZADD', 'podcasts/send', ends_then, key)
  redis.call('HSET', row, 'sending_at', fence, 'status', 'BUSY', 'tries', attempts)
  return fence, tonumber(attempts)
end

-- One row by its key: {'claimed', fence, attempts, before, columns …} or {'taken', before, unmet, holder}, {'missing'}.
local function claim_row(row, stream)
  local key, seen = string.sub(row, #'podcasts:' + 1), redis.pcall('HMGET', row, 'status', 'sending_at', 'sending_at', 'tries')
  if not seen[1] then return {'missing'} end
  local unmet = obstacles(row, seen)
  if unmet > 0 then return {'taken', seen[1], unmet, false} end
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

-- renew send: claim.renew
-- claim.renew
-- given_now = ARGV[2]
-- lease = 300.0
-- row_prefix = 'podcasts:'
-- stream_key = nil
-- keys_of_a_row = 1
-- index = 'podcasts/send'
-- seen_holder = false
-- looked_at = 'status', 'sending_at', 'sending_at', 'tries'
local held = {['BUSY'] = true}
-- next_fence = timestamp_fence
-- renew_fields = 'sending_at', fence
-- other_keys = 1
-- first_value = 1

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local moment = ARGV[2] or clock()

local now = tonumber(moment)

local ends_then = string.format('%.6f', now + 300.0)

local function timestamp_fence(fence)
  local least = (tonumber(fence) or 0) + 0.000001
  -- but where the clock was set back by more than a lease, no process could hold the row until it is there again
  if least > now + 300.0 then least = 0 end
  return string.format('%.6f', math.max(least, now))
end

-- P5: only the current holder; P4: an older fence than the newest is refused.
local function refusal(seen, fence)
  if not seen[1] then return {'missing'} end
  if seen[3] ~= fence or not held[seen[1]] then return {'lost', seen[1], seen[3], false} end
end

local function renew_row(row, stream, fence)
  local seen = redis.pcall('HMGET', row, 'status', 'sending_at', 'sending_at', 'tries')
  local refused = refusal(seen, fence)
  if refused then return refused end
  fence = timestamp_fence(seen[3])
  redis.call('HSET', row, 'sending_at', fence)
  redis.call('ZADD', 'podcasts/send', ends_then, string.sub(row, #'podcasts:' + 1))
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

-- fail send: claim.give_back
-- claim.give_back
-- given_now = ARGV[2]
-- row_prefix = 'podcasts:'
-- stream_key = nil
-- keys_of_a_row = 1
-- index = 'podcasts/send'
-- seen_holder = false
-- seen_attempts = seen[4]
-- seen_revision = false
-- looked_at = 'status', 'sending_at', 'sending_at', 'tries'
local held = {['BUSY'] = true}
-- back_fields = 'status', 'NEW'
-- cleared = 'sending_at'
-- attempts_column = 'tries'
-- other_keys = 1
-- first_value = 1

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local moment = ARGV[2] or clock()

-- P5: only the current holder; P4: an older fence than the newest is refused.
local function refusal(seen, fence)
  if not seen[1] then return {'missing'} end
  if seen[3] ~= fence or not held[seen[1]] then return {'lost', seen[1], seen[3], false} end
end

-- Gives the row back: with a delay it backs off, without one its attempt does not count.
local function give_back_row(row, stream, fence, delay, holder)
  local seen = redis.pcall('HMGET', row, 'status', 'sending_at', 'sending_at', 'tries')
  local refused = refusal(seen, fence)
  if refused then return refused end
  local before, ready, revision = seen[1], moment, false or ''
  redis.call('HDEL', row, 'sending_at')
  if delay == '' and (tonumber(seen[4]) or 0) > 0 then redis.pcall('HINCRBY', row, 'tries', -1) end
  redis.call('HSET', row, 'status', 'NEW')
  redis.call('ZADD', 'podcasts/send', ready, string.sub(row, #'podcasts:' + 1))
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

-- release send: claim.give_back
-- claim.give_back
-- given_now = false
-- row_prefix = 'podcasts:'
-- stream_key = nil
-- keys_of_a_row = 1
-- index = 'podcasts/send'
-- seen_holder = false
-- seen_attempts = seen[4]
-- seen_revision = false
-- looked_at = 'status', 'sending_at', 'sending_at', 'tries'
local held = {['BUSY'] = true}
-- back_fields = 'status', 'NEW'
-- cleared = 'sending_at'
-- attempts_column = 'tries'
-- other_keys = 1
-- first_value = 0

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local moment = false or clock()

-- P5: only the current holder; P4: an older fence than the newest is refused.
local function refusal(seen, fence)
  if not seen[1] then return {'missing'} end
  if seen[3] ~= fence or not held[seen[1]] then return {'lost', seen[1], seen[3], false} end
end

-- Gives the row back: with a delay it backs off, without one its attempt does not count.
local function give_back_row(row, stream, fence, delay, holder)
  local seen = redis.pcall('HMGET', row, 'status', 'sending_at', 'sending_at', 'tries')
  local refused = refusal(seen, fence)
  if refused then return refused end
  local before, ready, revision = seen[1], moment, false or ''
  redis.call('HDEL', row, 'sending_at')
  if delay == '' and (tonumber(seen[4]) or 0) > 0 then redis.pcall('HINCRBY', row, 'tries', -1) end
  redis.call('HSET', row, 'status', 'NEW')
  redis.call('ZADD', 'podcasts/send', ready, string.sub(row, #'podcasts:' + 1))
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

-- ready, held by send: move
-- move
-- given_fence = ARGV[1]
-- given_change = ARGV[2]
-- row_prefix = 'podcasts:'
-- index = 'podcasts/send'
local sources = {['BUSY'] = true, ['NEW'] = true}
-- looked_at = 'status', 'sending_at'
-- seen_fence = found[2]
-- seen_revision = false
-- move_fields = 'status', 'READY'
-- cleared = 'sending_at'

-- Takes a row out of the index in which it waited, and out of its line.
local function leave(row, key)
  redis.call('ZREM', 'podcasts/send', key)
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
  local fields, change = {'status', 'READY'}, cjson.decode(ARGV[2])
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
  local found = redis.pcall('HMGET', row, 'status', 'sending_at')
  local before = found[1]
  if found.err or not before then return {} end
  -- numbers stay texts, because Lua's lose digits beyond 2^53
  local revision, fence, unmet = false, found[2], 0
  unmet = unmet_by(row, fence, revision, i)
  -- P1: the row leaves only a status from which this move is declared
  if unmet > 0 or not sources[before] then return not_moved(stream, i, before, revision, fence, unmet) end

  -- what can fail comes first, for a script that fails half-way is not undone: the history, and then the whole row at once
  local after, counted = false, false
  redis.call('HDEL', row, 'sending_at')
  write(row, i, after)
  leave(row, string.sub(row, #'podcasts:' + 1))
  return after and {before, after} or before
end

local function move_one()
  return decide(KEYS[1], KEYS[2], 1)
end

return move_one()

-- claim describe: claim.acquire
-- claim.acquire
-- given_now = ARGV[5]
-- limit = ARGV[2]
-- offset = ARGV[4]
-- token = ARGV[6]
-- page = ARGV[3]
-- lease = 3600.0
-- row_prefix = 'podcasts:'
-- revision_column = false
-- history = false
-- stream_prefix = 'podcasts/history:'
-- index = 'podcasts/describe'
-- looked_at = 'status', 'ai_error', 'ai_error'
local open = {['NEW'] = true, ['BUSY'] = true}
-- lease_end = marker_end
-- next_fence = marker_fence
-- marker_prefix = 'PROCESSING:AI_DESC:'
-- claim_fields = 'ai_error', fence, 'status', 'BUSY'
-- attempts_column = false

local function marker_end(text)
  local whole, part = string.match(text or '', '^PROCESSING:[^:]+:[^:]+:(%d+)(.*)$')
  local well_formed = whole and #whole <= 12 and #part <= 10 and (part == '' or string.find(part, '^%.%d+$'))
  return well_formed and tonumber(whole .. part) + 3600.0
end

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local moment = ARGV[5] or clock()

local now = tonumber(moment)

-- Whether a lease that ends then is still held. One that ends more than twice its length from now was taken before the clock
-- was set back, and whoever took it may be dead (P13). A longer lease than this caller's ends far ahead too; but its fence is
-- no later than the clock.
local function is_held(ends, fence)
  local ahead = ends and ends > now + 2 * 3600.0
  -- P3: by the store's clock
  return ends and ends > now and not ahead
end

-- Why a row cannot be claimed, as bits: its status 1, its holder 2, its backoff 4, its attempts 8, then from 32 on the guards.
local function obstacles(row, seen)
  if not seen[1] then return 1 end
  local unmet = open[seen[1]] and 0 or 1
  if is_held(marker_end(seen[2]), seen[3]) then unmet = unmet + 2 end
  return unmet
end

local ends_then = string.format('%.6f', now + 3600.0)

local function marker_fence()
  return 'PROCESSING:AI_DESC:' .. ARGV[6] .. ':' .. moment
end

-- The row's next revision as text, '' without one; nothing if it is not a number.
local function next_revision(seen)
  return ''
end

-- Writes a claim into the row, and returns its fence and how many attempts there were; or false, and why it cannot.
local function hold(row, key, stream, seen)
  local before, fence, revision, attempts = seen[1], marker_fence(seen[3]), next_revision(seen), 1
  if not attempts then return false, false .. ' is not a whole number' end
  if not revision then return false, false .. ' is not a whole number' end
  redis.call('ZADD', 'podcasts/describe', ends_then, key)
  redis.call('HSET', row, 'ai_error', fence, 'status', 'BUSY')
  return fence, tonumber(attempts)
end

-- The keys that the index proposes, how many it proposed, and how many of these are of other tenants and stay where they are.
local function proposals()
  local keys = redis.call('ZRANGEBYSCORE', 'podcasts/describe', '-inf', moment, 'LIMIT', ARGV[4], ARGV[3])
  local proposed = #keys
  return keys, proposed, proposed - #keys
end

-- P13: rows that wait for longer than any lease either back off, or were held when the clock was set back. Where there is
-- nothing else, a few of them are looked at, from a place that the clock chooses, so that each is reached.
local function far_ahead()
  local later = '(' .. string.format('%.6f', now + 2 * 3600.0)
  local number = redis.call('ZCOUNT', 'podcasts/describe', later, '+inf')
  local first = math.floor(now * 1000) % math.max(number - 9, 1)
  local keys = redis.call('ZRANGEBYSCORE', 'podcasts/describe', later, '+inf', 'LIMIT', first, 10)
  return keys
end

-- The stream of a row that the index proposes.
local function stream_of(key)
  return false and 'podcasts/history:' .. key
end

-- A row that cannot be decided does not block the others: it is reported, and proposed again when a lease is over.
local function pass_over(failed, key, why)
  redis.call('ZADD', 'podcasts/describe', ends_then, key)
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
  redis.call('ZREM', 'podcasts/describe', key)
end

-- What becomes of a proposed row that cannot be claimed. Returns whether it stays where it is in the index, and who follows it.
local function put_aside(row, key, seen, unmet)
  if unmet % 2 == 1 then return false, leave(row, key) end
  if unmet % 4 >= 2 then
    -- held: it is proposed again when the lease is over
    redis.call('ZADD', 'podcasts/describe', string.format('%.6f', marker_end(seen[2])), key)
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
    local row = 'podcasts:' .. key
    -- a key of another type is not a row of ours
    local seen = redis.pcall('HMGET', row, 'status', 'ai_error', 'ai_error')
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

-- claim describe by the store's clock: claim.acquire
-- claim.acquire
-- given_now = false
-- limit = ARGV[2]
-- offset = ARGV[4]
-- token = ARGV[5]
-- page = ARGV[3]
-- lease = 3600.0
-- row_prefix = 'podcasts:'
-- revision_column = false
-- history = false
-- stream_prefix = 'podcasts/history:'
-- index = 'podcasts/describe'
-- looked_at = 'status', 'ai_error', 'ai_error'
local open = {['NEW'] = true, ['BUSY'] = true}
-- lease_end = marker_end
-- next_fence = marker_fence
-- marker_prefix = 'PROCESSING:AI_DESC:'
-- claim_fields = 'ai_error', fence, 'status', 'BUSY'
-- attempts_column = false

local function marker_end(text)
  local whole, part = string.match(text or '', '^PROCESSING:[^:]+:[^:]+:(%d+)(.*)$')
  local well_formed = whole and #whole <= 12 and #part <= 10 and (part == '' or string.find(part, '^%.%d+$'))
  return well_formed and tonumber(whole .. part) + 3600.0
end

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local moment = false or clock()

local now = tonumber(moment)

-- Whether a lease that ends then is still held. One that ends more than twice its length from now was taken before the clock
-- was set back, and whoever took it may be dead (P13). A longer lease than this caller's ends far ahead too; but its fence is
-- no later than the clock.
local function is_held(ends, fence)
  local ahead = ends and ends > now + 2 * 3600.0
  -- P3: by the store's clock
  return ends and ends > now and not ahead
end

-- Why a row cannot be claimed, as bits: its status 1, its holder 2, its backoff 4, its attempts 8, then from 32 on the guards.
local function obstacles(row, seen)
  if not seen[1] then return 1 end
  local unmet = open[seen[1]] and 0 or 1
  if is_held(marker_end(seen[2]), seen[3]) then unmet = unmet + 2 end
  return unmet
end

local ends_then = string.format('%.6f', now + 3600.0)

local function marker_fence()
  return 'PROCESSING:AI_DESC:' .. ARGV[5] .. ':' .. moment
end

-- The row's next revision as text, '' without one; nothing if it is not a number.
local function next_revision(seen)
  return ''
end

-- Writes a claim into the row, and returns its fence and how many attempts there were; or false, and why it cannot.
local function hold(row, key, stream, seen)
  local before, fence, revision, attempts = seen[1], marker_fence(seen[3]), next_revision(seen), 1
  if not attempts then return false, false .. ' is not a whole number' end
  if not revision then return false, false .. ' is not a whole number' end
  redis.call('ZADD', 'podcasts/describe', ends_then, key)
  redis.call('HSET', row, 'ai_error', fence, 'status', 'BUSY')
  return fence, tonumber(attempts)
end

-- The keys that the index proposes, how many it proposed, and how many of these are of other tenants and stay where they are.
local function proposals()
  local keys = redis.call('ZRANGEBYSCORE', 'podcasts/describe', '-inf', moment, 'LIMIT', ARGV[4], ARGV[3])
  local proposed = #keys
  return keys, proposed, proposed - #keys
end

-- P13: rows that wait for longer than any lease either back off, or were held when the clock was set back. Where there is
-- nothing else, a few of them are looked at, from a place that the clock chooses, so that each is reached.
local function far_ahead()
  local later = '(' .. string.format('%.6f', now + 2 * 3600.0)
  local number = redis.call('ZCOUNT', 'podcasts/describe', later, '+inf')
  local first = math.floor(now * 1000) % math.max(number - 9, 1)
  local keys = redis.call('ZRANGEBYSCORE', 'podcasts/describe', later, '+inf', 'LIMIT', first, 10)
  return keys
end

-- The stream of a row that the index proposes.
local function stream_of(key)
  return false and 'podcasts/history:' .. key
end

-- A row that cannot be decided does not block the others: it is reported, and proposed again when a lease is over.
local function pass_over(failed, key, why)
  redis.call('ZADD', 'podcasts/describe', ends_then, key)
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
  redis.call('ZREM', 'podcasts/describe', key)
end

-- What becomes of a proposed row that cannot be claimed. Returns whether it stays where it is in the index, and who follows it.
local function put_aside(row, key, seen, unmet)
  if unmet % 2 == 1 then return false, leave(row, key) end
  if unmet % 4 >= 2 then
    -- held: it is proposed again when the lease is over
    redis.call('ZADD', 'podcasts/describe', string.format('%.6f', marker_end(seen[2])), key)
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
    local row = 'podcasts:' .. key
    -- a key of another type is not a row of ours
    local seen = redis.pcall('HMGET', row, 'status', 'ai_error', 'ai_error')
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

-- claim_one describe: claim.one
-- claim.one
-- given_now = ARGV[3]
-- token = ARGV[4]
-- lease = 3600.0
-- row_prefix = 'podcasts:'
-- revision_column = false
-- stream_key = nil
-- keys_of_a_row = 1
-- index = 'podcasts/describe'
-- seen_holder = false
-- looked_at = 'status', 'ai_error', 'ai_error'
local open = {['NEW'] = true, ['BUSY'] = true}
-- lease_end = marker_end
-- next_fence = marker_fence
-- marker_prefix = 'PROCESSING:AI_DESC:'
-- claim_fields = 'ai_error', fence, 'status', 'BUSY'
-- attempts_column = false
-- other_keys = 1
-- first_value = 2

local function marker_end(text)
  local whole, part = string.match(text or '', '^PROCESSING:[^:]+:[^:]+:(%d+)(.*)$')
  local well_formed = whole and #whole <= 12 and #part <= 10 and (part == '' or string.find(part, '^%.%d+$'))
  return well_formed and tonumber(whole .. part) + 3600.0
end

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local moment = ARGV[3] or clock()

local now = tonumber(moment)

-- Whether a lease that ends then is still held. One that ends more than twice its length from now was taken before the clock
-- was set back, and whoever took it may be dead (P13). A longer lease than this caller's ends far ahead too; but its fence is
-- no later than the clock.
local function is_held(ends, fence)
  local ahead = ends and ends > now + 2 * 3600.0
  -- P3: by the store's clock
  return ends and ends > now and not ahead
end

-- Why a row cannot be claimed, as bits: its status 1, its holder 2, its backoff 4, its attempts 8, then from 32 on the guards.
local function obstacles(row, seen)
  if not seen[1] then return 1 end
  local unmet = open[seen[1]] and 0 or 1
  if is_held(marker_end(seen[2]), seen[3]) then unmet = unmet + 2 end
  return unmet
end

local ends_then = string.format('%.6f', now + 3600.0)

local function marker_fence()
  return 'PROCESSING:AI_DESC:' .. ARGV[4] .. ':' .. moment
end

-- The row's next revision as text, '' without one; nothing if it is not a number.
local function next_revision(seen)
  return ''
end

-- Writes a claim into the row, and returns its fence and how many attempts there were; or false, and why it cannot.
local function hold(row, key, stream, seen)
  local before, fence, revision, attempts = seen[1], marker_fence(seen[3]), next_revision(seen), 1
  if not attempts then return false, false .. ' is not a whole number' end
  if not revision then return false, false .. ' is not a whole number' end
  redis.call('ZADD', 'podcasts/describe', ends_then, key)
  redis.call('HSET', row, 'ai_error', fence, 'status', 'BUSY')
  return fence, tonumber(attempts)
end

-- One row by its key: {'claimed', fence, attempts, before, columns …} or {'taken', before, unmet, holder}, {'missing'}.
local function claim_row(row, stream)
  local key, seen = string.sub(row, #'podcasts:' + 1), redis.pcall('HMGET', row, 'status', 'ai_error', 'ai_error')
  if not seen[1] then return {'missing'} end
  local unmet = obstacles(row, seen)
  if unmet > 0 then return {'taken', seen[1], unmet, false} end
  local fence, attempts = hold(row, key, stream, seen)
  if not fence then return {'error', attempts} end
  return {'claimed', fence, attempts, seen[1]}
end

-- The answers of a decision about each row that the caller names.
local function each_row(decide)
  local answers, rows = {}, (#KEYS - 1) / 1
  for i = 1, rows do
    local place = 2 + i * 3
    answers[i] = decide(KEYS[i], nil, ARGV[place], ARGV[place + 1], ARGV[place + 2], rows - i)
  end
  return answers
end

local function one()
  return each_row(claim_row)
end

return one()

-- renew describe: claim.renew
-- claim.renew
-- given_now = ARGV[2]
-- token = ARGV[3]
-- lease = 3600.0
-- row_prefix = 'podcasts:'
-- stream_key = nil
-- keys_of_a_row = 1
-- index = 'podcasts/describe'
-- seen_holder = false
-- looked_at = 'status', 'ai_error', 'ai_error'
local held = {['BUSY'] = true}
-- next_fence = marker_fence
-- marker_prefix = 'PROCESSING:AI_DESC:'
-- renew_fields = 'ai_error', fence
-- other_keys = 1
-- first_value = 1

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local moment = ARGV[2] or clock()

local now = tonumber(moment)

local ends_then = string.format('%.6f', now + 3600.0)

local function marker_fence()
  return 'PROCESSING:AI_DESC:' .. ARGV[3] .. ':' .. moment
end

-- P5: only the current holder; P4: an older fence than the newest is refused.
local function refusal(seen, fence)
  if not seen[1] then return {'missing'} end
  if seen[3] ~= fence or not held[seen[1]] then return {'lost', seen[1], seen[3], false} end
end

local function renew_row(row, stream, fence)
  local seen = redis.pcall('HMGET', row, 'status', 'ai_error', 'ai_error')
  local refused = refusal(seen, fence)
  if refused then return refused end
  fence = marker_fence(seen[3])
  redis.call('HSET', row, 'ai_error', fence)
  redis.call('ZADD', 'podcasts/describe', ends_then, string.sub(row, #'podcasts:' + 1))
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

-- fail describe: claim.give_back
-- claim.give_back
-- given_now = ARGV[2]
-- row_prefix = 'podcasts:'
-- stream_key = nil
-- keys_of_a_row = 1
-- index = 'podcasts/describe'
-- seen_holder = false
-- seen_revision = false
-- looked_at = 'status', 'ai_error', 'ai_error'
local held = {['BUSY'] = true}
-- back_fields = 'status', 'NEW'
-- cleared = 'ai_error'
-- other_keys = 1
-- first_value = 1

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local moment = ARGV[2] or clock()

-- P5: only the current holder; P4: an older fence than the newest is refused.
local function refusal(seen, fence)
  if not seen[1] then return {'missing'} end
  if seen[3] ~= fence or not held[seen[1]] then return {'lost', seen[1], seen[3], false} end
end

-- Gives the row back: with a delay it backs off, without one its attempt does not count.
local function give_back_row(row, stream, fence, delay, holder)
  local seen = redis.pcall('HMGET', row, 'status', 'ai_error', 'ai_error')
  local refused = refusal(seen, fence)
  if refused then return refused end
  local before, ready, revision = seen[1], moment, false or ''
  redis.call('HDEL', row, 'ai_error')
  redis.call('HSET', row, 'status', 'NEW')
  redis.call('ZADD', 'podcasts/describe', ready, string.sub(row, #'podcasts:' + 1))
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

-- release describe: claim.give_back
-- claim.give_back
-- given_now = false
-- row_prefix = 'podcasts:'
-- stream_key = nil
-- keys_of_a_row = 1
-- index = 'podcasts/describe'
-- seen_holder = false
-- seen_revision = false
-- looked_at = 'status', 'ai_error', 'ai_error'
local held = {['BUSY'] = true}
-- back_fields = 'status', 'NEW'
-- cleared = 'ai_error'
-- other_keys = 1
-- first_value = 0

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local moment = false or clock()

-- P5: only the current holder; P4: an older fence than the newest is refused.
local function refusal(seen, fence)
  if not seen[1] then return {'missing'} end
  if seen[3] ~= fence or not held[seen[1]] then return {'lost', seen[1], seen[3], false} end
end

-- Gives the row back: with a delay it backs off, without one its attempt does not count.
local function give_back_row(row, stream, fence, delay, holder)
  local seen = redis.pcall('HMGET', row, 'status', 'ai_error', 'ai_error')
  local refused = refusal(seen, fence)
  if refused then return refused end
  local before, ready, revision = seen[1], moment, false or ''
  redis.call('HDEL', row, 'ai_error')
  redis.call('HSET', row, 'status', 'NEW')
  redis.call('ZADD', 'podcasts/describe', ready, string.sub(row, #'podcasts:' + 1))
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

-- ready, held by describe: move
-- move
-- given_fence = ARGV[1]
-- given_change = ARGV[2]
-- row_prefix = 'podcasts:'
-- index = 'podcasts/describe'
local sources = {['BUSY'] = true, ['NEW'] = true}
-- looked_at = 'status', 'ai_error'
-- seen_fence = found[2]
-- seen_revision = false
-- move_fields = 'status', 'READY'
-- cleared = 'ai_error'

-- Takes a row out of the index in which it waited, and out of its line.
local function leave(row, key)
  redis.call('ZREM', 'podcasts/describe', key)
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
  local fields, change = {'status', 'READY'}, cjson.decode(ARGV[2])
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
  local found = redis.pcall('HMGET', row, 'status', 'ai_error')
  local before = found[1]
  if found.err or not before then return {} end
  -- numbers stay texts, because Lua's lose digits beyond 2^53
  local revision, fence, unmet = false, found[2], 0
  unmet = unmet_by(row, fence, revision, i)
  -- P1: the row leaves only a status from which this move is declared
  if unmet > 0 or not sources[before] then return not_moved(stream, i, before, revision, fence, unmet) end

  -- what can fail comes first, for a script that fails half-way is not undone: the history, and then the whole row at once
  local after, counted = false, false
  redis.call('HDEL', row, 'ai_error')
  write(row, i, after)
  leave(row, string.sub(row, #'podcasts:' + 1))
  return after and {before, after} or before
end

local function move_one()
  return decide(KEYS[1], KEYS[2], 1)
end

return move_one()

-- claim vet: claim.acquire
-- claim.acquire
-- given_now = ARGV[5]
-- limit = ARGV[2]
-- offset = ARGV[4]
-- page = ARGV[3]
-- lease = 60.0
-- row_prefix = 'podcasts:'
-- revision_column = false
-- history = false
-- stream_prefix = 'podcasts/history:'
-- index = 'podcasts/vet'
-- looked_at = 'status', 'vetted_until', 'vet_fence'
local open = {['NEW'] = true}
-- lease_end = columns_end
-- next_fence = columns_fence
-- claim_fields = 'vetted_by', ARGV[1], 'vet_fence', fence, 'vetted_until', ends_then
-- attempts_column = false

-- When the lease of a row ends, by what stands there; nothing if it has no holder. For each form of a claim.
local function columns_end(text)
  return tonumber(text or nil)
end

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local moment = ARGV[5] or clock()

local now = tonumber(moment)

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
  return unmet
end

local ends_then = string.format('%.6f', now + 60.0)

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

-- The row's next revision as text, '' without one; nothing if it is not a number.
local function next_revision(seen)
  return ''
end

-- Writes a claim into the row, and returns its fence and how many attempts there were; or false, and why it cannot.
local function hold(row, key, stream, seen)
  local before, fence, revision, attempts = seen[1], columns_fence(seen[3]), next_revision(seen), 1
  if not attempts then return false, false .. ' is not a whole number' end
  if not revision then return false, false .. ' is not a whole number' end
  redis.call('ZADD', 'podcasts/vet', ends_then, key)
  redis.call('HSET', row, 'vetted_by', ARGV[1], 'vet_fence', fence, 'vetted_until', ends_then)
  return fence, tonumber(attempts)
end

-- The keys that the index proposes, how many it proposed, and how many of these are of other tenants and stay where they are.
local function proposals()
  local keys = redis.call('ZRANGEBYSCORE', 'podcasts/vet', '-inf', moment, 'LIMIT', ARGV[4], ARGV[3])
  local proposed = #keys
  return keys, proposed, proposed - #keys
end

-- P13: rows that wait for longer than any lease either back off, or were held when the clock was set back. Where there is
-- nothing else, a few of them are looked at, from a place that the clock chooses, so that each is reached.
local function far_ahead()
  local later = '(' .. string.format('%.6f', now + 2 * 60.0)
  local number = redis.call('ZCOUNT', 'podcasts/vet', later, '+inf')
  local first = math.floor(now * 1000) % math.max(number - 9, 1)
  local keys = redis.call('ZRANGEBYSCORE', 'podcasts/vet', later, '+inf', 'LIMIT', first, 10)
  return keys
end

-- The stream of a row that the index proposes.
local function stream_of(key)
  return false and 'podcasts/history:' .. key
end

-- A row that cannot be decided does not block the others: it is reported, and proposed again when a lease is over.
local function pass_over(failed, key, why)
  redis.call('ZADD', 'podcasts/vet', ends_then, key)
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
  redis.call('ZREM', 'podcasts/vet', key)
end

-- What becomes of a proposed row that cannot be claimed. Returns whether it stays where it is in the index, and who follows it.
local function put_aside(row, key, seen, unmet)
  if unmet % 2 == 1 then return false, leave(row, key) end
  if unmet % 4 >= 2 then
    -- held: it is proposed again when the lease is over
    redis.call('ZADD', 'podcasts/vet', string.format('%.6f', columns_end(seen[2])), key)
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
    local row = 'podcasts:' .. key
    -- a key of another type is not a row of ours
    local seen = redis.pcall('HMGET', row, 'status', 'vetted_until', 'vet_fence')
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

-- claim vet by the store's clock: claim.acquire
-- claim.acquire
-- given_now = false
-- limit = ARGV[2]
-- offset = ARGV[4]
-- page = ARGV[3]
-- lease = 60.0
-- row_prefix = 'podcasts:'
-- revision_column = false
-- history = false
-- stream_prefix = 'podcasts/history:'
-- index = 'podcasts/vet'
-- looked_at = 'status', 'vetted_until', 'vet_fence'
local open = {['NEW'] = true}
-- lease_end = columns_end
-- next_fence = columns_fence
-- claim_fields = 'vetted_by', ARGV[1], 'vet_fence', fence, 'vetted_until', ends_then
-- attempts_column = false

-- When the lease of a row ends, by what stands there; nothing if it has no holder. For each form of a claim.
local function columns_end(text)
  return tonumber(text or nil)
end

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local moment = false or clock()

local now = tonumber(moment)

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
  return unmet
end

local ends_then = string.format('%.6f', now + 60.0)

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

-- The row's next revision as text, '' without one; nothing if it is not a number.
local function next_revision(seen)
  return ''
end

-- Writes a claim into the row, and returns its fence and how many attempts there were; or false, and why it cannot.
local function hold(row, key, stream, seen)
  local before, fence, revision, attempts = seen[1], columns_fence(seen[3]), next_revision(seen), 1
  if not attempts then return false, false .. ' is not a whole number' end
  if not revision then return false, false .. ' is not a whole number' end
  redis.call('ZADD', 'podcasts/vet', ends_then, key)
  redis.call('HSET', row, 'vetted_by', ARGV[1], 'vet_fence', fence, 'vetted_until', ends_then)
  return fence, tonumber(attempts)
end

-- The keys that the index proposes, how many it proposed, and how many of these are of other tenants and stay where they are.
local function proposals()
  local keys = redis.call('ZRANGEBYSCORE', 'podcasts/vet', '-inf', moment, 'LIMIT', ARGV[4], ARGV[3])
  local proposed = #keys
  return keys, proposed, proposed - #keys
end

-- P13: rows that wait for longer than any lease either back off, or were held when the clock was set back. Where there is
-- nothing else, a few of them are looked at, from a place that the clock chooses, so that each is reached.
local function far_ahead()
  local later = '(' .. string.format('%.6f', now + 2 * 60.0)
  local number = redis.call('ZCOUNT', 'podcasts/vet', later, '+inf')
  local first = math.floor(now * 1000) % math.max(number - 9, 1)
  local keys = redis.call('ZRANGEBYSCORE', 'podcasts/vet', later, '+inf', 'LIMIT', first, 10)
  return keys
end

-- The stream of a row that the index proposes.
local function stream_of(key)
  return false and 'podcasts/history:' .. key
end

-- A row that cannot be decided does not block the others: it is reported, and proposed again when a lease is over.
local function pass_over(failed, key, why)
  redis.call('ZADD', 'podcasts/vet', ends_then, key)
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
  redis.call('ZREM', 'podcasts/vet', key)
end

-- What becomes of a proposed row that cannot be claimed. Returns whether it stays where it is in the index, and who follows it.
local function put_aside(row, key, seen, unmet)
  if unmet % 2 == 1 then return false, leave(row, key) end
  if unmet % 4 >= 2 then
    -- held: it is proposed again when the lease is over
    redis.call('ZADD', 'podcasts/vet', string.format('%.6f', columns_end(seen[2])), key)
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
    local row = 'podcasts:' .. key
    -- a key of another type is not a row of ours
    local seen = redis.pcall('HMGET', row, 'status', 'vetted_until', 'vet_fence')
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

-- claim_one vet: claim.one
-- claim.one
-- given_now = ARGV[3]
-- lease = 60.0
-- row_prefix = 'podcasts:'
-- revision_column = false
-- stream_key = nil
-- keys_of_a_row = 1
-- index = 'podcasts/vet'
-- seen_holder = seen[4]
-- looked_at = 'status', 'vetted_until', 'vet_fence', 'vetted_by'
local open = {['NEW'] = true}
-- lease_end = columns_end
-- next_fence = columns_fence
-- claim_fields = 'vetted_by', ARGV[1], 'vet_fence', fence, 'vetted_until', ends_then
-- attempts_column = false
-- other_keys = 1
-- first_value = 1

-- When the lease of a row ends, by what stands there; nothing if it has no holder. For each form of a claim.
local function columns_end(text)
  return tonumber(text or nil)
end

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local moment = ARGV[3] or clock()

local now = tonumber(moment)

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
  return unmet
end

local ends_then = string.format('%.6f', now + 60.0)

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

-- The row's next revision as text, '' without one; nothing if it is not a number.
local function next_revision(seen)
  return ''
end

-- Writes a claim into the row, and returns its fence and how many attempts there were; or false, and why it cannot.
local function hold(row, key, stream, seen)
  local before, fence, revision, attempts = seen[1], columns_fence(seen[3]), next_revision(seen), 1
  if not attempts then return false, false .. ' is not a whole number' end
  if not revision then return false, false .. ' is not a whole number' end
  redis.call('ZADD', 'podcasts/vet', ends_then, key)
  redis.call('HSET', row, 'vetted_by', ARGV[1], 'vet_fence', fence, 'vetted_until', ends_then)
  return fence, tonumber(attempts)
end

-- One row by its key: {'claimed', fence, attempts, before, columns …} or {'taken', before, unmet, holder}, {'missing'}.
local function claim_row(row, stream)
  local key, seen = string.sub(row, #'podcasts:' + 1), redis.pcall('HMGET', row, 'status', 'vetted_until', 'vet_fence', 'vetted_by')
  if not seen[1] then return {'missing'} end
  local unmet = obstacles(row, seen)
  if unmet > 0 then return {'taken', seen[1], unmet, seen[4]} end
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

-- renew vet: claim.renew
-- claim.renew
-- given_now = ARGV[2]
-- lease = 60.0
-- row_prefix = 'podcasts:'
-- stream_key = nil
-- keys_of_a_row = 1
-- index = 'podcasts/vet'
-- seen_holder = seen[4]
-- looked_at = 'status', 'vetted_until', 'vet_fence', 'vetted_by'
local held = {['NEW'] = true}
-- renew_fields = 'vetted_until', ends_then
-- other_keys = 1
-- first_value = 1

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local moment = ARGV[2] or clock()

local now = tonumber(moment)

local ends_then = string.format('%.6f', now + 60.0)

-- P5: only the current holder; P4: an older fence than the newest is refused.
local function refusal(seen, fence)
  if not seen[1] then return {'missing'} end
  if seen[3] ~= fence or not held[seen[1]] then return {'lost', seen[1], seen[3], seen[4]} end
end

local function renew_row(row, stream, fence)
  local seen = redis.pcall('HMGET', row, 'status', 'vetted_until', 'vet_fence', 'vetted_by')
  local refused = refusal(seen, fence)
  if refused then return refused end
  redis.call('HSET', row, 'vetted_until', ends_then)
  redis.call('ZADD', 'podcasts/vet', ends_then, string.sub(row, #'podcasts:' + 1))
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

-- fail vet: claim.give_back
-- claim.give_back
-- given_now = ARGV[2]
-- row_prefix = 'podcasts:'
-- stream_key = nil
-- keys_of_a_row = 1
-- index = 'podcasts/vet'
-- seen_holder = seen[4]
-- seen_revision = false
-- looked_at = 'status', 'vetted_until', 'vet_fence', 'vetted_by'
local held = {['NEW'] = true}
-- next_fence = columns_fence
-- back_fields = 'vet_fence', fence
-- cleared = 'vetted_by', 'vetted_until'
-- other_keys = 1
-- first_value = 1

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local moment = ARGV[2] or clock()

-- The whole number after this one, 1 if there is none, and nothing if it is not a whole number. Lua's own numbers lose
-- digits beyond 2^53: a longer one stays text.
local function one_more(text)
  if not text then return 1 end
  if #text < 16 and string.find(text, '^%-?%d+$') then return text + 1 end
  local head, digit, nines = string.match('0' .. text, '^(%d-)([0-8])(9*)$')
  return head and string.gsub(head .. digit + 1 .. string.rep('0', #nines), '^0+', '') or nil
end

local now = tonumber(moment)

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
  if seen[3] ~= fence or not held[seen[1]] then return {'lost', seen[1], seen[3], seen[4]} end
end

-- Gives the row back: with a delay it backs off, without one its attempt does not count.
local function give_back_row(row, stream, fence, delay, holder)
  local seen = redis.pcall('HMGET', row, 'status', 'vetted_until', 'vet_fence', 'vetted_by')
  local refused = refusal(seen, fence)
  if refused then return refused end
  local before, ready, revision = seen[1], moment, false or ''
  redis.call('HDEL', row, 'vetted_by', 'vetted_until')
  fence = columns_fence(seen[3])
  redis.call('HSET', row, 'vet_fence', fence)
  redis.call('ZADD', 'podcasts/vet', ready, string.sub(row, #'podcasts:' + 1))
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

-- release vet: claim.give_back
-- claim.give_back
-- given_now = false
-- row_prefix = 'podcasts:'
-- stream_key = nil
-- keys_of_a_row = 1
-- index = 'podcasts/vet'
-- seen_holder = seen[4]
-- seen_revision = false
-- looked_at = 'status', 'vetted_until', 'vet_fence', 'vetted_by'
local held = {['NEW'] = true}
-- next_fence = columns_fence
-- back_fields = 'vet_fence', fence
-- cleared = 'vetted_by', 'vetted_until'
-- other_keys = 1
-- first_value = 0

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local moment = false or clock()

-- The whole number after this one, 1 if there is none, and nothing if it is not a whole number. Lua's own numbers lose
-- digits beyond 2^53: a longer one stays text.
local function one_more(text)
  if not text then return 1 end
  if #text < 16 and string.find(text, '^%-?%d+$') then return text + 1 end
  local head, digit, nines = string.match('0' .. text, '^(%d-)([0-8])(9*)$')
  return head and string.gsub(head .. digit + 1 .. string.rep('0', #nines), '^0+', '') or nil
end

local now = tonumber(moment)

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
  if seen[3] ~= fence or not held[seen[1]] then return {'lost', seen[1], seen[3], seen[4]} end
end

-- Gives the row back: with a delay it backs off, without one its attempt does not count.
local function give_back_row(row, stream, fence, delay, holder)
  local seen = redis.pcall('HMGET', row, 'status', 'vetted_until', 'vet_fence', 'vetted_by')
  local refused = refusal(seen, fence)
  if refused then return refused end
  local before, ready, revision = seen[1], moment, false or ''
  redis.call('HDEL', row, 'vetted_by', 'vetted_until')
  fence = columns_fence(seen[3])
  redis.call('HSET', row, 'vet_fence', fence)
  redis.call('ZADD', 'podcasts/vet', ready, string.sub(row, #'podcasts:' + 1))
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

-- ready, held by vet: move
-- move
-- given_fence = ARGV[1]
-- given_change = ARGV[2]
-- row_prefix = 'podcasts:'
-- index = 'podcasts/vet'
local sources = {['BUSY'] = true, ['NEW'] = true}
-- looked_at = 'status', 'vet_fence'
-- seen_fence = found[2]
-- seen_revision = false
-- move_fields = 'status', 'READY'
-- cleared = 'vetted_by', 'vetted_until'

-- Takes a row out of the index in which it waited, and out of its line.
local function leave(row, key)
  redis.call('ZREM', 'podcasts/vet', key)
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
  local fields, change = {'status', 'READY'}, cjson.decode(ARGV[2])
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
  local found = redis.pcall('HMGET', row, 'status', 'vet_fence')
  local before = found[1]
  if found.err or not before then return {} end
  -- numbers stay texts, because Lua's lose digits beyond 2^53
  local revision, fence, unmet = false, found[2], 0
  unmet = unmet_by(row, fence, revision, i)
  -- P1: the row leaves only a status from which this move is declared
  if unmet > 0 or not sources[before] then return not_moved(stream, i, before, revision, fence, unmet) end

  -- what can fail comes first, for a script that fails half-way is not undone: the history, and then the whole row at once
  local after, counted = false, false
  redis.call('HDEL', row, 'vetted_by', 'vetted_until')
  write(row, i, after)
  leave(row, string.sub(row, #'podcasts:' + 1))
  return after and {before, after} or before
end

local function move_one()
  return decide(KEYS[1], KEYS[2], 1)
end

return move_one()

-- ready by key: move
-- move
-- given_now = false
-- given_change = ARGV[1]
-- row_prefix = 'podcasts:'
-- index = 'podcasts/send'
-- ends_claims = true
-- ended_columns = 'sending_at', 'vetted_by', 'vetted_until'
local ended_markers = {['ai_error'] = 'PROCESSING:AI_DESC:'}
-- ended_fences = 'vet_fence', grown(found[5], now)
local sources = {['BUSY'] = true, ['NEW'] = true}
-- looked_at = 'status', 'sending_at', 'ai_error', 'vetted_by', 'vet_fence'
-- seen_fence = false
-- seen_revision = false
-- move_fields = 'status', 'READY'
-- fenced_off = found[2] or (found[3] and string.sub(found[3], 1, 19) == 'PROCESSING:AI_DESC:' and found[3]) or found[4] or false

-- Takes a row out of the index in which it waited, and out of its line.
local function leave(row, key)
  redis.call('ZREM', 'podcasts/send', key)
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
  redis.call('HDEL', row, 'sending_at', 'vetted_by', 'vetted_until')
  for name, prefix in pairs(ended_markers) do
    local text = redis.call('HGET', row, name)
    if text and string.sub(text, 1, #prefix) == prefix then redis.call('HDEL', row, name) end
  end
  redis.call('HSET', row, 'vet_fence', grown(found[5], now))
end

-- Writes the columns that the call sets beside those of the move.
local function write(row, i, after)
  local fields, change = {'status', 'READY'}, cjson.decode(ARGV[1])
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
  local found = redis.pcall('HMGET', row, 'status', 'sending_at', 'ai_error', 'vetted_by', 'vet_fence')
  local before = found[1]
  if found.err or not before then return {} end
  -- numbers stay texts, because Lua's lose digits beyond 2^53
  local revision, fence, unmet = false, false, 0
  -- P1: the row leaves only a status from which this move is declared
  if unmet > 0 or not sources[before] then return not_moved(stream, i, before, revision, fence, unmet) end

  -- what can fail comes first, for a script that fails half-way is not undone: the history, and then the whole row at once
  local after, counted = false, false
  end_claims(row, found)
  write(row, i, after)
  leave(row, string.sub(row, #'podcasts:' + 1))
  if true then return {before, after, found[2] or (found[3] and string.sub(found[3], 1, 19) == 'PROCESSING:AI_DESC:' and found[3]) or found[4] or false} end
  return after and {before, after} or before
end

local function move_one()
  return decide(KEYS[1], KEYS[2], 1)
end

return move_one()

-- ready many by key: move
-- move
-- given_now = false
-- row_prefix = 'podcasts:'
-- stream_key = nil
-- keys_of_a_row = 1
-- index = 'podcasts/send'
-- ends_claims = true
-- ended_columns = 'sending_at', 'vetted_by', 'vetted_until'
local ended_markers = {['ai_error'] = 'PROCESSING:AI_DESC:'}
-- ended_fences = 'vet_fence', grown(found[5], now)
local sources = {['BUSY'] = true, ['NEW'] = true}
-- looked_at = 'status', 'sending_at', 'ai_error', 'vetted_by', 'vet_fence'
-- seen_fence = false
-- seen_revision = false
-- move_fields = 'status', 'READY'
-- fenced_off = found[2] or (found[3] and string.sub(found[3], 1, 19) == 'PROCESSING:AI_DESC:' and found[3]) or found[4] or false
-- leases = 0

local rows = (#KEYS - 0) / 1

-- Takes a row out of the index in which it waited, and out of its line.
local function leave(row, key)
  redis.call('ZREM', 'podcasts/send', key)
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
  redis.call('HDEL', row, 'sending_at', 'vetted_by', 'vetted_until')
  for name, prefix in pairs(ended_markers) do
    local text = redis.call('HGET', row, name)
    if text and string.sub(text, 1, #prefix) == prefix then redis.call('HDEL', row, name) end
  end
  redis.call('HSET', row, 'vet_fence', grown(found[5], now))
end

-- The refusal, with what was found.
local function not_moved(stream, i, before, revision, fence, unmet)
  local by = false
  return {false, 'not moved', before, revision, fence, unmet, by}
end

local function decide(row, stream, i)
  -- a key of another type is not a row of ours
  local found = redis.pcall('HMGET', row, 'status', 'sending_at', 'ai_error', 'vetted_by', 'vet_fence')
  local before = found[1]
  if found.err or not before then return {} end
  -- numbers stay texts, because Lua's lose digits beyond 2^53
  local revision, fence, unmet = false, false, 0
  -- P1: the row leaves only a status from which this move is declared
  if unmet > 0 or not sources[before] then return not_moved(stream, i, before, revision, fence, unmet) end

  -- what can fail comes first, for a script that fails half-way is not undone: the history, and then the whole row at once
  local after, counted = false, false
  end_claims(row, found)
  redis.call('HSET', row, 'status', 'READY')
  leave(row, string.sub(row, #'podcasts:' + 1))
  if true then return {before, after, found[2] or (found[3] and string.sub(found[3], 1, 19) == 'PROCESSING:AI_DESC:' and found[3]) or found[4] or false} end
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

-- claims of a marker: claim.listed
-- claim.listed
-- given_now = false
-- offset = ARGV[1]
-- page = 500
-- lease = 3600.0
-- row_prefix = 'podcasts:'
-- index = 'podcasts/describe'
-- seen_holder = false
-- seen_attempts = false
-- looked_at = 'status', 'ai_error', 'ai_error'
-- lease_end = marker_end

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local moment = false or clock()

local function marker_end(text)
  local whole, part = string.match(text or '', '^PROCESSING:[^:]+:[^:]+:(%d+)(.*)$')
  local well_formed = whole and #whole <= 12 and #part <= 10 and (part == '' or string.find(part, '^%.%d+$'))
  return well_formed and tonumber(whole .. part) + 3600.0
end

-- Who holds what, on one page of the index: key, until, status, holder, fence, attempts.
local function listed()
  local keys = redis.call('ZRANGE', 'podcasts/describe', ARGV[1], ARGV[1] + 500 - 1, 'WITHSCORES')
  local found = {#keys / 2}
  for i = 1, #keys, 2 do
    local seen = redis.pcall('HMGET', 'podcasts:' .. keys[i], 'status', 'ai_error', 'ai_error')
    if marker_end(seen[2]) then
      local place = #found
      found[place + 1], found[place + 2], found[place + 3] = keys[i], keys[i + 1], seen[1]
      found[place + 4], found[place + 5], found[place + 6] = false, seen[3], false
    end
  end
  found[#found + 1] = moment
  return found
end

return listed()
