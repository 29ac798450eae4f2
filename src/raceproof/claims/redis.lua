-- Claims on Redis and Valkey. A row is a hash; where rows wait stands in an index, a sorted set of keys by the time from
-- which they can be claimed. The index only proposes: every decision looks at the row, all of it at once. The clock is the
-- server's. Rows that the caller names are in KEYS; those that the index proposes, and lines, are not: on a cluster there is
-- no index.
--
-- These names are constants of the declared claim and of the kind of call:
--   lifecycle, stream_prefix, marker_prefix, max_attempts, expires (in milliseconds), open and held as {[status] = true},
--   revision_column, attempts_column, of the moves start, back and dead_letter: …_name and …_target (false where there is none)
--   claim_fields, renew_fields, back_fields, dead_letter_fields: the fields to write and their values in turn; cleared: those
--   to remove; looked_at: the columns that a decision looks at, and seen_…: where they are in what it found
--   lease_end, next_fence: the functions of the form in which the claim is kept
--   index, lines, row_prefix, ordering_key: where rows wait · returned: the columns to return
-- KEYS  the rows, then, where a history is kept, its stream for each, then the index, then the leases that guards look at;
--       where rows are searched for, only the last two
-- ARGV  what the caller gives, each by its name: by, given_now (in seconds, instead of the server's clock), lease, token,
--       reason, given_guards as JSON [[column, operator, value] …]; for a search limit, page: how many of the index to look
--       at, offset: how many to pass over, begin: how the keys of a tenant begin; and last, for each row, its fence, its
--       delay, '' for none, and its holder
-- returns for each row {word, …}, see the functions, or {'error', message} if it cannot be decided; for a search {how many the
-- index proposed, how many of these stay where they are in it, and then what was found, one after the other}. Where rows could
-- not be decided, the second is {how many stay, key, message, key, message …}
--
-- What can fail comes before what is written, for a script that fails half-way is not undone: numbers, then the history.

local moment = given_now or clock()
local now = tonumber(moment)
local ends_then = string.format('%.6f', now + lease)
local guarded = cjson.decode(given_guards)

-- When the lease of a row ends, by what stands there; nothing if it has no holder. For each form of a claim.
local function columns_end(text)
  return tonumber(text or nil)
end

local function timestamp_end(text)
  local since = tonumber(text or nil)
  return since and since + lease
end

local function marker_end(text)
  local whole, part = string.match(text or '', '^PROCESSING:[^:]+:[^:]+:(%d+)(.*)$')
  local well_formed = whole and #whole <= 12 and #part <= 10 and (part == '' or string.find(part, '^%.%d+$'))
  return well_formed and tonumber(whole .. part) + lease
end

-- P4: no two claims of a row have the same fence. For each form of a claim.
local function columns_fence(fence)
  return grown(fence, now)
end

local function timestamp_fence(fence)
  local least = (tonumber(fence) or 0) + 0.000001
  -- but where the clock was set back by more than a lease, no process could hold the row until it is there again
  if least > now + lease then least = 0 end
  return string.format('%.6f', math.max(least, now))
end

local function marker_fence()
  return marker_prefix .. token .. ':' .. moment
end

-- Whether a lease that ends then is still held. One that ends more than twice its length from now was taken before the clock
-- was set back, and whoever took it may be dead (P13). A longer lease than this caller's ends far ahead too; but its fence is
-- no later than the clock.
local function is_held(ends, fence)
  local ahead = ends and ends > now + 2 * lease
  if has_columns then ahead = ahead and (tonumber(fence) or 0) > now * 1000000 end
  -- P3: by the store's clock
  return ends and ends > now and not ahead
end

-- Why a row cannot be claimed, as bits: its status 1, its holder 2, its backoff 4, its attempts 8, then from 32 on the guards.
local function obstacles(row, seen)
  if not seen[1] then return 1 end
  local unmet = open[seen[1]] and 0 or 1
  if is_held(lease_end(seen[2]), seen[3]) then unmet = unmet + 2 end
  if not_before_column then
    if (tonumber(seen_not_before) or 0) > now then unmet = unmet + 4 end
  end
  if max_attempts then
    if (tonumber(seen_attempts) or 0) >= max_attempts then unmet = unmet + 8 end
  end
  if given_guards then unmet = unmet + unmet_guards(row, guarded, 32) end
  return unmet
end

local function note(stream, move, outcome, before, after, revision, actor)
  return redis.pcall('XADD', stream, '*', 'lifecycle', lifecycle, 'move', move, 'outcome', outcome, 'before', before,
    'after', after, 'revision', revision, 'actor', actor, 'reason', reason, 'call', '', 'at', moment)
end

-- The row's next revision as text, '' without one; nothing if it is not a number.
local function next_revision(seen)
  if revision_column then return one_more(seen_revision) end
  return ''
end

-- Writes a claim into the row, and returns its fence and how many attempts there were; or false, and why it cannot.
local function hold(row, key, stream, seen)
  local before, fence, revision, attempts = seen[1], next_fence(seen[3]), next_revision(seen), 1
  if attempts_column then attempts = one_more(seen_attempts) end
  if not attempts then return false, attempts_column .. ' is not a whole number' end
  if not revision then return false, revision_column .. ' is not a whole number' end
  if history then
    local moved = start_target and before ~= start_target
    local outcome, after = moved and 'moved' or 'claimed', start_target or before
    local noted = note(stream, start_name, outcome, before, after, revision, by)
    if noted.err then return false, noted.err end
  end
  if indexed then redis.call('ZADD', index, ends_then, key) end
  redis.call('HSET', row, claim_fields)
  return fence, tonumber(attempts)
end

-- Moves a row out of the way; returns why it cannot.
local function dead_letter_row(row, stream, seen)
  local revision = next_revision(seen)
  if not revision then return revision_column .. ' is not a whole number' end
  if history then
    local noted = note(stream, dead_letter_name, 'moved', seen[1], dead_letter_target, revision, by)
    if noted.err then return noted.err end
  end
  redis.call('HDEL', row, cleared)
  redis.call('HSET', row, dead_letter_fields)
  if expires then redis.call('PEXPIRE', row, expires) end
  if expires and history then redis.call('PEXPIRE', stream, expires) end
end

-- Those of these keys that belong to the tenant.
local function owned(keys)
  local own = {}
  for _, key in ipairs(keys) do
    if string.sub(key, 1, #begin) == begin then own[#own + 1] = key end
  end
  return own
end

-- The keys that the index proposes, how many it proposed, and how many of these are of other tenants and stay where they are.
local function proposals()
  local keys = redis.call('ZRANGEBYSCORE', index, '-inf', moment, 'LIMIT', offset, page)
  local proposed = #keys
  if begin then keys = owned(keys) end
  return keys, proposed, proposed - #keys
end

-- P13: rows that wait for longer than any lease either back off, or were held when the clock was set back. Where there is
-- nothing else, a few of them are looked at, from a place that the clock chooses, so that each is reached.
local function far_ahead()
  local later = '(' .. string.format('%.6f', now + 2 * lease)
  local number = redis.call('ZCOUNT', index, later, '+inf')
  local first = math.floor(now * 1000) % math.max(number - 9, 1)
  local keys = redis.call('ZRANGEBYSCORE', index, later, '+inf', 'LIMIT', first, 10)
  if begin then keys = owned(keys) end
  return keys
end

-- The stream of a row that the index proposes.
local function stream_of(key)
  return history and stream_prefix .. key
end

-- A row that cannot be decided does not block the others: it is reported, and proposed again when a lease is over.
local function pass_over(failed, key, why)
  redis.call('ZADD', index, ends_then, key)
  failed[#failed + 1], failed[#failed + 2] = key, why
end

-- The answer to a search: how many were proposed, how many stay, and what was found.
local function searched(found, kept, failed)
  found[2] = kept
  if #failed > 1 then failed[1], found[2] = kept, failed end
  return found
end

-- What becomes of a proposed row that cannot be claimed. Returns whether it stays where it is in the index, and who follows it.
local function put_aside(row, key, seen, unmet)
  if unmet % 2 == 1 then return false, leave(row, key) end
  if unmet % 4 >= 2 then
    -- held: it is proposed again when the lease is over
    redis.call('ZADD', index, string.format('%.6f', lease_end(seen[2])), key)
    return false
  end
  if not_before_column then
    if unmet % 8 >= 4 then
      redis.call('ZADD', index, string.format('%.6f', seen_not_before), key)
      return false
    end
  end
  if never_again then
    if unmet % 16 >= 8 then
      redis.call('ZREM', index, key)
      return false
    end
  end
  return true
end

-- Up to `limit` rows, in the order in which they became ready: for each key, fence, attempts, status before, columns ….
local function acquire()
  local keys, proposed, kept = proposals()
  if proposed == 0 then keys = far_ahead() end
  local most, wins, looked, place = tonumber(limit), 0, #keys, 2
  local found, failed = {proposed, 0}, {0}
  for i, key in ipairs(keys) do
    if wins == most then break end
    local row = row_prefix .. key
    -- a key of another type is not a row of ours
    local seen = redis.pcall('HMGET', row, looked_at)
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
        if returning then
          for _, value in ipairs(redis.call('HMGET', row, returned)) do
            place = place + 1
            found[place] = value
          end
        end
      end
    end
  end
  return searched(found, kept, failed)
end

-- Rows that have used up their attempts and have no holder: key and attempts, for each.
local function dead_letter()
  local keys, proposed, kept = proposals()
  local most, wins, found, failed = tonumber(limit), 0, {proposed, 0}, {0}
  for _, key in ipairs(keys) do
    if wins == most then break end
    local row = row_prefix .. key
    local seen = redis.pcall('HMGET', row, looked_at)
    if obstacles(row, seen) ~= 8 then
      kept = kept + 1
    else
      local why = dead_letter_row(row, stream_of(key), seen)
      if why then
        pass_over(failed, key, why)
      else
        wins = wins + 1
        leave(row, key)
        found[#found + 1], found[#found + 2] = key, tonumber(seen_attempts) or 0
      end
    end
  end
  return searched(found, kept, failed)
end

-- The first of a line. Rows before this one that are gone, or have ended, would hold up all behind them: they leave.
local function first_of(line, key)
  while true do
    local first = redis.call('ZRANGE', line, 0, 0)[1]
    if not first or first == key or open[redis.pcall('HGET', row_prefix .. first, column)] then return first end
    redis.call('ZREM', line, first)
    leave(row_prefix .. first, first)
  end
end

-- One row by its key: {'claimed', fence, attempts, before, columns …} or {'taken', before, unmet, holder}, {'missing'}.
local function claim_row(row, stream)
  local key, seen = string.sub(row, #row_prefix + 1), redis.pcall('HMGET', row, looked_at)
  if not seen[1] then return {'missing'} end
  local unmet = obstacles(row, seen)
  if ordering_key then
    local line = line_of(row, key)
    if line ~= '' and first_of(line, key) ~= key then unmet = unmet + 16 end
  end
  if unmet > 0 then return {'taken', seen[1], unmet, seen_holder} end
  local fence, attempts = hold(row, key, stream, seen)
  if not fence then return {'error', attempts} end
  if returning then return {'claimed', fence, attempts, seen[1], unpack(redis.call('HMGET', row, returned))} end
  return {'claimed', fence, attempts, seen[1]}
end

-- P5: only the current holder; P4: an older fence than the newest is refused.
local function refusal(seen, fence)
  if not seen[1] then return {'missing'} end
  if seen[3] ~= fence or not held[seen[1]] then return {'lost', seen[1], seen[3], seen_holder} end
end

local function renew_row(row, stream, fence)
  local seen = redis.pcall('HMGET', row, looked_at)
  local refused = refusal(seen, fence)
  if refused then return refused end
  if not has_columns then fence = next_fence(seen[3]) end
  redis.call('HSET', row, renew_fields)
  if indexed then redis.call('ZADD', index, ends_then, string.sub(row, #row_prefix + 1)) end
  return {'renewed', fence}
end

-- Gives the row back: with a delay it backs off, without one its attempt does not count.
local function give_back_row(row, stream, fence, delay, holder)
  local seen = redis.pcall('HMGET', row, looked_at)
  local refused = refusal(seen, fence)
  if refused then return refused end
  local before, ready, revision = seen[1], moment, seen_revision or ''
  if revision_column and back_target then
    revision = one_more(seen_revision)
    if not revision then return {'error', revision_column .. ' is not a whole number'} end
  end
  if history then
    local outcome = back_target and 'moved' or 'released'
    local noted = note(stream, back_name, outcome, before, back_target or before, revision, holder)
    if noted.err then return {'error', noted.err} end
  end
  redis.call('HDEL', row, cleared)
  if attempts_column then
    if delay == '' and (tonumber(seen_attempts) or 0) > 0 then redis.pcall('HINCRBY', row, attempts_column, -1) end
  end
  if not_before_column then
    if delay ~= '' then
      ready = string.format('%.6f', now + delay)
      redis.call('HSET', row, not_before_column, ready)
    end
  end
  if has_columns then fence = next_fence(seen[3]) end
  if writes_back then redis.call('HSET', row, back_fields) end
  if indexed then redis.call('ZADD', index, ready, string.sub(row, #row_prefix + 1)) end
  return {'released'}
end

-- Puts a row into its line. Returns when it came, or nothing if another one is before it.
local function join_line(row, key, when)
  local line = own_line(row, key)
  -- a row whose value has changed since it was offered leaves the line of the old one
  if redis.call('HSETNX', lines, key, line) == 0 and line_of(row, key) ~= line then
    leave(row, key)
    redis.call('HSET', lines, key, line)
  end
  if line == '' then return when end
  local last = redis.call('ZRANGE', line, -1, -1, 'WITHSCORES')[2]
  if last then when = math.max(when, tonumber(last) + 0.000001) end
  redis.call('ZADD', line, 'NX', string.format('%.6f', when), key)
  return first_of(line, key) == key and when
end

-- Puts a row into the index, or into its line behind others; `after` is how many are offered after it.
local function offer_row(row, stream, fence, delay, holder, after)
  if not open[redis.pcall('HGET', row, column)] then return {'gone'} end
  -- rows that are offered together keep their order
  local key, when = string.sub(row, #row_prefix + 1), now - after * 0.000001
  if ordering_key then
    when = join_line(row, key, when)
    if not when then return {'in line'} end
  end
  redis.call('ZADD', index, 'NX', string.format('%.6f', when), key)
  redis.call('PUBLISH', index, '')
  return {'offered'}
end

-- The answers of a decision about each row that the caller names.
local function each_row(decide)
  local answers, rows = {}, (#KEYS - other_keys) / keys_of_a_row
  for i = 1, rows do
    local place = first_value + i * 3
    answers[i] = decide(KEYS[i], stream_key, ARGV[place], ARGV[place + 1], ARGV[place + 2], rows - i)
  end
  return answers
end

local function one()
  return each_row(claim_row)
end

local function renew()
  return each_row(renew_row)
end

local function give_back()
  return each_row(give_back_row)
end

local function offer()
  return each_row(offer_row)
end
