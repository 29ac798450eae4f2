-- Claims on Redis and Valkey. A row is a hash; where rows wait stands in an index, a sorted set of keys by the time from
-- which they can be claimed. The index only proposes: every decision looks at the row, all of it at once. The clock is the
-- server's. Rows that the caller names are in KEYS; those that the index proposes, and lines, are not: on a cluster there is
-- no index.
--
-- Each declared claim has a script of its own for each thing to do: what stands below for that, and in it these words of the
-- declaration.
--   lifecycle, stream_prefix, marker_prefix, cap, expires (in milliseconds), open and held as {[status] = true},
--   revision_column, attempts_column, of the moves start, back and exhausted: …_name and …_target (false where there is none)
--   claim_fields, renew_fields, back_fields, exhausted_fields: the fields to write and their values in turn; cleared: those
--   to remove; looked_at: the columns that a decision looks at, and seen_…: where they are in what it has found
--   index, lines, row_prefix, serial: where rows wait · returned: the columns that the caller wants
-- KEYS  the rows, then, where a history is kept, its stream for each, then the index, then the leases that guards look at;
--       where rows are searched for, only the last two
-- ARGV  what the caller gives, each by its name: by, given_now (in seconds, instead of the server's clock), lease, token,
--       reason, given_guards as JSON [[column, operator, value] …]; for a search limit, page: how many of the index to look
--       at, offset: how many to pass over, begin: how the keys of a tenant begin; and last, for each row, its fence, its
--       delay, '' for none, and its holder
-- returns for each row {word, …}, see `decide`, or {'error', message} if it cannot be decided; for a search {how many the index
-- proposed, how many of these stay where they are in it, and then what was found, one after the other}. Where rows could not
-- be decided, the second is {how many stay, key, message, key, message …}
--
-- What can fail comes before what is written, for a script that fails half-way is not undone: numbers, then the history.

-- for: all
local time = redis.call('TIME') -- if: clock
local moment = string.format('%s.%06d', time[1], time[2]) -- if: clock
local moment = given_now -- if: not clock
local now = tonumber(moment)
local ends_then = string.format('%.6f', now + lease) -- if: holds
local guarded = cjson.decode(given_guards) -- if: guards

-- for: acquire set_aside one listed
-- When the lease of a row is over, by what stands there; nothing if nobody holds it.
local function lease_end(text)
  local whole, part = string.match(text or '', '^PROCESSING:[^:]+:[^:]+:(%d+)(.*)$') -- if: marker
  local well = whole and #whole <= 12 and #part <= 10 and (part == '' or string.find(part, '^%.%d+$')) -- if: marker
  text = well and whole .. part -- if: marker
  local ends = text and tonumber(text)
  return ends and ends + lease -- if: not columns
  return ends -- if: columns
end

-- Whether a lease that ends then is still held. One that ends more than twice its length from now was taken before the clock
-- was set back, and whoever took it may be dead (P13). A longer lease than this caller's ends far ahead too; but its fence is
-- no later than the clock.
local function is_held(ends, fence)
  local ahead = ends and ends > now + 2 * lease
  ahead = ahead and (tonumber(fence) or 0) > now * 1000000 -- if: columns
  -- P3: by the store's clock
  return ends and ends > now and not ahead
end

-- for: timestamp marker
-- P4: no two claims of a row have the same.
local function grown(fence, now)
  local least = (tonumber(fence) or 0) + 0.000001 -- if: timestamp
  -- but where the clock was set back by more than a lease, nobody could hold the row until it is there again
  if least > now + lease then least = 0 end -- if: timestamp
  return string.format('%.6f', math.max(least, now)) -- if: timestamp
  return marker_prefix .. token .. ':' .. moment -- if: marker
end

-- for: history
local function note(stream, move, outcome, before, after, revision, actor)
  return redis.pcall('XADD', stream, '*', 'lifecycle', lifecycle, 'move', move, 'outcome', outcome, 'before', before,
    'after', after, 'revision', revision, 'actor', actor, 'reason', reason, 'call', '', 'at', moment)
end

-- for: acquire one
-- Writes a claim into the row, and returns its fence and how many attempts there were; or false, and why it cannot.
local function hold(row, key, stream, before, seen)
  local fence, revision = grown(seen[3], now), ''
  local attempts = one_more(seen_attempts) -- if: attempts
  if not attempts then return false, attempts_column .. ' is no whole number' end -- if: attempts
  revision = one_more(seen_revision) -- if: revision
  if not revision then return false, revision_column .. ' is no whole number' end -- if: revision
  local moved = start_target and before ~= start_target -- if: history
  local outcome, after = moved and 'moved' or 'claimed', start_target or before -- if: history
  local noted = note(stream, start_name, outcome, before, after, revision, by) -- if: history
  if noted.err then return false, noted.err end -- if: history
  redis.call('ZADD', index, ends_then, key) -- if: indexed
  redis.call('HSET', row, claim_fields)
  return fence, tonumber(attempts) -- if: attempts
  return fence, 1 -- if: not attempts
end

-- for: set_aside
-- Moves a row out of the way; or says why it cannot.
local function set_aside(row, stream, before, seen)
  local revision = ''
  revision = one_more(seen_revision) -- if: revision
  if not revision then return revision_column .. ' is no whole number' end -- if: revision
  local noted = note(stream, exhausted_name, 'moved', before, exhausted_target, revision, by) -- if: history
  if noted.err then return noted.err end -- if: history
  redis.call('HDEL', row, cleared)
  redis.call('HSET', row, exhausted_fields)
  redis.call('PEXPIRE', row, expires) -- if: expires
  redis.call('PEXPIRE', stream, expires) -- if: expires history
end

-- for: doubtful
-- A row that cannot be decided keeps nobody from the others: it is told of, and proposed again when a lease is over.
local failed
local function pass_over(key, why)
  redis.call('ZADD', index, ends_then, key)
  failed = failed or {0}
  failed[#failed + 1], failed[#failed + 2] = key, why
end

-- for: acquire set_aside
local most = tonumber(limit)
local keys = redis.call('ZRANGEBYSCORE', index, '-inf', moment, 'LIMIT', offset, page)
local proposed, kept = #keys, 0
local own = {} -- if: tenant
for _, key in ipairs(keys) do -- if: tenant
  if string.sub(key, 1, #begin) == begin then own[#own + 1] = key end -- if: tenant
end -- if: tenant
kept, keys = proposed - #own, own -- if: tenant
local found, wins, place, looked = {proposed, 0}, 0, 2, #keys
-- P13: rows that wait for longer than any lease either rest, or were held when the clock was set back. Where there is nothing
-- else, a few of them are looked at, beginning where the clock says, so that each has its turn.
if proposed == 0 then -- if: acquire
  local later = '(' .. string.format('%.6f', now + 2 * lease) -- if: acquire
  local number = redis.call('ZCOUNT', index, later, '+inf') -- if: acquire
  local first = math.floor(now * 1000) % math.max(number - 9, 1) -- if: acquire
  for _, key in ipairs(redis.call('ZRANGEBYSCORE', index, later, '+inf', 'LIMIT', first, 10)) do -- if: acquire
    if string.sub(key, 1, #begin) == begin then keys[#keys + 1] = key end -- if: acquire tenant
    keys[#keys + 1] = key -- if: acquire not tenant
  end -- if: acquire
end -- if: acquire
for i, key in ipairs(keys) do
  if wins == most then break end
  local row = row_prefix .. key
  local stream = stream_prefix .. key -- if: history
  local stream = nil -- if: not history
  -- a key of another type is not a row of ours
  local seen = redis.pcall('HMGET', row, looked_at)
  local before, ends = seen[1], lease_end(seen[2])

-- for: acquire
  local rests = seen_after and tonumber(seen_after) -- if: after
  if not open[before] then
    local following = leave(row, key)
    -- the next in its line is looked at too, and those behind it if that one is gone as well (P13)
    if i < 1000 then keys[#keys + 1] = following end -- if: serial
  -- P3: nobody holds it, or the lease is over by the store's clock; if not, the index learns from when on it can be claimed
  elseif is_held(ends, seen[3]) then
    redis.call('ZADD', index, string.format('%.6f', ends), key)
  elseif rests and rests > now then -- if: after
    redis.call('ZADD', index, string.format('%.6f', rests), key) -- if: after
  elseif (tonumber(seen_attempts) or 0) >= cap then -- if: cap
    if i <= looked then kept = kept + 1 end -- if: cap not gone
    redis.call('ZREM', index, key) -- if: cap gone
  elseif unmet_guards(row, guarded, 1) > 0 then -- if: guards
    if i <= looked then kept = kept + 1 end -- if: guards
  else
    local fence, attempts = hold(row, key, stream, before, seen)
    if not fence then -- if: doubtful
      pass_over(key, attempts) -- if: doubtful
    else -- if: doubtful
      wins = wins + 1
      found[place + 1], found[place + 2], found[place + 3], found[place + 4] = key, fence, attempts, before
      place = place + 4
      for _, value in ipairs(redis.call('HMGET', row, returned)) do -- if: returning
        place = place + 1 -- if: returning
        found[place] = value -- if: returning
      end -- if: returning
    end -- if: doubtful
  end
end

-- for: set_aside
-- A row that has had all its attempts, and that nobody holds.
  local attempts = tonumber(seen_attempts) or 0
  if not open[before] or is_held(ends, seen[3]) or attempts < cap or unmet_guards(row, guarded, 1) > 0 then -- if: guards
  if not open[before] or is_held(ends, seen[3]) or attempts < cap then -- if: not guards
    kept = kept + 1
  else
    local why = set_aside(row, stream, before, seen)
    if why then -- if: doubtful
      pass_over(key, why) -- if: doubtful
    else -- if: doubtful
      wins = wins + 1
      leave(row, key)
      found[place + 1], found[place + 2] = key, attempts
      place = place + 2
    end -- if: doubtful
  end
end

-- for: acquire set_aside
found[2] = kept
if failed then -- if: doubtful
  failed[1], found[2] = kept, failed -- if: doubtful
end -- if: doubtful
return found

-- for: listed
-- Who holds what, among so many rows of the index: key, until, status, holder, fence, attempts.
local keys = redis.call('ZRANGE', index, offset, offset + page - 1, 'WITHSCORES')
local found = {#keys / 2}
for i = 1, #keys, 2 do
  local seen = redis.pcall('HMGET', row_prefix .. keys[i], looked_at)
  if lease_end(seen[2]) then
    local place = #found
    found[place + 1], found[place + 2], found[place + 3] = keys[i], keys[i + 1], seen[1]
    found[place + 4], found[place + 5], found[place + 6] = seen_holder, seen[3], seen_attempts
  end
end
found[#found + 1] = moment
return found

-- for: one
-- One row by its key: {'claimed', fence, attempts, before, columns …} or {'taken', before, unmet, holder}, {'missing'}.
-- Why it cannot be claimed is told as bits: status, held, resting, attempts, line, then the guards.
local function decide(row, stream)
  local key, seen = string.sub(row, #row_prefix + 1), redis.pcall('HMGET', row, looked_at)
  local before, ends, unmet = seen[1], lease_end(seen[2]), 0
  if not before then return {'missing'} end
  if not open[before] then unmet = 1 end
  -- P3: as above
  if is_held(ends, seen[3]) then unmet = unmet + 2 end
  if (tonumber(seen_after) or 0) > now then unmet = unmet + 4 end -- if: after
  if (tonumber(seen_attempts) or 0) >= cap then unmet = unmet + 8 end -- if: cap
  local line = line_of(row, key) -- if: serial
  if line ~= '' and first_of(line, key) ~= key then unmet = unmet + 16 end -- if: serial
  unmet = unmet + unmet_guards(row, guarded, 32) -- if: guards
  if unmet > 0 then return {'taken', before, unmet, seen_holder} end
  local fence, attempts = hold(row, key, stream, before, seen)
  if not fence then return {'error', attempts} end
  return {'claimed', fence, attempts, before, unpack(redis.call('HMGET', row, returned))} -- if: returning
  return {'claimed', fence, attempts, before} -- if: not returning
end

-- for: renew give_back
-- P5: only the current holder; P4: an older fence than the newest is refused.
local function refusal(seen, fence)
  if not seen[1] then return {'missing'} end
  if seen[3] ~= fence or not held[seen[1]] then return {'lost', seen[1], seen[3], seen_holder} end
end

-- for: renew
local function decide(row, stream, fence)
  local seen = redis.pcall('HMGET', row, looked_at)
  local refused = refusal(seen, fence)
  if refused then return refused end
  fence = grown(seen[3], now) -- if: not columns
  redis.call('HSET', row, renew_fields)
  redis.call('ZADD', index, ends_then, string.sub(row, #row_prefix + 1)) -- if: indexed
  return {'renewed', fence}
end

-- for: give_back
-- Gives the row back; with a delay it rests, without one its attempt is refunded.
local function decide(row, stream, fence, delay, after, holder)
  local seen = redis.pcall('HMGET', row, looked_at)
  local refused = refusal(seen, fence)
  if refused then return refused end
  local before, ready, revision = seen[1], moment, ''
  revision = seen_revision or '' -- if: revision not back
  revision = one_more(seen_revision) -- if: revision back
  if not revision then return {'error', revision_column .. ' is no whole number'} end -- if: revision back
  local outcome = back_target and 'moved' or 'released' -- if: history
  local noted = note(stream, back_name, outcome, before, back_target or before, revision, holder) -- if: history
  if noted.err then return {'error', noted.err} end -- if: history
  redis.call('HDEL', row, cleared)
  if delay == '' then
    if (tonumber(seen_attempts) or 0) > 0 then redis.pcall('HINCRBY', row, attempts_column, -1) end -- if: attempts
  else
    ready = string.format('%.6f', now + delay) -- if: after
    redis.call('HSET', row, after_column, ready) -- if: after
  end
  fence = grown(seen[3], now) -- if: columns
  redis.call('HSET', row, back_fields) -- if: back_fields
  redis.call('ZADD', index, ready, string.sub(row, #row_prefix + 1)) -- if: indexed
  return {'released'}
end

-- for: offer
-- Puts a row into the index, and into its line; of a line only the first is in the index. So many are offered after it.
local function decide(row, stream, fence, delay, after)
  if not open[redis.pcall('HGET', row, column)] then return {'gone'} end
  -- rows that are offered together keep their order
  local key, when = string.sub(row, #row_prefix + 1), now - after * 0.000001
  local line = own_line(row, key) -- if: serial
  -- a row whose value has changed since it was offered leaves the line of the old one
  if redis.call('HSETNX', lines, key, line) == 0 and line_of(row, key) ~= line then -- if: serial
    leave(row, key) -- if: serial
    redis.call('HSET', lines, key, line) -- if: serial
  end -- if: serial
  local last = line ~= '' and redis.call('ZRANGE', line, -1, -1, 'WITHSCORES')[2] -- if: serial
  if last then when = math.max(when, tonumber(last) + 0.000001) end -- if: serial
  when = string.format('%.6f', when)
  if line ~= '' then redis.call('ZADD', line, 'NX', when, key) end -- if: serial
  if line ~= '' and first_of(line, key) ~= key then return {'in line'} end -- if: serial
  redis.call('ZADD', index, 'NX', when, key)
  redis.call('PUBLISH', index, '')
  return {'offered'}
end

-- for: one renew give_back offer
local answers, rows = {}, (#KEYS - other_keys) / keys_of_a_row
for i = 1, rows do
  local place = first_value + i * 3
  answers[i] = decide(KEYS[i], stream_key, ARGV[place], ARGV[place + 1], rows - i, ARGV[place + 2])
end
return answers
