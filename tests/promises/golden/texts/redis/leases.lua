-- acquire a lease: lease.acquire
-- lease.acquire
-- given_now = ARGV[4]
-- by = ARGV[1]
-- lease = ARGV[2]

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

local moment = ARGV[4] or clock()

local now = tonumber(moment)

-- A number that grows with each holder (P4, P10): by at least one, and to the microseconds of now, so that it grows even
-- after a lossy failover has forgotten the last ones.
local function grown(number, now)
  local least, following = math.floor(now * 1000000), (tonumber(number) or 0) + 1
  if following < 9007199254740992 then return string.format('%.0f', math.max(following, least)) end
  return one_more(number) or string.format('%.0f', least)
end

-- The lease as it is: holder, epoch, when it ends, and whether it is held now.
local function read()
  local found = redis.call('HMGET', KEYS[1], 'holder', 'epoch', 'until')
  local ends = found[3] and tonumber(found[3])
  -- P13: a lease that ends more than twice its length from now was taken before the clock was set back; a longer one than
  -- this caller's ends far ahead too, but its epoch is no later than the clock
  local ahead = ends and ends > now + 2 * ARGV[2] and (tonumber(found[2]) or 0) > now * 1000000
  return found[1], found[2], found[3], ends and ends > now and not ahead
end

local function look()
  local holder, current, ends, held = read()
  return {0, held and holder or '', current or '0', ends or ''}
end

local function acquire()
  local _, last, _, held = read()
  if held then return look() end
  local won, started = last and 1 or 2, string.format('%.0f', math.floor(now * 1000000))
  -- P10: grows with every change of holder
  local next_epoch = grown(last, now)
  -- only a lease that was never held starts with the clock itself
  if won == 1 and next_epoch == started then next_epoch = one_more(next_epoch) end
  local ends = string.format('%.6f', now + ARGV[2])
  redis.call('HSET', KEYS[1], 'holder', ARGV[1], 'epoch', next_epoch, 'since', moment, 'until', ends)
  return {won, ARGV[1], next_epoch, ends}
end

return acquire()

-- acquire a lease by the store's clock: lease.acquire
-- lease.acquire
-- given_now = false
-- by = ARGV[1]
-- lease = ARGV[2]

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

-- The lease as it is: holder, epoch, when it ends, and whether it is held now.
local function read()
  local found = redis.call('HMGET', KEYS[1], 'holder', 'epoch', 'until')
  local ends = found[3] and tonumber(found[3])
  -- P13: a lease that ends more than twice its length from now was taken before the clock was set back; a longer one than
  -- this caller's ends far ahead too, but its epoch is no later than the clock
  local ahead = ends and ends > now + 2 * ARGV[2] and (tonumber(found[2]) or 0) > now * 1000000
  return found[1], found[2], found[3], ends and ends > now and not ahead
end

local function look()
  local holder, current, ends, held = read()
  return {0, held and holder or '', current or '0', ends or ''}
end

local function acquire()
  local _, last, _, held = read()
  if held then return look() end
  local won, started = last and 1 or 2, string.format('%.0f', math.floor(now * 1000000))
  -- P10: grows with every change of holder
  local next_epoch = grown(last, now)
  -- only a lease that was never held starts with the clock itself
  if won == 1 and next_epoch == started then next_epoch = one_more(next_epoch) end
  local ends = string.format('%.6f', now + ARGV[2])
  redis.call('HSET', KEYS[1], 'holder', ARGV[1], 'epoch', next_epoch, 'since', moment, 'until', ends)
  return {won, ARGV[1], next_epoch, ends}
end

return acquire()

-- acquire a lease, refused: lease.acquire
-- renew a lease: lease.renew
-- lease.renew
-- given_now = false
-- by = ARGV[1]
-- lease = ARGV[2]
-- epoch = ARGV[3]

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local moment = false or clock()

local now = tonumber(moment)

-- The lease as it is: holder, epoch, when it ends, and whether it is held now.
local function read()
  local found = redis.call('HMGET', KEYS[1], 'holder', 'epoch', 'until')
  local ends = found[3] and tonumber(found[3])
  -- P13: a lease that ends more than twice its length from now was taken before the clock was set back; a longer one than
  -- this caller's ends far ahead too, but its epoch is no later than the clock
  local ahead = ends and ends > now + 2 * ARGV[2] and (tonumber(found[2]) or 0) > now * 1000000
  return found[1], found[2], found[3], ends and ends > now and not ahead
end

local function look()
  local holder, current, ends, held = read()
  return {0, held and holder or '', current or '0', ends or ''}
end

local function renew()
  local holder, current, ends = read()
  -- P10: only the holder, and only in its own epoch
  if not ends or holder ~= ARGV[1] or current ~= ARGV[3] then return look() end
  ends = string.format('%.6f', now + ARGV[2])
  redis.call('HSET', KEYS[1], 'until', ends)
  return {1, ARGV[1], current, ends}
end

return renew()

-- renew a lease at a given time: lease.renew
-- lease.renew
-- given_now = ARGV[4]
-- by = ARGV[1]
-- lease = ARGV[2]
-- epoch = ARGV[3]

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local moment = ARGV[4] or clock()

local now = tonumber(moment)

-- The lease as it is: holder, epoch, when it ends, and whether it is held now.
local function read()
  local found = redis.call('HMGET', KEYS[1], 'holder', 'epoch', 'until')
  local ends = found[3] and tonumber(found[3])
  -- P13: a lease that ends more than twice its length from now was taken before the clock was set back; a longer one than
  -- this caller's ends far ahead too, but its epoch is no later than the clock
  local ahead = ends and ends > now + 2 * ARGV[2] and (tonumber(found[2]) or 0) > now * 1000000
  return found[1], found[2], found[3], ends and ends > now and not ahead
end

local function look()
  local holder, current, ends, held = read()
  return {0, held and holder or '', current or '0', ends or ''}
end

local function renew()
  local holder, current, ends = read()
  -- P10: only the holder, and only in its own epoch
  if not ends or holder ~= ARGV[1] or current ~= ARGV[3] then return look() end
  ends = string.format('%.6f', now + ARGV[2])
  redis.call('HSET', KEYS[1], 'until', ends)
  return {1, ARGV[1], current, ends}
end

return renew()

-- lease holder: lease.look
-- lease.look
-- given_now = false
-- lease = ARGV[2]

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local moment = false or clock()

local now = tonumber(moment)

-- The lease as it is: holder, epoch, when it ends, and whether it is held now.
local function read()
  local found = redis.call('HMGET', KEYS[1], 'holder', 'epoch', 'until')
  local ends = found[3] and tonumber(found[3])
  -- P13: a lease that ends more than twice its length from now was taken before the clock was set back; a longer one than
  -- this caller's ends far ahead too, but its epoch is no later than the clock
  local ahead = ends and ends > now + 2 * ARGV[2] and (tonumber(found[2]) or 0) > now * 1000000
  return found[1], found[2], found[3], ends and ends > now and not ahead
end

local function look()
  local holder, current, ends, held = read()
  return {0, held and holder or '', current or '0', ends or ''}
end

return look()

-- a move guarded by the epoch: move
-- move
-- given_now = false
-- given_guards = ARGV[1]
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

local guarded = cjson.decode(ARGV[1])

-- Which of the caller's and the declared guards do not hold, as bits: the fence 1, the revision 2, then the predicates.
local function unmet_by(row, fence, revision, i)
  local unmet = 0
  unmet = unmet + unmet_guards(row, guarded, 4)
  return unmet
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
  unmet = unmet_by(row, fence, revision, i)
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

-- a claim guarded by the epoch: claim.acquire, claim.dead_letter
-- claim.acquire
-- given_now = false
-- given_guards = ARGV[5]
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

local guarded = cjson.decode(ARGV[5])

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

-- claim.dead_letter
-- given_now = false
-- given_guards = ARGV[5]
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

local guarded = cjson.decode(ARGV[5])

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
  unmet = unmet + unmet_guards(row, guarded, 32)
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

-- release a lease: lease.release
-- lease.release
-- given_now = false
-- by = ARGV[1]
-- lease = ARGV[2]
-- epoch = ARGV[3]

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local moment = false or clock()

local now = tonumber(moment)

-- The lease as it is: holder, epoch, when it ends, and whether it is held now.
local function read()
  local found = redis.call('HMGET', KEYS[1], 'holder', 'epoch', 'until')
  local ends = found[3] and tonumber(found[3])
  -- P13: a lease that ends more than twice its length from now was taken before the clock was set back; a longer one than
  -- this caller's ends far ahead too, but its epoch is no later than the clock
  local ahead = ends and ends > now + 2 * ARGV[2] and (tonumber(found[2]) or 0) > now * 1000000
  return found[1], found[2], found[3], ends and ends > now and not ahead
end

local function look()
  local holder, current, ends, held = read()
  return {0, held and holder or '', current or '0', ends or ''}
end

local function release()
  local holder, current, ends = read()
  -- P10: as above
  if holder ~= ARGV[1] or current ~= ARGV[3] then return look() end
  redis.call('HDEL', KEYS[1], 'until')
  return {1, '', current, ends or ''}
end

return release()

-- release a lease at a given time: lease.release
-- lease.release
-- given_now = ARGV[4]
-- by = ARGV[1]
-- lease = ARGV[2]
-- epoch = ARGV[3]

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local moment = ARGV[4] or clock()

local now = tonumber(moment)

-- The lease as it is: holder, epoch, when it ends, and whether it is held now.
local function read()
  local found = redis.call('HMGET', KEYS[1], 'holder', 'epoch', 'until')
  local ends = found[3] and tonumber(found[3])
  -- P13: a lease that ends more than twice its length from now was taken before the clock was set back; a longer one than
  -- this caller's ends far ahead too, but its epoch is no later than the clock
  local ahead = ends and ends > now + 2 * ARGV[2] and (tonumber(found[2]) or 0) > now * 1000000
  return found[1], found[2], found[3], ends and ends > now and not ahead
end

local function look()
  local holder, current, ends, held = read()
  return {0, held and holder or '', current or '0', ends or ''}
end

local function release()
  local holder, current, ends = read()
  -- P10: as above
  if holder ~= ARGV[1] or current ~= ARGV[3] then return look() end
  redis.call('HDEL', KEYS[1], 'until')
  return {1, '', current, ends or ''}
end

return release()
