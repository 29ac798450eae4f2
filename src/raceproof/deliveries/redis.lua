-- Deliveries on Redis and Valkey: one run of a script is one decision about one row, which is a hash.
--
-- These names are constants of the delivery and of the call:
--   delivering, delivered, state_column, error_column, attempts_column, stale_after: seconds after which a sender counts as gone
--   looked_at: the columns that a decision looks at; seen_…: where they are in what it found (false where there is none)
--   permit_fields: the fields of a permit and their values in turn · state: the new one · returned: the columns to return
-- KEYS  1 the row
-- ARGV  what the caller gives, each by its name: by, given_fence of a record, given_error, given_now (in seconds, instead of
--       the server's clock)
-- returns {} if the row is missing, {false, state found, holder, since} if the decision is no, and otherwise what was won: the
--         fence, or 1 if the delivery is over; of a permit with more to say {fence, in doubt, attempts, columns …}

local row = KEYS[1]
local now = tonumber(given_now or clock())

-- The row: its columns, whether its sender is gone, and whether an earlier attempt may have arrived; nothing without a row.
local function read()
  local seen = redis.call('HMGET', row, looked_at)
  if not seen[1] and not seen[2] and not seen_key and redis.call('EXISTS', row) == 0 then return end
  local began = tonumber(seen[1] or nil)
  -- P13: the sender is also gone if it began later than now, by a clock that was set back since
  local stale = began and (began + stale_after <= now or began > now + stale_after)
  -- an attempt that never ended: it was recorded as uncertain, or its sender is gone and had not just reserved
  local doubt = stale
  if state_column then doubt = seen_state == 'uncertain' or (stale and seen_state ~= 'reserved') end
  return seen, stale, doubt
end

-- The answer to a caller who may not: how the delivery stands.
local function found(seen, stale, doubt)
  local under_way = seen[1] and (stale and 'uncertain' or 'sending')
  local named = seen[2] and 'delivered' or doubt and 'uncertain' or seen_state or under_way or 'ready'
  return {false, named, seen_holder, seen[1]}
end

-- The time at which a permit begins or goes on is its fence (P4), later than the one before.
local function next_fence(since)
  local began = tonumber(since or nil)
  local later = began and began + 0.000001 or now
  -- unless the clock was set back by more than a permit lasts: no process could get one until then
  if later > now + stale_after then later = now end
  return string.format('%.6f', math.max(now, later))
end

local function take()
  local seen, stale, doubt = read()
  if not seen then return {} end
  -- not delivered, no process is sending (or one has been for too long), and the policy allows another attempt (P7)
  local free = not seen[2] and (not seen[1] or stale or seen_state == 'uncertain')
  if hold then free = free and not doubt end
  if not free then return found(seen, stale, doubt) end
  local fence, attempts = next_fence(seen[1]), false
  -- what can fail comes first, for a script that fails half-way is not undone
  if attempts_column then attempts = redis.call('HINCRBY', row, attempts_column, 1) end
  redis.call('HSET', row, permit_fields)
  if returning then return {fence, doubt and 1 or 0, attempts, unpack(redis.call('HMGET', row, returned))} end
  if not attempts and not doubt then return fence end
  return {fence, doubt and 1 or 0, attempts}
end

-- Records how the attempt ended, or, at the state 'sending', that it goes on; returns its fence, or 1 if it is over.
local function record(seen)
  local fence = 1
  if sending then
    fence = next_fence(seen[1])
    redis.call('HSET', row, delivering, fence)
  end
  if arrived then redis.call('HSET', row, delivered, string.format('%.6f', now)) end
  if over then redis.call('HDEL', row, delivering) end
  if error_column and given_error and not sending then redis.call('HSET', row, error_column, given_error) end
  if error_column and not given_error and not sending then redis.call('HDEL', row, error_column) end
  if state_column then redis.call('HSET', row, state_column, state) end
  return fence
end

local function mark()
  local seen, stale, doubt = read()
  if not seen then return {} end
  -- P5: only the current sender's record is accepted; P4: its timestamp is its fence
  if seen[1] ~= given_fence or seen[2] then return found(seen, stale, doubt) end
  return record(seen)
end

local function resolve()
  local seen, stale, doubt = read()
  if not seen then return {} end
  -- only a delivery whose outcome is unknown
  if not doubt or seen[2] then return found(seen, stale, doubt) end
  return record(seen)
end

local function look()
  local seen, stale, doubt = read()
  return seen and found(seen, stale, doubt) or {}
end
