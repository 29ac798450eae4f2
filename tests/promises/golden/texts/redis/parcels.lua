-- claim: claim.acquire
-- claim.acquire
-- given_now = ARGV[6]
-- given_guards = ARGV[7]
-- begin = ARGV[5]
-- by = ARGV[1]
-- limit = ARGV[2]
-- offset = ARGV[4]
-- page = ARGV[3]
-- lease = 45.0
-- reason = ''
-- lifecycle = 'Parcel'
-- row_prefix = 'shop.parcels:'
-- revision_column = 'rev'
-- history = true
-- stream_prefix = 'shop.parcels/history:'
-- returned = 'weight'
-- index = 'shop.parcels/pack'
-- lines = 'shop.parcels/pack/lines'
-- ordering_key = 'lane'
-- seen_attempts = seen[5]
-- seen_revision = seen[6]
-- seen_not_before = seen[4]
-- looked_at = 'stage', 'claimed_until', 'fence', 'rests_until', 'tries', 'rev'
local open = {['NEW'] = true, ['BUSY'] = true}
-- lease_end = columns_end
-- next_fence = columns_fence
-- claim_fields = 'claimed_by', ARGV[1], 'fence', fence, 'claimed_until', ends_then, 'stage', 'BUSY', 'started_at', moment, 'rev', revision, 'tries', attempts
-- attempts_column = 'tries'
-- max_attempts = 4
-- start_name = 'start'
-- start_target = 'BUSY'

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

local moment = ARGV[6] or clock()

local now = tonumber(moment)

local guarded = cjson.decode(ARGV[7])

-- When the lease of a row ends, by what stands there; nothing if it has no holder. For each form of a claim.
local function columns_end(text)
  return tonumber(text or nil)
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

-- Why a row cannot be claimed, as bits: its status 1, its holder 2, its backoff 4, its attempts 8, then from 32 on the guards.
local function obstacles(row, seen)
  if not seen[1] then return 1 end
  local unmet = open[seen[1]] and 0 or 1
  if is_held(columns_end(seen[2]), seen[3]) then unmet = unmet + 2 end
  if (tonumber(seen[4]) or 0) > now then unmet = unmet + 4 end
  if (tonumber(seen[5]) or 0) >= 4 then unmet = unmet + 8 end
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

local ends_then = string.format('%.6f', now + 45.0)

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

local function note(stream, move, outcome, before, after, revision, actor)
  return redis.pcall('XADD', stream, '*', 'lifecycle', 'Parcel', 'move', move, 'outcome', outcome, 'before', before,
    'after', after, 'revision', revision, 'actor', actor, 'reason', '', 'call', '', 'at', moment)
end

-- The row's next revision as text, '' without one; nothing if it is not a number.
local function next_revision(seen)
  if 'rev' then return one_more(seen[6]) end
  return ''
end

-- Writes a claim into the row, and returns its fence and how many attempts there were; or false, and why it cannot.
local function hold(row, key, stream, seen)
  local before, fence, revision, attempts = seen[1], columns_fence(seen[3]), next_revision(seen), 1
  attempts = one_more(seen[5])
  if not attempts then return false, 'tries' .. ' is not a whole number' end
  if not revision then return false, 'rev' .. ' is not a whole number' end
  local moved = 'BUSY' and before ~= 'BUSY'
  local outcome, after = moved and 'moved' or 'claimed', 'BUSY' or before
  local noted = note(stream, 'start', outcome, before, after, revision, ARGV[1])
  if noted.err then return false, noted.err end
  redis.call('ZADD', 'shop.parcels/pack', ends_then, key)
  redis.call('HSET', row, 'claimed_by', ARGV[1], 'fence', fence, 'claimed_until', ends_then, 'stage', 'BUSY', 'started_at', moment, 'rev', revision, 'tries', attempts)
  return fence, tonumber(attempts)
end

-- Those of these keys that belong to the tenant.
local function owned(keys)
  local own = {}
  for _, key in ipairs(keys) do
    if string.sub(key, 1, #ARGV[5]) == ARGV[5] then own[#own + 1] = key end
  end
  return own
end

-- The keys that the index proposes, how many it proposed, and how many of these are of other tenants and stay where they are.
local function proposals()
  local keys = redis.call('ZRANGEBYSCORE', 'shop.parcels/pack', '-inf', moment, 'LIMIT', ARGV[4], ARGV[3])
  local proposed = #keys
  keys = owned(keys)
  return keys, proposed, proposed - #keys
end

-- P13: rows that wait for longer than any lease either back off, or were held when the clock was set back. Where there is
-- nothing else, a few of them are looked at, from a place that the clock chooses, so that each is reached.
local function far_ahead()
  local later = '(' .. string.format('%.6f', now + 2 * 45.0)
  local number = redis.call('ZCOUNT', 'shop.parcels/pack', later, '+inf')
  local first = math.floor(now * 1000) % math.max(number - 9, 1)
  local keys = redis.call('ZRANGEBYSCORE', 'shop.parcels/pack', later, '+inf', 'LIMIT', first, 10)
  keys = owned(keys)
  return keys
end

-- The stream of a row that the index proposes.
local function stream_of(key)
  return true and 'shop.parcels/history:' .. key
end

-- A row that cannot be decided does not block the others: it is reported, and proposed again when a lease is over.
local function pass_over(failed, key, why)
  redis.call('ZADD', 'shop.parcels/pack', ends_then, key)
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
  local value, tenant = redis.pcall('HGET', row, 'lane'), ''
  if type(value) ~= 'string' then return '' end
  tenant = string.match(key, '^[^:]*:?')
  return 'shop.parcels/pack' .. '/line:' .. tenant .. value
end

-- The line in which a row stands. It is kept beside the index, because a row that is gone can no longer say it (P13).
local function line_of(row, key)
  return redis.call('HGET', 'shop.parcels/pack/lines', key) or own_line(row, key)
end

-- Takes a row out of its line; the next in line follows into the index, and is returned.
local function leave_line(row, key)
  local line = line_of(row, key)
  redis.call('HDEL', 'shop.parcels/pack/lines', key)
  if line == '' then return end
  redis.call('ZREM', line, key)
  local following = redis.call('ZRANGE', line, 0, 0)[1]
  if following and redis.call('ZADD', 'shop.parcels/pack', 'NX', clock(), following) == 1 then return following end
end

-- Takes a row out of the index in which it waited, and out of its line.
local function leave(row, key)
  redis.call('ZREM', 'shop.parcels/pack', key)
  if 'lane' then return leave_line(row, key) end
end

-- What becomes of a proposed row that cannot be claimed. Returns whether it stays where it is in the index, and who follows it.
local function put_aside(row, key, seen, unmet)
  if unmet % 2 == 1 then return false, leave(row, key) end
  if unmet % 4 >= 2 then
    -- held: it is proposed again when the lease is over
    redis.call('ZADD', 'shop.parcels/pack', string.format('%.6f', columns_end(seen[2])), key)
    return false
  end
  if unmet % 8 >= 4 then
    redis.call('ZADD', 'shop.parcels/pack', string.format('%.6f', seen[4]), key)
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
    local row = 'shop.parcels:' .. key
    -- a key of another type is not a row of ours
    local seen = redis.pcall('HMGET', row, 'stage', 'claimed_until', 'fence', 'rests_until', 'tries', 'rev')
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
        for _, value in ipairs(redis.call('HMGET', row, 'weight')) do
          place = place + 1
          found[place] = value
        end
      end
    end
  end
  return searched(found, kept, failed)
end

return acquire()

-- claim by the store's clock: claim.acquire
-- claim.acquire
-- given_now = false
-- given_guards = ARGV[6]
-- begin = ARGV[5]
-- by = ARGV[1]
-- limit = ARGV[2]
-- offset = ARGV[4]
-- page = ARGV[3]
-- lease = 45.0
-- reason = ''
-- lifecycle = 'Parcel'
-- row_prefix = 'shop.parcels:'
-- revision_column = 'rev'
-- history = true
-- stream_prefix = 'shop.parcels/history:'
-- index = 'shop.parcels/pack'
-- lines = 'shop.parcels/pack/lines'
-- ordering_key = 'lane'
-- seen_attempts = seen[5]
-- seen_revision = seen[6]
-- seen_not_before = seen[4]
-- looked_at = 'stage', 'claimed_until', 'fence', 'rests_until', 'tries', 'rev'
local open = {['NEW'] = true, ['BUSY'] = true}
-- lease_end = columns_end
-- next_fence = columns_fence
-- claim_fields = 'claimed_by', ARGV[1], 'fence', fence, 'claimed_until', ends_then, 'stage', 'BUSY', 'started_at', moment, 'rev', revision, 'tries', attempts
-- attempts_column = 'tries'
-- max_attempts = 4
-- start_name = 'start'
-- start_target = 'BUSY'

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
  local ahead = ends and ends > now + 2 * 45.0
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
  if (tonumber(seen[5]) or 0) >= 4 then unmet = unmet + 8 end
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

local ends_then = string.format('%.6f', now + 45.0)

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

local function note(stream, move, outcome, before, after, revision, actor)
  return redis.pcall('XADD', stream, '*', 'lifecycle', 'Parcel', 'move', move, 'outcome', outcome, 'before', before,
    'after', after, 'revision', revision, 'actor', actor, 'reason', '', 'call', '', 'at', moment)
end

-- The row's next revision as text, '' without one; nothing if it is not a number.
local function next_revision(seen)
  if 'rev' then return one_more(seen[6]) end
  return ''
end

-- Writes a claim into the row, and returns its fence and how many attempts there were; or false, and why it cannot.
local function hold(row, key, stream, seen)
  local before, fence, revision, attempts = seen[1], columns_fence(seen[3]), next_revision(seen), 1
  attempts = one_more(seen[5])
  if not attempts then return false, 'tries' .. ' is not a whole number' end
  if not revision then return false, 'rev' .. ' is not a whole number' end
  local moved = 'BUSY' and before ~= 'BUSY'
  local outcome, after = moved and 'moved' or 'claimed', 'BUSY' or before
  local noted = note(stream, 'start', outcome, before, after, revision, ARGV[1])
  if noted.err then return false, noted.err end
  redis.call('ZADD', 'shop.parcels/pack', ends_then, key)
  redis.call('HSET', row, 'claimed_by', ARGV[1], 'fence', fence, 'claimed_until', ends_then, 'stage', 'BUSY', 'started_at', moment, 'rev', revision, 'tries', attempts)
  return fence, tonumber(attempts)
end

-- Those of these keys that belong to the tenant.
local function owned(keys)
  local own = {}
  for _, key in ipairs(keys) do
    if string.sub(key, 1, #ARGV[5]) == ARGV[5] then own[#own + 1] = key end
  end
  return own
end

-- The keys that the index proposes, how many it proposed, and how many of these are of other tenants and stay where they are.
local function proposals()
  local keys = redis.call('ZRANGEBYSCORE', 'shop.parcels/pack', '-inf', moment, 'LIMIT', ARGV[4], ARGV[3])
  local proposed = #keys
  keys = owned(keys)
  return keys, proposed, proposed - #keys
end

-- P13: rows that wait for longer than any lease either back off, or were held when the clock was set back. Where there is
-- nothing else, a few of them are looked at, from a place that the clock chooses, so that each is reached.
local function far_ahead()
  local later = '(' .. string.format('%.6f', now + 2 * 45.0)
  local number = redis.call('ZCOUNT', 'shop.parcels/pack', later, '+inf')
  local first = math.floor(now * 1000) % math.max(number - 9, 1)
  local keys = redis.call('ZRANGEBYSCORE', 'shop.parcels/pack', later, '+inf', 'LIMIT', first, 10)
  keys = owned(keys)
  return keys
end

-- The stream of a row that the index proposes.
local function stream_of(key)
  return true and 'shop.parcels/history:' .. key
end

-- A row that cannot be decided does not block the others: it is reported, and proposed again when a lease is over.
local function pass_over(failed, key, why)
  redis.call('ZADD', 'shop.parcels/pack', ends_then, key)
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
  local value, tenant = redis.pcall('HGET', row, 'lane'), ''
  if type(value) ~= 'string' then return '' end
  tenant = string.match(key, '^[^:]*:?')
  return 'shop.parcels/pack' .. '/line:' .. tenant .. value
end

-- The line in which a row stands. It is kept beside the index, because a row that is gone can no longer say it (P13).
local function line_of(row, key)
  return redis.call('HGET', 'shop.parcels/pack/lines', key) or own_line(row, key)
end

-- Takes a row out of its line; the next in line follows into the index, and is returned.
local function leave_line(row, key)
  local line = line_of(row, key)
  redis.call('HDEL', 'shop.parcels/pack/lines', key)
  if line == '' then return end
  redis.call('ZREM', line, key)
  local following = redis.call('ZRANGE', line, 0, 0)[1]
  if following and redis.call('ZADD', 'shop.parcels/pack', 'NX', clock(), following) == 1 then return following end
end

-- Takes a row out of the index in which it waited, and out of its line.
local function leave(row, key)
  redis.call('ZREM', 'shop.parcels/pack', key)
  if 'lane' then return leave_line(row, key) end
end

-- What becomes of a proposed row that cannot be claimed. Returns whether it stays where it is in the index, and who follows it.
local function put_aside(row, key, seen, unmet)
  if unmet % 2 == 1 then return false, leave(row, key) end
  if unmet % 4 >= 2 then
    -- held: it is proposed again when the lease is over
    redis.call('ZADD', 'shop.parcels/pack', string.format('%.6f', columns_end(seen[2])), key)
    return false
  end
  if unmet % 8 >= 4 then
    redis.call('ZADD', 'shop.parcels/pack', string.format('%.6f', seen[4]), key)
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
    local row = 'shop.parcels:' .. key
    -- a key of another type is not a row of ours
    local seen = redis.pcall('HMGET', row, 'stage', 'claimed_until', 'fence', 'rests_until', 'tries', 'rev')
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

-- claim_one: claim.one
-- claim.one
-- given_now = ARGV[3]
-- given_guards = ARGV[4]
-- by = ARGV[1]
-- lease = 45.0
-- reason = ARGV[2]
-- lifecycle = 'Parcel'
-- column = 'stage'
-- row_prefix = 'shop.parcels:'
-- revision_column = 'rev'
-- stream_key = KEYS[rows + i]
-- keys_of_a_row = 2
-- index = 'shop.parcels/pack'
-- lines = 'shop.parcels/pack/lines'
-- ordering_key = 'lane'
-- seen_holder = seen[7]
-- seen_attempts = seen[5]
-- seen_revision = seen[6]
-- seen_not_before = seen[4]
-- looked_at = 'stage', 'claimed_until', 'fence', 'rests_until', 'tries', 'rev', 'claimed_by'
local open = {['NEW'] = true, ['BUSY'] = true}
-- lease_end = columns_end
-- next_fence = columns_fence
-- claim_fields = 'claimed_by', ARGV[1], 'fence', fence, 'claimed_until', ends_then, 'stage', 'BUSY', 'started_at', moment, 'rev', revision, 'tries', attempts
-- attempts_column = 'tries'
-- max_attempts = 4
-- other_keys = 1
-- first_value = 2
-- start_name = 'start'
-- start_target = 'BUSY'

-- The line of rows with the value that this one has in its column `ordering_key`; '' without a value: such a row stands alone.
local function own_line(row, key)
  local value, tenant = redis.pcall('HGET', row, 'lane'), ''
  if type(value) ~= 'string' then return '' end
  tenant = string.match(key, '^[^:]*:?')
  return 'shop.parcels/pack' .. '/line:' .. tenant .. value
end

-- The line in which a row stands. It is kept beside the index, because a row that is gone can no longer say it (P13).
local function line_of(row, key)
  return redis.call('HGET', 'shop.parcels/pack/lines', key) or own_line(row, key)
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

local moment = ARGV[3] or clock()

local now = tonumber(moment)

local guarded = cjson.decode(ARGV[4])

-- When the lease of a row ends, by what stands there; nothing if it has no holder. For each form of a claim.
local function columns_end(text)
  return tonumber(text or nil)
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

-- Why a row cannot be claimed, as bits: its status 1, its holder 2, its backoff 4, its attempts 8, then from 32 on the guards.
local function obstacles(row, seen)
  if not seen[1] then return 1 end
  local unmet = open[seen[1]] and 0 or 1
  if is_held(columns_end(seen[2]), seen[3]) then unmet = unmet + 2 end
  if (tonumber(seen[4]) or 0) > now then unmet = unmet + 4 end
  if (tonumber(seen[5]) or 0) >= 4 then unmet = unmet + 8 end
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

local ends_then = string.format('%.6f', now + 45.0)

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

local function note(stream, move, outcome, before, after, revision, actor)
  return redis.pcall('XADD', stream, '*', 'lifecycle', 'Parcel', 'move', move, 'outcome', outcome, 'before', before,
    'after', after, 'revision', revision, 'actor', actor, 'reason', ARGV[2], 'call', '', 'at', moment)
end

-- The row's next revision as text, '' without one; nothing if it is not a number.
local function next_revision(seen)
  if 'rev' then return one_more(seen[6]) end
  return ''
end

-- Writes a claim into the row, and returns its fence and how many attempts there were; or false, and why it cannot.
local function hold(row, key, stream, seen)
  local before, fence, revision, attempts = seen[1], columns_fence(seen[3]), next_revision(seen), 1
  attempts = one_more(seen[5])
  if not attempts then return false, 'tries' .. ' is not a whole number' end
  if not revision then return false, 'rev' .. ' is not a whole number' end
  local moved = 'BUSY' and before ~= 'BUSY'
  local outcome, after = moved and 'moved' or 'claimed', 'BUSY' or before
  local noted = note(stream, 'start', outcome, before, after, revision, ARGV[1])
  if noted.err then return false, noted.err end
  redis.call('ZADD', 'shop.parcels/pack', ends_then, key)
  redis.call('HSET', row, 'claimed_by', ARGV[1], 'fence', fence, 'claimed_until', ends_then, 'stage', 'BUSY', 'started_at', moment, 'rev', revision, 'tries', attempts)
  return fence, tonumber(attempts)
end

-- Takes a row out of its line; the next in line follows into the index, and is returned.
local function leave_line(row, key)
  local line = line_of(row, key)
  redis.call('HDEL', 'shop.parcels/pack/lines', key)
  if line == '' then return end
  redis.call('ZREM', line, key)
  local following = redis.call('ZRANGE', line, 0, 0)[1]
  if following and redis.call('ZADD', 'shop.parcels/pack', 'NX', clock(), following) == 1 then return following end
end

-- Takes a row out of the index in which it waited, and out of its line.
local function leave(row, key)
  redis.call('ZREM', 'shop.parcels/pack', key)
  if 'lane' then return leave_line(row, key) end
end

-- The first of a line. Rows before this one that are gone, or have ended, would hold up all behind them: they leave.
local function first_of(line, key)
  while true do
    local first = redis.call('ZRANGE', line, 0, 0)[1]
    if not first or first == key or open[redis.pcall('HGET', 'shop.parcels:' .. first, 'stage')] then return first end
    redis.call('ZREM', line, first)
    leave('shop.parcels:' .. first, first)
  end
end

-- One row by its key: {'claimed', fence, attempts, before, columns …} or {'taken', before, unmet, holder}, {'missing'}.
local function claim_row(row, stream)
  local key, seen = string.sub(row, #'shop.parcels:' + 1), redis.pcall('HMGET', row, 'stage', 'claimed_until', 'fence', 'rests_until', 'tries', 'rev', 'claimed_by')
  if not seen[1] then return {'missing'} end
  local unmet = obstacles(row, seen)
  local line = line_of(row, key)
  if line ~= '' and first_of(line, key) ~= key then unmet = unmet + 16 end
  if unmet > 0 then return {'taken', seen[1], unmet, seen[7]} end
  local fence, attempts = hold(row, key, stream, seen)
  if not fence then return {'error', attempts} end
  return {'claimed', fence, attempts, seen[1]}
end

-- The answers of a decision about each row that the caller names.
local function each_row(decide)
  local answers, rows = {}, (#KEYS - 1) / 2
  for i = 1, rows do
    local place = 2 + i * 3
    answers[i] = decide(KEYS[i], KEYS[rows + i], ARGV[place], ARGV[place + 1], ARGV[place + 2], rows - i)
  end
  return answers
end

local function one()
  return each_row(claim_row)
end

return one()

-- renew: claim.renew
-- claim.renew
-- given_now = ARGV[2]
-- lease = 45.0
-- row_prefix = 'shop.parcels:'
-- stream_key = KEYS[rows + i]
-- keys_of_a_row = 2
-- index = 'shop.parcels/pack'
-- seen_holder = seen[6]
-- looked_at = 'stage', 'claimed_until', 'fence', 'rests_until', 'tries', 'claimed_by'
local held = {['BUSY'] = true}
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

local ends_then = string.format('%.6f', now + 45.0)

-- P5: only the current holder; P4: an older fence than the newest is refused.
local function refusal(seen, fence)
  if not seen[1] then return {'missing'} end
  if seen[3] ~= fence or not held[seen[1]] then return {'lost', seen[1], seen[3], seen[6]} end
end

local function renew_row(row, stream, fence)
  local seen = redis.pcall('HMGET', row, 'stage', 'claimed_until', 'fence', 'rests_until', 'tries', 'claimed_by')
  local refused = refusal(seen, fence)
  if refused then return refused end
  redis.call('HSET', row, 'claimed_until', ends_then)
  redis.call('ZADD', 'shop.parcels/pack', ends_then, string.sub(row, #'shop.parcels:' + 1))
  return {'renewed', fence}
end

-- The answers of a decision about each row that the caller names.
local function each_row(decide)
  local answers, rows = {}, (#KEYS - 1) / 2
  for i = 1, rows do
    local place = 1 + i * 3
    answers[i] = decide(KEYS[i], KEYS[rows + i], ARGV[place], ARGV[place + 1], ARGV[place + 2], rows - i)
  end
  return answers
end

local function renew()
  return each_row(renew_row)
end

return renew()

-- release: claim.give_back
-- claim.give_back
-- given_now = ARGV[2]
-- reason = ARGV[1]
-- lifecycle = 'Parcel'
-- row_prefix = 'shop.parcels:'
-- revision_column = 'rev'
-- stream_key = KEYS[rows + i]
-- keys_of_a_row = 2
-- index = 'shop.parcels/pack'
-- seen_holder = seen[7]
-- seen_attempts = seen[5]
-- seen_revision = seen[6]
-- looked_at = 'stage', 'claimed_until', 'fence', 'rests_until', 'tries', 'rev', 'claimed_by'
local held = {['BUSY'] = true}
-- next_fence = columns_fence
-- back_fields = 'fence', fence, 'stage', 'NEW', 'returned_at', moment, 'rev', revision
-- cleared = 'claimed_by', 'claimed_until'
-- attempts_column = 'tries'
-- not_before_column = 'rests_until'
-- other_keys = 1
-- first_value = 1
-- back_name = 'back'
-- back_target = 'NEW'

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

local moment = ARGV[2] or clock()

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

local function note(stream, move, outcome, before, after, revision, actor)
  return redis.pcall('XADD', stream, '*', 'lifecycle', 'Parcel', 'move', move, 'outcome', outcome, 'before', before,
    'after', after, 'revision', revision, 'actor', actor, 'reason', ARGV[1], 'call', '', 'at', moment)
end

-- P5: only the current holder; P4: an older fence than the newest is refused.
local function refusal(seen, fence)
  if not seen[1] then return {'missing'} end
  if seen[3] ~= fence or not held[seen[1]] then return {'lost', seen[1], seen[3], seen[7]} end
end

-- Gives the row back: with a delay it backs off, without one its attempt does not count.
local function give_back_row(row, stream, fence, delay, holder)
  local seen = redis.pcall('HMGET', row, 'stage', 'claimed_until', 'fence', 'rests_until', 'tries', 'rev', 'claimed_by')
  local refused = refusal(seen, fence)
  if refused then return refused end
  local before, ready, revision = seen[1], moment, seen[6] or ''
  revision = one_more(seen[6])
  if not revision then return {'error', 'rev' .. ' is not a whole number'} end
  local outcome = 'NEW' and 'moved' or 'released'
  local noted = note(stream, 'back', outcome, before, 'NEW' or before, revision, holder)
  if noted.err then return {'error', noted.err} end
  redis.call('HDEL', row, 'claimed_by', 'claimed_until')
  if delay == '' and (tonumber(seen[5]) or 0) > 0 then redis.pcall('HINCRBY', row, 'tries', -1) end
  if delay ~= '' then
    ready = string.format('%.6f', now + delay)
    redis.call('HSET', row, 'rests_until', ready)
  end
  fence = columns_fence(seen[3])
  redis.call('HSET', row, 'fence', fence, 'stage', 'NEW', 'returned_at', moment, 'rev', revision)
  redis.call('ZADD', 'shop.parcels/pack', ready, string.sub(row, #'shop.parcels:' + 1))
  return {'released'}
end

-- The answers of a decision about each row that the caller names.
local function each_row(decide)
  local answers, rows = {}, (#KEYS - 1) / 2
  for i = 1, rows do
    local place = 1 + i * 3
    answers[i] = decide(KEYS[i], KEYS[rows + i], ARGV[place], ARGV[place + 1], ARGV[place + 2], rows - i)
  end
  return answers
end

local function give_back()
  return each_row(give_back_row)
end

return give_back()

-- fail: claim.give_back
-- ready: move
-- move
-- given_now = false
-- given_fence = ARGV[1]
-- given_change = ARGV[2]
-- given_by = ARGV[3]
-- given_reason = ARGV[4]
-- given_call = ARGV[5]
-- lifecycle = 'Parcel'
-- row_prefix = 'shop.parcels:'
-- revision_column = 'rev'
-- returning = true
-- returned = 'note'
-- index = 'shop.parcels/pack'
-- lines = 'shop.parcels/pack/lines'
-- ordering_key = 'lane'
-- ends_claims = false
-- move_name = 'ready'
-- target = 'READY'
local sources = {['BUSY'] = true, ['NEW'] = true}
-- looked_at = 'stage', 'fence', 'rev'
-- seen_fence = found[2]
-- seen_revision = found[3] or '0'
-- first_asked = 4
-- move_fields = 'stage', 'READY', 'ready_at', moment, 'rev', after
-- cleared = 'claimed_by', 'claimed_until'

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

-- The line of rows with the value that this one has in its column `ordering_key`; '' without a value: such a row stands alone.
local function own_line(row, key)
  local value, tenant = redis.pcall('HGET', row, 'lane'), ''
  if type(value) ~= 'string' then return '' end
  tenant = string.match(key, '^[^:]*:?')
  return 'shop.parcels/pack' .. '/line:' .. tenant .. value
end

-- The line in which a row stands. It is kept beside the index, because a row that is gone can no longer say it (P13).
local function line_of(row, key)
  return redis.call('HGET', 'shop.parcels/pack/lines', key) or own_line(row, key)
end

-- Takes a row out of its line; the next in line follows into the index, and is returned.
local function leave_line(row, key)
  local line = line_of(row, key)
  redis.call('HDEL', 'shop.parcels/pack/lines', key)
  if line == '' then return end
  redis.call('ZREM', line, key)
  local following = redis.call('ZRANGE', line, 0, 0)[1]
  if following and redis.call('ZADD', 'shop.parcels/pack', 'NX', clock(), following) == 1 then return following end
end

-- Takes a row out of the index in which it waited, and out of its line.
local function leave(row, key)
  redis.call('ZREM', 'shop.parcels/pack', key)
  if 'lane' then return leave_line(row, key) end
end

local moment = false or clock()

local function note(stream, i, outcome, before, revision)
  return redis.pcall('XADD', stream, '*', 'lifecycle', 'Parcel', 'move', 'ready', 'outcome', outcome,
    'before', before, 'after', 'READY', 'revision', revision or '',
    'actor', ARGV[3], 'reason', ARGV[4], 'call', ARGV[5], 'at', moment)
end

-- The next revision, which is written with the rest; one that Lua cannot count exactly is counted in the row, at once.
local function next_revision(row, revision)
  if #revision < 16 and (revision == '0' or string.find(revision, '^[1-9]%d*$')) then
    return string.format('%.0f', revision + 1)
  end
  redis.call('HINCRBY', row, 'rev', 1)
  return redis.call('HGET', row, 'rev'), true
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
  local fields, change = {'stage', 'READY', 'ready_at', moment, 'rev', after}, cjson.decode(ARGV[2])
  for _, name in ipairs(change.clear) do redis.call('HDEL', row, name) end
  for name, value in pairs(change.set) do
    fields[#fields + 1] = name
    fields[#fields + 1] = value
  end
  redis.call('HSET', row, unpack(fields))
end

-- The newest entry of the history that `test` accepts, among the newest thousand.
local function newest(stream, test)
  for _, entry in ipairs(redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1000)) do
    local fields = {}
    for i = 1, #entry[2], 2 do fields[entry[2][i]] = entry[2][i + 1] end
    if fields.outcome == 'moved' and test(fields) then return fields end
  end
end

-- Who moved the row to where it was found, if the history says so.
local function winner(stream, before, revision)
  local last = newest(stream, function() return true end)
  local same = last and last.after == before and last.revision == (revision or '')
  return same and last.actor ~= '' and last.actor
end

-- The refusal, with what was found.
local function not_moved(stream, i, before, revision, fence, unmet)
  local by = false
  by = winner(stream, before, revision) or false
  -- what the caller asked of the row comes before 'already': its revision (2), and its guards, which follow the declared ones
  local asked = unmet % 4 >= 2 or unmet >= 4
  local outcome = unmet % 2 == 1 and 'lost' or before == 'READY' and not asked and 'already' or 'refused'
  local noted = note(stream, i, outcome, before, revision)
  if noted.err then return {false, 'error', noted.err} end
  return {false, 'not moved', before, revision, fence, unmet, by}
end

local function decide(row, stream, i)
  -- a key of another type is not a row of ours
  local found = redis.pcall('HMGET', row, 'stage', 'fence', 'rev')
  local before = found[1]
  if found.err or not before then return {} end
  -- numbers stay texts, because Lua's lose digits beyond 2^53
  local revision, fence, unmet = found[3] or '0', found[2], 0
  unmet = unmet_by(row, fence, revision, i)
  -- P1: the row leaves only a status from which this move is declared
  if unmet > 0 or not sources[before] then return not_moved(stream, i, before, revision, fence, unmet) end

  -- what can fail comes first, for a script that fails half-way is not undone: the history, and then the whole row at once
  local after, counted = false, false
  after, counted = next_revision(row, revision)
  local noted = note(stream, i, 'moved', before, after)
  if noted.err and counted then redis.call('HINCRBY', row, 'rev', -1) end
  if noted.err then return {false, 'error', noted.err} end
  redis.call('HDEL', row, 'claimed_by', 'claimed_until')
  write(row, i, after)
  leave(row, string.sub(row, #'shop.parcels:' + 1))
  if true and not false then return {before, after, unpack(redis.call('HMGET', row, 'note'))} end
  return after and {before, after} or before
end

local function move_one()
  return decide(KEYS[1], KEYS[2], 1)
end

return move_one()

-- ready many: move
-- move
-- given_now = false
-- given_fence = ARGV[1]
-- given_change = ARGV[2]
-- given_by = ARGV[3]
-- given_reason = ARGV[4]
-- given_call = ARGV[4 + 0 * rows + i]
-- lifecycle = 'Parcel'
-- row_prefix = 'shop.parcels:'
-- revision_column = 'rev'
-- stream_key = KEYS[rows + i]
-- keys_of_a_row = 2
-- index = 'shop.parcels/pack'
-- lines = 'shop.parcels/pack/lines'
-- ordering_key = 'lane'
-- move_name = 'ready'
-- target = 'READY'
local sources = {['BUSY'] = true, ['NEW'] = true}
-- looked_at = 'stage', 'fence', 'rev'
-- seen_fence = found[2]
-- seen_revision = found[3] or '0'
-- first_asked = 4
-- move_fields = 'stage', 'READY', 'ready_at', moment, 'rev', after
-- cleared = 'claimed_by', 'claimed_until'
-- leases = 0

local rows = (#KEYS - 0) / 2

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

-- The line of rows with the value that this one has in its column `ordering_key`; '' without a value: such a row stands alone.
local function own_line(row, key)
  local value, tenant = redis.pcall('HGET', row, 'lane'), ''
  if type(value) ~= 'string' then return '' end
  tenant = string.match(key, '^[^:]*:?')
  return 'shop.parcels/pack' .. '/line:' .. tenant .. value
end

-- The line in which a row stands. It is kept beside the index, because a row that is gone can no longer say it (P13).
local function line_of(row, key)
  return redis.call('HGET', 'shop.parcels/pack/lines', key) or own_line(row, key)
end

-- Takes a row out of its line; the next in line follows into the index, and is returned.
local function leave_line(row, key)
  local line = line_of(row, key)
  redis.call('HDEL', 'shop.parcels/pack/lines', key)
  if line == '' then return end
  redis.call('ZREM', line, key)
  local following = redis.call('ZRANGE', line, 0, 0)[1]
  if following and redis.call('ZADD', 'shop.parcels/pack', 'NX', clock(), following) == 1 then return following end
end

-- Takes a row out of the index in which it waited, and out of its line.
local function leave(row, key)
  redis.call('ZREM', 'shop.parcels/pack', key)
  if 'lane' then return leave_line(row, key) end
end

local moment = false or clock()

local function note(stream, i, outcome, before, revision)
  return redis.pcall('XADD', stream, '*', 'lifecycle', 'Parcel', 'move', 'ready', 'outcome', outcome,
    'before', before, 'after', 'READY', 'revision', revision or '',
    'actor', ARGV[3], 'reason', ARGV[4], 'call', ARGV[4 + 0 * rows + i], 'at', moment)
end

-- The next revision, which is written with the rest; one that Lua cannot count exactly is counted in the row, at once.
local function next_revision(row, revision)
  if #revision < 16 and (revision == '0' or string.find(revision, '^[1-9]%d*$')) then
    return string.format('%.0f', revision + 1)
  end
  redis.call('HINCRBY', row, 'rev', 1)
  return redis.call('HGET', row, 'rev'), true
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
  local fields, change = {'stage', 'READY', 'ready_at', moment, 'rev', after}, cjson.decode(ARGV[2])
  for _, name in ipairs(change.clear) do redis.call('HDEL', row, name) end
  for name, value in pairs(change.set) do
    fields[#fields + 1] = name
    fields[#fields + 1] = value
  end
  redis.call('HSET', row, unpack(fields))
end

-- The newest entry of the history that `test` accepts, among the newest thousand.
local function newest(stream, test)
  for _, entry in ipairs(redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1000)) do
    local fields = {}
    for i = 1, #entry[2], 2 do fields[entry[2][i]] = entry[2][i + 1] end
    if fields.outcome == 'moved' and test(fields) then return fields end
  end
end

-- Who moved the row to where it was found, if the history says so.
local function winner(stream, before, revision)
  local last = newest(stream, function() return true end)
  local same = last and last.after == before and last.revision == (revision or '')
  return same and last.actor ~= '' and last.actor
end

-- The refusal, with what was found.
local function not_moved(stream, i, before, revision, fence, unmet)
  local by = false
  by = winner(stream, before, revision) or false
  -- what the caller asked of the row comes before 'already': its revision (2), and its guards, which follow the declared ones
  local asked = unmet % 4 >= 2 or unmet >= 4
  local outcome = unmet % 2 == 1 and 'lost' or before == 'READY' and not asked and 'already' or 'refused'
  local noted = note(stream, i, outcome, before, revision)
  if noted.err then return {false, 'error', noted.err} end
  return {false, 'not moved', before, revision, fence, unmet, by}
end

local function decide(row, stream, i)
  -- a key of another type is not a row of ours
  local found = redis.pcall('HMGET', row, 'stage', 'fence', 'rev')
  local before = found[1]
  if found.err or not before then return {} end
  -- numbers stay texts, because Lua's lose digits beyond 2^53
  local revision, fence, unmet = found[3] or '0', found[2], 0
  unmet = unmet_by(row, fence, revision, i)
  -- P1: the row leaves only a status from which this move is declared
  if unmet > 0 or not sources[before] then return not_moved(stream, i, before, revision, fence, unmet) end

  -- what can fail comes first, for a script that fails half-way is not undone: the history, and then the whole row at once
  local after, counted = false, false
  after, counted = next_revision(row, revision)
  local noted = note(stream, i, 'moved', before, after)
  if noted.err and counted then redis.call('HINCRBY', row, 'rev', -1) end
  if noted.err then return {false, 'error', noted.err} end
  redis.call('HDEL', row, 'claimed_by', 'claimed_until')
  write(row, i, after)
  leave(row, string.sub(row, #'shop.parcels:' + 1))
  return after and {before, after} or before
end

-- A row that fails is answered alone.
local function move_many()
  local answers = {}
  for i = 1, rows do
    local fine, answer = pcall(decide, KEYS[i], KEYS[rows + i], i)
    if not fine then answer = {false, 'error', type(answer) == 'table' and answer.err or tostring(answer)} end
    answers[i] = answer
  end
  return answers
end

return move_many()

-- start by key: move
-- move
-- given_now = false
-- given_guards = ARGV[1]
-- given_by = ARGV[2]
-- given_reason = ARGV[3]
-- given_call = ARGV[4]
-- lifecycle = 'Parcel'
-- revision_column = 'rev'
-- move_name = 'start'
-- target = 'BUSY'
local sources = {['NEW'] = true}
-- looked_at = 'stage', 'rev'
-- seen_fence = false
-- seen_revision = found[2] or '0'
-- first_asked = 8
-- move_fields = 'stage', 'BUSY', 'started_at', moment, 'rev', after

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local moment = false or clock()

local function note(stream, i, outcome, before, revision)
  return redis.pcall('XADD', stream, '*', 'lifecycle', 'Parcel', 'move', 'start', 'outcome', outcome,
    'before', before, 'after', 'BUSY', 'revision', revision or '',
    'actor', ARGV[2], 'reason', ARGV[3], 'call', ARGV[4], 'at', moment)
end

-- The next revision, which is written with the rest; one that Lua cannot count exactly is counted in the row, at once.
local function next_revision(row, revision)
  if #revision < 16 and (revision == '0' or string.find(revision, '^[1-9]%d*$')) then
    return string.format('%.0f', revision + 1)
  end
  redis.call('HINCRBY', row, 'rev', 1)
  return redis.call('HGET', row, 'rev'), true
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

-- The newest entry of the history that `test` accepts, among the newest thousand.
local function newest(stream, test)
  for _, entry in ipairs(redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1000)) do
    local fields = {}
    for i = 1, #entry[2], 2 do fields[entry[2][i]] = entry[2][i + 1] end
    if fields.outcome == 'moved' and test(fields) then return fields end
  end
end

-- Who moved the row to where it was found, if the history says so.
local function winner(stream, before, revision)
  local last = newest(stream, function() return true end)
  local same = last and last.after == before and last.revision == (revision or '')
  return same and last.actor ~= '' and last.actor
end

-- The refusal, with what was found.
local function not_moved(stream, i, before, revision, fence, unmet)
  local by = false
  by = winner(stream, before, revision) or false
  -- what the caller asked of the row comes before 'already': its revision (2), and its guards, which follow the declared ones
  local asked = unmet % 4 >= 2 or unmet >= 8
  local outcome = unmet % 2 == 1 and 'lost' or before == 'BUSY' and not asked and 'already' or 'refused'
  local noted = note(stream, i, outcome, before, revision)
  if noted.err then return {false, 'error', noted.err} end
  return {false, 'not moved', before, revision, fence, unmet, by}
end

local function decide(row, stream, i)
  -- a key of another type is not a row of ours
  local found = redis.pcall('HMGET', row, 'stage', 'rev')
  local before = found[1]
  if found.err or not before then return {} end
  -- numbers stay texts, because Lua's lose digits beyond 2^53
  local revision, fence, unmet = found[2] or '0', false, 0
  unmet = unmet_by(row, fence, revision, i)
  -- P1: the row leaves only a status from which this move is declared
  if unmet > 0 or not sources[before] then return not_moved(stream, i, before, revision, fence, unmet) end

  -- what can fail comes first, for a script that fails half-way is not undone: the history, and then the whole row at once
  local after, counted = false, false
  after, counted = next_revision(row, revision)
  local noted = note(stream, i, 'moved', before, after)
  if noted.err and counted then redis.call('HINCRBY', row, 'rev', -1) end
  if noted.err then return {false, 'error', noted.err} end
  redis.call('HSET', row, 'stage', 'BUSY', 'started_at', moment, 'rev', after)
  return after and {before, after} or before
end

local function move_one()
  return decide(KEYS[1], KEYS[2], 1)
end

return move_one()

-- give up by key: move
-- move
-- given_now = false
-- given_revision = ARGV[1]
-- given_by = ARGV[2]
-- given_reason = ARGV[3]
-- given_call = ARGV[4]
-- lifecycle = 'Parcel'
-- row_prefix = 'shop.parcels:'
-- revision_column = 'rev'
-- index = 'shop.parcels/pack'
-- lines = 'shop.parcels/pack/lines'
-- ordering_key = 'lane'
-- ends_claims = true
-- ended_columns = 'claimed_by', 'claimed_until'
-- ended_fences = 'fence', grown(found[4], now)
-- move_name = 'give_up'
-- target = 'GONE'
local sources = {['NEW'] = true, ['BUSY'] = true}
-- looked_at = 'stage', 'rev', 'claimed_by', 'fence'
-- seen_fence = false
-- seen_revision = found[2] or '0'
-- first_asked = 4
-- move_fields = 'stage', 'GONE', 'gone_at', moment, 'rev', after
-- fenced_off = found[3] or false

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

-- The line of rows with the value that this one has in its column `ordering_key`; '' without a value: such a row stands alone.
local function own_line(row, key)
  local value, tenant = redis.pcall('HGET', row, 'lane'), ''
  if type(value) ~= 'string' then return '' end
  tenant = string.match(key, '^[^:]*:?')
  return 'shop.parcels/pack' .. '/line:' .. tenant .. value
end

-- The line in which a row stands. It is kept beside the index, because a row that is gone can no longer say it (P13).
local function line_of(row, key)
  return redis.call('HGET', 'shop.parcels/pack/lines', key) or own_line(row, key)
end

-- Takes a row out of its line; the next in line follows into the index, and is returned.
local function leave_line(row, key)
  local line = line_of(row, key)
  redis.call('HDEL', 'shop.parcels/pack/lines', key)
  if line == '' then return end
  redis.call('ZREM', line, key)
  local following = redis.call('ZRANGE', line, 0, 0)[1]
  if following and redis.call('ZADD', 'shop.parcels/pack', 'NX', clock(), following) == 1 then return following end
end

-- Takes a row out of the index in which it waited, and out of its line.
local function leave(row, key)
  redis.call('ZREM', 'shop.parcels/pack', key)
  if 'lane' then return leave_line(row, key) end
end

-- The whole number after this one, 1 if there is none, and nothing if it is not a whole number. Lua's own numbers lose
-- digits beyond 2^53: a longer one stays text.
local function one_more(text)
  if not text then return 1 end
  if #text < 16 and string.find(text, '^%-?%d+$') then return text + 1 end
  local head, digit, nines = string.match('0' .. text, '^(%d-)([0-8])(9*)$')
  return head and string.gsub(head .. digit + 1 .. string.rep('0', #nines), '^0+', '') or nil
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
  redis.call('HSET', row, 'fence', grown(found[4], now))
end

local function note(stream, i, outcome, before, revision)
  return redis.pcall('XADD', stream, '*', 'lifecycle', 'Parcel', 'move', 'give_up', 'outcome', outcome,
    'before', before, 'after', 'GONE', 'revision', revision or '',
    'actor', ARGV[2], 'reason', ARGV[3], 'call', ARGV[4], 'at', moment)
end

-- The next revision, which is written with the rest; one that Lua cannot count exactly is counted in the row, at once.
local function next_revision(row, revision)
  if #revision < 16 and (revision == '0' or string.find(revision, '^[1-9]%d*$')) then
    return string.format('%.0f', revision + 1)
  end
  redis.call('HINCRBY', row, 'rev', 1)
  return redis.call('HGET', row, 'rev'), true
end

-- Which of the caller's and the declared guards do not hold, as bits: the fence 1, the revision 2, then the predicates.
local function unmet_by(row, fence, revision, i)
  local unmet = 0
  if revision ~= ARGV[1] then unmet = unmet + 2 end
  return unmet
end

-- The newest entry of the history that `test` accepts, among the newest thousand.
local function newest(stream, test)
  for _, entry in ipairs(redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1000)) do
    local fields = {}
    for i = 1, #entry[2], 2 do fields[entry[2][i]] = entry[2][i + 1] end
    if fields.outcome == 'moved' and test(fields) then return fields end
  end
end

-- Who moved the row to where it was found, if the history says so.
local function winner(stream, before, revision)
  local last = newest(stream, function() return true end)
  local same = last and last.after == before and last.revision == (revision or '')
  return same and last.actor ~= '' and last.actor
end

-- The refusal, with what was found.
local function not_moved(stream, i, before, revision, fence, unmet)
  local by = false
  by = winner(stream, before, revision) or false
  -- what the caller asked of the row comes before 'already': its revision (2), and its guards, which follow the declared ones
  local asked = unmet % 4 >= 2 or unmet >= 4
  local outcome = unmet % 2 == 1 and 'lost' or before == 'GONE' and not asked and 'already' or 'refused'
  local noted = note(stream, i, outcome, before, revision)
  if noted.err then return {false, 'error', noted.err} end
  return {false, 'not moved', before, revision, fence, unmet, by}
end

local function decide(row, stream, i)
  -- a key of another type is not a row of ours
  local found = redis.pcall('HMGET', row, 'stage', 'rev', 'claimed_by', 'fence')
  local before = found[1]
  if found.err or not before then return {} end
  -- numbers stay texts, because Lua's lose digits beyond 2^53
  local revision, fence, unmet = found[2] or '0', false, 0
  unmet = unmet_by(row, fence, revision, i)
  -- P1: the row leaves only a status from which this move is declared
  if unmet > 0 or not sources[before] then return not_moved(stream, i, before, revision, fence, unmet) end

  -- what can fail comes first, for a script that fails half-way is not undone: the history, and then the whole row at once
  local after, counted = false, false
  after, counted = next_revision(row, revision)
  local noted = note(stream, i, 'moved', before, after)
  if noted.err and counted then redis.call('HINCRBY', row, 'rev', -1) end
  if noted.err then return {false, 'error', noted.err} end
  end_claims(row, found)
  redis.call('HSET', row, 'stage', 'GONE', 'gone_at', moment, 'rev', after)
  leave(row, string.sub(row, #'shop.parcels:' + 1))
  if true then return {before, after, found[3] or false} end
  return after and {before, after} or before
end

local function move_one()
  return decide(KEYS[1], KEYS[2], 1)
end

return move_one()

-- give up many by key: move
-- move
-- given_now = false
-- given_by = ARGV[1]
-- given_reason = ARGV[2]
-- given_call = ARGV[2 + 0 * rows + i]
-- lifecycle = 'Parcel'
-- row_prefix = 'shop.parcels:'
-- revision_column = 'rev'
-- stream_key = KEYS[rows + i]
-- keys_of_a_row = 2
-- index = 'shop.parcels/pack'
-- lines = 'shop.parcels/pack/lines'
-- ordering_key = 'lane'
-- ends_claims = true
-- ended_columns = 'claimed_by', 'claimed_until'
-- ended_fences = 'fence', grown(found[4], now)
-- move_name = 'give_up'
-- target = 'GONE'
local sources = {['NEW'] = true, ['BUSY'] = true}
-- looked_at = 'stage', 'rev', 'claimed_by', 'fence'
-- seen_fence = false
-- seen_revision = found[2] or '0'
-- first_asked = 4
-- move_fields = 'stage', 'GONE', 'gone_at', moment, 'rev', after
-- fenced_off = found[3] or false
-- leases = 0

local rows = (#KEYS - 0) / 2

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

-- The line of rows with the value that this one has in its column `ordering_key`; '' without a value: such a row stands alone.
local function own_line(row, key)
  local value, tenant = redis.pcall('HGET', row, 'lane'), ''
  if type(value) ~= 'string' then return '' end
  tenant = string.match(key, '^[^:]*:?')
  return 'shop.parcels/pack' .. '/line:' .. tenant .. value
end

-- The line in which a row stands. It is kept beside the index, because a row that is gone can no longer say it (P13).
local function line_of(row, key)
  return redis.call('HGET', 'shop.parcels/pack/lines', key) or own_line(row, key)
end

-- Takes a row out of its line; the next in line follows into the index, and is returned.
local function leave_line(row, key)
  local line = line_of(row, key)
  redis.call('HDEL', 'shop.parcels/pack/lines', key)
  if line == '' then return end
  redis.call('ZREM', line, key)
  local following = redis.call('ZRANGE', line, 0, 0)[1]
  if following and redis.call('ZADD', 'shop.parcels/pack', 'NX', clock(), following) == 1 then return following end
end

-- Takes a row out of the index in which it waited, and out of its line.
local function leave(row, key)
  redis.call('ZREM', 'shop.parcels/pack', key)
  if 'lane' then return leave_line(row, key) end
end

-- The whole number after this one, 1 if there is none, and nothing if it is not a whole number. Lua's own numbers lose
-- digits beyond 2^53: a longer one stays text.
local function one_more(text)
  if not text then return 1 end
  if #text < 16 and string.find(text, '^%-?%d+$') then return text + 1 end
  local head, digit, nines = string.match('0' .. text, '^(%d-)([0-8])(9*)$')
  return head and string.gsub(head .. digit + 1 .. string.rep('0', #nines), '^0+', '') or nil
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
  redis.call('HSET', row, 'fence', grown(found[4], now))
end

local function note(stream, i, outcome, before, revision)
  return redis.pcall('XADD', stream, '*', 'lifecycle', 'Parcel', 'move', 'give_up', 'outcome', outcome,
    'before', before, 'after', 'GONE', 'revision', revision or '',
    'actor', ARGV[1], 'reason', ARGV[2], 'call', ARGV[2 + 0 * rows + i], 'at', moment)
end

-- The next revision, which is written with the rest; one that Lua cannot count exactly is counted in the row, at once.
local function next_revision(row, revision)
  if #revision < 16 and (revision == '0' or string.find(revision, '^[1-9]%d*$')) then
    return string.format('%.0f', revision + 1)
  end
  redis.call('HINCRBY', row, 'rev', 1)
  return redis.call('HGET', row, 'rev'), true
end

-- The newest entry of the history that `test` accepts, among the newest thousand.
local function newest(stream, test)
  for _, entry in ipairs(redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1000)) do
    local fields = {}
    for i = 1, #entry[2], 2 do fields[entry[2][i]] = entry[2][i + 1] end
    if fields.outcome == 'moved' and test(fields) then return fields end
  end
end

-- Who moved the row to where it was found, if the history says so.
local function winner(stream, before, revision)
  local last = newest(stream, function() return true end)
  local same = last and last.after == before and last.revision == (revision or '')
  return same and last.actor ~= '' and last.actor
end

-- The refusal, with what was found.
local function not_moved(stream, i, before, revision, fence, unmet)
  local by = false
  by = winner(stream, before, revision) or false
  -- what the caller asked of the row comes before 'already': its revision (2), and its guards, which follow the declared ones
  local asked = unmet % 4 >= 2 or unmet >= 4
  local outcome = unmet % 2 == 1 and 'lost' or before == 'GONE' and not asked and 'already' or 'refused'
  local noted = note(stream, i, outcome, before, revision)
  if noted.err then return {false, 'error', noted.err} end
  return {false, 'not moved', before, revision, fence, unmet, by}
end

local function decide(row, stream, i)
  -- a key of another type is not a row of ours
  local found = redis.pcall('HMGET', row, 'stage', 'rev', 'claimed_by', 'fence')
  local before = found[1]
  if found.err or not before then return {} end
  -- numbers stay texts, because Lua's lose digits beyond 2^53
  local revision, fence, unmet = found[2] or '0', false, 0
  -- P1: the row leaves only a status from which this move is declared
  if unmet > 0 or not sources[before] then return not_moved(stream, i, before, revision, fence, unmet) end

  -- what can fail comes first, for a script that fails half-way is not undone: the history, and then the whole row at once
  local after, counted = false, false
  after, counted = next_revision(row, revision)
  local noted = note(stream, i, 'moved', before, after)
  if noted.err and counted then redis.call('HINCRBY', row, 'rev', -1) end
  if noted.err then return {false, 'error', noted.err} end
  end_claims(row, found)
  redis.call('HSET', row, 'stage', 'GONE', 'gone_at', moment, 'rev', after)
  leave(row, string.sub(row, #'shop.parcels:' + 1))
  if true then return {before, after, found[3] or false} end
  return after and {before, after} or before
end

-- A row that fails is answered alone.
local function move_many()
  local answers = {}
  for i = 1, rows do
    local fine, answer = pcall(decide, KEYS[i], KEYS[rows + i], i)
    if not fine then answer = {false, 'error', type(answer) == 'table' and answer.err or tostring(answer)} end
    answers[i] = answer
  end
  return answers
end

return move_many()

-- give up what matches: scan, move
-- scan
SCAN

-- move
-- given_now = false
-- given_guards = ARGV[1]
-- given_by = ARGV[2]
-- given_reason = ARGV[3]
-- given_call = ARGV[4]
-- lifecycle = 'Parcel'
-- row_prefix = 'shop.parcels:'
-- revision_column = 'rev'
-- stream_key = KEYS[rows + i]
-- keys_of_a_row = 2
-- index = 'shop.parcels/pack'
-- lines = 'shop.parcels/pack/lines'
-- ordering_key = 'lane'
-- ends_claims = true
-- ended_columns = 'claimed_by', 'claimed_until'
-- ended_fences = 'fence', grown(found[4], now)
-- move_name = 'give_up'
-- target = 'GONE'
local sources = {['NEW'] = true, ['BUSY'] = true}
-- looked_at = 'stage', 'rev', 'claimed_by', 'fence'
-- seen_fence = false
-- seen_revision = found[2] or '0'
-- first_asked = 4
-- move_fields = 'stage', 'GONE', 'gone_at', moment, 'rev', after
-- fenced_off = found[3] or false
-- leases = 0

local rows = (#KEYS - 0) / 2

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

-- The line of rows with the value that this one has in its column `ordering_key`; '' without a value: such a row stands alone.
local function own_line(row, key)
  local value, tenant = redis.pcall('HGET', row, 'lane'), ''
  if type(value) ~= 'string' then return '' end
  tenant = string.match(key, '^[^:]*:?')
  return 'shop.parcels/pack' .. '/line:' .. tenant .. value
end

-- The line in which a row stands. It is kept beside the index, because a row that is gone can no longer say it (P13).
local function line_of(row, key)
  return redis.call('HGET', 'shop.parcels/pack/lines', key) or own_line(row, key)
end

-- Takes a row out of its line; the next in line follows into the index, and is returned.
local function leave_line(row, key)
  local line = line_of(row, key)
  redis.call('HDEL', 'shop.parcels/pack/lines', key)
  if line == '' then return end
  redis.call('ZREM', line, key)
  local following = redis.call('ZRANGE', line, 0, 0)[1]
  if following and redis.call('ZADD', 'shop.parcels/pack', 'NX', clock(), following) == 1 then return following end
end

-- Takes a row out of the index in which it waited, and out of its line.
local function leave(row, key)
  redis.call('ZREM', 'shop.parcels/pack', key)
  if 'lane' then return leave_line(row, key) end
end

-- The whole number after this one, 1 if there is none, and nothing if it is not a whole number. Lua's own numbers lose
-- digits beyond 2^53: a longer one stays text.
local function one_more(text)
  if not text then return 1 end
  if #text < 16 and string.find(text, '^%-?%d+$') then return text + 1 end
  local head, digit, nines = string.match('0' .. text, '^(%d-)([0-8])(9*)$')
  return head and string.gsub(head .. digit + 1 .. string.rep('0', #nines), '^0+', '') or nil
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
  redis.call('HSET', row, 'fence', grown(found[4], now))
end

local function note(stream, i, outcome, before, revision)
  return redis.pcall('XADD', stream, '*', 'lifecycle', 'Parcel', 'move', 'give_up', 'outcome', outcome,
    'before', before, 'after', 'GONE', 'revision', revision or '',
    'actor', ARGV[2], 'reason', ARGV[3], 'call', ARGV[4], 'at', moment)
end

-- The next revision, which is written with the rest; one that Lua cannot count exactly is counted in the row, at once.
local function next_revision(row, revision)
  if #revision < 16 and (revision == '0' or string.find(revision, '^[1-9]%d*$')) then
    return string.format('%.0f', revision + 1)
  end
  redis.call('HINCRBY', row, 'rev', 1)
  return redis.call('HGET', row, 'rev'), true
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

-- The newest entry of the history that `test` accepts, among the newest thousand.
local function newest(stream, test)
  for _, entry in ipairs(redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1000)) do
    local fields = {}
    for i = 1, #entry[2], 2 do fields[entry[2][i]] = entry[2][i + 1] end
    if fields.outcome == 'moved' and test(fields) then return fields end
  end
end

-- Who moved the row to where it was found, if the history says so.
local function winner(stream, before, revision)
  local last = newest(stream, function() return true end)
  local same = last and last.after == before and last.revision == (revision or '')
  return same and last.actor ~= '' and last.actor
end

-- The refusal, with what was found.
local function not_moved(stream, i, before, revision, fence, unmet)
  local by = false
  by = winner(stream, before, revision) or false
  -- what the caller asked of the row comes before 'already': its revision (2), and its guards, which follow the declared ones
  local asked = unmet % 4 >= 2 or unmet >= 4
  local outcome = unmet % 2 == 1 and 'lost' or before == 'GONE' and not asked and 'already' or 'refused'
  local noted = note(stream, i, outcome, before, revision)
  if noted.err then return {false, 'error', noted.err} end
  return {false, 'not moved', before, revision, fence, unmet, by}
end

local function decide(row, stream, i)
  -- a key of another type is not a row of ours
  local found = redis.pcall('HMGET', row, 'stage', 'rev', 'claimed_by', 'fence')
  local before = found[1]
  if found.err or not before then return {} end
  -- numbers stay texts, because Lua's lose digits beyond 2^53
  local revision, fence, unmet = found[2] or '0', false, 0
  unmet = unmet_by(row, fence, revision, i)
  -- P1: the row leaves only a status from which this move is declared
  if unmet > 0 or not sources[before] then return not_moved(stream, i, before, revision, fence, unmet) end

  -- what can fail comes first, for a script that fails half-way is not undone: the history, and then the whole row at once
  local after, counted = false, false
  after, counted = next_revision(row, revision)
  local noted = note(stream, i, 'moved', before, after)
  if noted.err and counted then redis.call('HINCRBY', row, 'rev', -1) end
  if noted.err then return {false, 'error', noted.err} end
  end_claims(row, found)
  redis.call('HSET', row, 'stage', 'GONE', 'gone_at', moment, 'rev', after)
  leave(row, string.sub(row, #'shop.parcels:' + 1))
  if true then return {before, after, found[3] or false} end
  return after and {before, after} or before
end

-- A row that fails is answered alone.
local function move_many()
  local answers = {}
  for i = 1, rows do
    local fine, answer = pcall(decide, KEYS[i], KEYS[rows + i], i)
    if not fine then answer = {false, 'error', type(answer) == 'table' and answer.err or tostring(answer)} end
    answers[i] = answer
  end
  return answers
end

return move_many()

-- dead-lettered: claim.acquire, claim.dead_letter, claim.acquire, claim.dead_letter, claim.acquire, claim.dead_letter, claim.acquire, claim.dead_letter, claim.acquire, claim.dead_letter, claim.acquire, claim.dead_letter
-- claim.acquire
-- given_now = ARGV[6]
-- given_guards = ARGV[7]
-- begin = ARGV[5]
-- by = ARGV[1]
-- limit = ARGV[2]
-- offset = ARGV[4]
-- page = ARGV[3]
-- lease = 45.0
-- reason = ''
-- lifecycle = 'Parcel'
-- row_prefix = 'shop.parcels:'
-- revision_column = 'rev'
-- history = true
-- stream_prefix = 'shop.parcels/history:'
-- index = 'shop.parcels/pack'
-- lines = 'shop.parcels/pack/lines'
-- ordering_key = 'lane'
-- seen_attempts = seen[5]
-- seen_revision = seen[6]
-- seen_not_before = seen[4]
-- looked_at = 'stage', 'claimed_until', 'fence', 'rests_until', 'tries', 'rev'
local open = {['NEW'] = true, ['BUSY'] = true}
-- lease_end = columns_end
-- next_fence = columns_fence
-- claim_fields = 'claimed_by', ARGV[1], 'fence', fence, 'claimed_until', ends_then, 'stage', 'BUSY', 'started_at', moment, 'rev', revision, 'tries', attempts
-- attempts_column = 'tries'
-- max_attempts = 4
-- start_name = 'start'
-- start_target = 'BUSY'

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

local moment = ARGV[6] or clock()

local now = tonumber(moment)

local guarded = cjson.decode(ARGV[7])

-- When the lease of a row ends, by what stands there; nothing if it has no holder. For each form of a claim.
local function columns_end(text)
  return tonumber(text or nil)
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

-- Why a row cannot be claimed, as bits: its status 1, its holder 2, its backoff 4, its attempts 8, then from 32 on the guards.
local function obstacles(row, seen)
  if not seen[1] then return 1 end
  local unmet = open[seen[1]] and 0 or 1
  if is_held(columns_end(seen[2]), seen[3]) then unmet = unmet + 2 end
  if (tonumber(seen[4]) or 0) > now then unmet = unmet + 4 end
  if (tonumber(seen[5]) or 0) >= 4 then unmet = unmet + 8 end
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

local ends_then = string.format('%.6f', now + 45.0)

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

local function note(stream, move, outcome, before, after, revision, actor)
  return redis.pcall('XADD', stream, '*', 'lifecycle', 'Parcel', 'move', move, 'outcome', outcome, 'before', before,
    'after', after, 'revision', revision, 'actor', actor, 'reason', '', 'call', '', 'at', moment)
end

-- The row's next revision as text, '' without one; nothing if it is not a number.
local function next_revision(seen)
  if 'rev' then return one_more(seen[6]) end
  return ''
end

-- Writes a claim into the row, and returns its fence and how many attempts there were; or false, and why it cannot.
local function hold(row, key, stream, seen)
  local before, fence, revision, attempts = seen[1], columns_fence(seen[3]), next_revision(seen), 1
  attempts = one_more(seen[5])
  if not attempts then return false, 'tries' .. ' is not a whole number' end
  if not revision then return false, 'rev' .. ' is not a whole number' end
  local moved = 'BUSY' and before ~= 'BUSY'
  local outcome, after = moved and 'moved' or 'claimed', 'BUSY' or before
  local noted = note(stream, 'start', outcome, before, after, revision, ARGV[1])
  if noted.err then return false, noted.err end
  redis.call('ZADD', 'shop.parcels/pack', ends_then, key)
  redis.call('HSET', row, 'claimed_by', ARGV[1], 'fence', fence, 'claimed_until', ends_then, 'stage', 'BUSY', 'started_at', moment, 'rev', revision, 'tries', attempts)
  return fence, tonumber(attempts)
end

-- Those of these keys that belong to the tenant.
local function owned(keys)
  local own = {}
  for _, key in ipairs(keys) do
    if string.sub(key, 1, #ARGV[5]) == ARGV[5] then own[#own + 1] = key end
  end
  return own
end

-- The keys that the index proposes, how many it proposed, and how many of these are of other tenants and stay where they are.
local function proposals()
  local keys = redis.call('ZRANGEBYSCORE', 'shop.parcels/pack', '-inf', moment, 'LIMIT', ARGV[4], ARGV[3])
  local proposed = #keys
  keys = owned(keys)
  return keys, proposed, proposed - #keys
end

-- P13: rows that wait for longer than any lease either back off, or were held when the clock was set back. Where there is
-- nothing else, a few of them are looked at, from a place that the clock chooses, so that each is reached.
local function far_ahead()
  local later = '(' .. string.format('%.6f', now + 2 * 45.0)
  local number = redis.call('ZCOUNT', 'shop.parcels/pack', later, '+inf')
  local first = math.floor(now * 1000) % math.max(number - 9, 1)
  local keys = redis.call('ZRANGEBYSCORE', 'shop.parcels/pack', later, '+inf', 'LIMIT', first, 10)
  keys = owned(keys)
  return keys
end

-- The stream of a row that the index proposes.
local function stream_of(key)
  return true and 'shop.parcels/history:' .. key
end

-- A row that cannot be decided does not block the others: it is reported, and proposed again when a lease is over.
local function pass_over(failed, key, why)
  redis.call('ZADD', 'shop.parcels/pack', ends_then, key)
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
  local value, tenant = redis.pcall('HGET', row, 'lane'), ''
  if type(value) ~= 'string' then return '' end
  tenant = string.match(key, '^[^:]*:?')
  return 'shop.parcels/pack' .. '/line:' .. tenant .. value
end

-- The line in which a row stands. It is kept beside the index, because a row that is gone can no longer say it (P13).
local function line_of(row, key)
  return redis.call('HGET', 'shop.parcels/pack/lines', key) or own_line(row, key)
end

-- Takes a row out of its line; the next in line follows into the index, and is returned.
local function leave_line(row, key)
  local line = line_of(row, key)
  redis.call('HDEL', 'shop.parcels/pack/lines', key)
  if line == '' then return end
  redis.call('ZREM', line, key)
  local following = redis.call('ZRANGE', line, 0, 0)[1]
  if following and redis.call('ZADD', 'shop.parcels/pack', 'NX', clock(), following) == 1 then return following end
end

-- Takes a row out of the index in which it waited, and out of its line.
local function leave(row, key)
  redis.call('ZREM', 'shop.parcels/pack', key)
  if 'lane' then return leave_line(row, key) end
end

-- What becomes of a proposed row that cannot be claimed. Returns whether it stays where it is in the index, and who follows it.
local function put_aside(row, key, seen, unmet)
  if unmet % 2 == 1 then return false, leave(row, key) end
  if unmet % 4 >= 2 then
    -- held: it is proposed again when the lease is over
    redis.call('ZADD', 'shop.parcels/pack', string.format('%.6f', columns_end(seen[2])), key)
    return false
  end
  if unmet % 8 >= 4 then
    redis.call('ZADD', 'shop.parcels/pack', string.format('%.6f', seen[4]), key)
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
    local row = 'shop.parcels:' .. key
    -- a key of another type is not a row of ours
    local seen = redis.pcall('HMGET', row, 'stage', 'claimed_until', 'fence', 'rests_until', 'tries', 'rev')
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
-- given_now = ARGV[6]
-- given_guards = ARGV[7]
-- begin = ARGV[5]
-- by = ARGV[1]
-- limit = ARGV[2]
-- offset = ARGV[4]
-- page = ARGV[3]
-- lease = 45.0
-- reason = ''
-- lifecycle = 'Parcel'
-- row_prefix = 'shop.parcels:'
-- revision_column = 'rev'
-- history = true
-- stream_prefix = 'shop.parcels/history:'
-- index = 'shop.parcels/pack'
-- lines = 'shop.parcels/pack/lines'
-- ordering_key = 'lane'
-- seen_attempts = seen[5]
-- seen_revision = seen[6]
-- seen_not_before = seen[4]
-- looked_at = 'stage', 'claimed_until', 'fence', 'rests_until', 'tries', 'rev'
local open = {['NEW'] = true, ['BUSY'] = true}
-- lease_end = columns_end
-- dead_letter_fields = 'stage', 'GONE', 'gone_at', moment, 'rev', revision
-- cleared = 'claimed_by', 'claimed_until'
-- max_attempts = 4
-- dead_letter_name = 'give_up'
-- dead_letter_target = 'GONE'

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

-- The line of rows with the value that this one has in its column `ordering_key`; '' without a value: such a row stands alone.
local function own_line(row, key)
  local value, tenant = redis.pcall('HGET', row, 'lane'), ''
  if type(value) ~= 'string' then return '' end
  tenant = string.match(key, '^[^:]*:?')
  return 'shop.parcels/pack' .. '/line:' .. tenant .. value
end

-- The line in which a row stands. It is kept beside the index, because a row that is gone can no longer say it (P13).
local function line_of(row, key)
  return redis.call('HGET', 'shop.parcels/pack/lines', key) or own_line(row, key)
end

-- Takes a row out of its line; the next in line follows into the index, and is returned.
local function leave_line(row, key)
  local line = line_of(row, key)
  redis.call('HDEL', 'shop.parcels/pack/lines', key)
  if line == '' then return end
  redis.call('ZREM', line, key)
  local following = redis.call('ZRANGE', line, 0, 0)[1]
  if following and redis.call('ZADD', 'shop.parcels/pack', 'NX', clock(), following) == 1 then return following end
end

-- Takes a row out of the index in which it waited, and out of its line.
local function leave(row, key)
  redis.call('ZREM', 'shop.parcels/pack', key)
  if 'lane' then return leave_line(row, key) end
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

local moment = ARGV[6] or clock()

local now = tonumber(moment)

local guarded = cjson.decode(ARGV[7])

-- When the lease of a row ends, by what stands there; nothing if it has no holder. For each form of a claim.
local function columns_end(text)
  return tonumber(text or nil)
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

-- Why a row cannot be claimed, as bits: its status 1, its holder 2, its backoff 4, its attempts 8, then from 32 on the guards.
local function obstacles(row, seen)
  if not seen[1] then return 1 end
  local unmet = open[seen[1]] and 0 or 1
  if is_held(columns_end(seen[2]), seen[3]) then unmet = unmet + 2 end
  if (tonumber(seen[4]) or 0) > now then unmet = unmet + 4 end
  if (tonumber(seen[5]) or 0) >= 4 then unmet = unmet + 8 end
  unmet = unmet + unmet_guards(row, guarded, 32)
  return unmet
end

local function note(stream, move, outcome, before, after, revision, actor)
  return redis.pcall('XADD', stream, '*', 'lifecycle', 'Parcel', 'move', move, 'outcome', outcome, 'before', before,
    'after', after, 'revision', revision, 'actor', actor, 'reason', '', 'call', '', 'at', moment)
end

-- The whole number after this one, 1 if there is none, and nothing if it is not a whole number. Lua's own numbers lose
-- digits beyond 2^53: a longer one stays text.
local function one_more(text)
  if not text then return 1 end
  if #text < 16 and string.find(text, '^%-?%d+$') then return text + 1 end
  local head, digit, nines = string.match('0' .. text, '^(%d-)([0-8])(9*)$')
  return head and string.gsub(head .. digit + 1 .. string.rep('0', #nines), '^0+', '') or nil
end

-- The row's next revision as text, '' without one; nothing if it is not a number.
local function next_revision(seen)
  if 'rev' then return one_more(seen[6]) end
  return ''
end

-- Moves a row out of the way; returns why it cannot.
local function dead_letter_row(row, stream, seen)
  local revision = next_revision(seen)
  if not revision then return 'rev' .. ' is not a whole number' end
  local noted = note(stream, 'give_up', 'moved', seen[1], 'GONE', revision, ARGV[1])
  if noted.err then return noted.err end
  redis.call('HDEL', row, 'claimed_by', 'claimed_until')
  redis.call('HSET', row, 'stage', 'GONE', 'gone_at', moment, 'rev', revision)
end

-- Those of these keys that belong to the tenant.
local function owned(keys)
  local own = {}
  for _, key in ipairs(keys) do
    if string.sub(key, 1, #ARGV[5]) == ARGV[5] then own[#own + 1] = key end
  end
  return own
end

-- The keys that the index proposes, how many it proposed, and how many of these are of other tenants and stay where they are.
local function proposals()
  local keys = redis.call('ZRANGEBYSCORE', 'shop.parcels/pack', '-inf', moment, 'LIMIT', ARGV[4], ARGV[3])
  local proposed = #keys
  keys = owned(keys)
  return keys, proposed, proposed - #keys
end

-- The stream of a row that the index proposes.
local function stream_of(key)
  return true and 'shop.parcels/history:' .. key
end

local ends_then = string.format('%.6f', now + 45.0)

-- A row that cannot be decided does not block the others: it is reported, and proposed again when a lease is over.
local function pass_over(failed, key, why)
  redis.call('ZADD', 'shop.parcels/pack', ends_then, key)
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
    local row = 'shop.parcels:' .. key
    local seen = redis.pcall('HMGET', row, 'stage', 'claimed_until', 'fence', 'rests_until', 'tries', 'rev')
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

-- claims: claim.listed
-- claim.listed
-- given_now = false
-- offset = ARGV[1]
-- page = 500
-- row_prefix = 'shop.parcels:'
-- index = 'shop.parcels/pack'
-- seen_holder = seen[6]
-- seen_attempts = seen[5]
-- looked_at = 'stage', 'claimed_until', 'fence', 'rests_until', 'tries', 'claimed_by'
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
  local keys = redis.call('ZRANGE', 'shop.parcels/pack', ARGV[1], ARGV[1] + 500 - 1, 'WITHSCORES')
  local found = {#keys / 2}
  for i = 1, #keys, 2 do
    local seen = redis.pcall('HMGET', 'shop.parcels:' .. keys[i], 'stage', 'claimed_until', 'fence', 'rests_until', 'tries', 'claimed_by')
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

-- read: read
-- read
HGETALL

-- history: history
-- history
XREVRANGE
