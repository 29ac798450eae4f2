-- Deliveries on Redis and Valkey: one run of this script is one decision about one row, which is a hash.
--
-- Each delivery has a script of its own for each thing to do: what stands below for that, and in it these words of its
-- declaration and of the call.
--   delivering, delivered, state_column, error_column, attempts_column, patience: for how many seconds a sender counts as there
--   looked_at: the columns that a decision looks at, and seen_…: where they are in what it has found (false where there is none)
--   turn_fields: the fields of a turn that begins and their values in turn · state: the new one · returned: the columns
--   that the caller wants
-- KEYS  1 the row
-- ARGV  what the caller gives, each by its name: by, given_fence of a mark, given_error, given_now (in seconds, instead of
--       the server's clock)
-- returns {} if the row is missing, {false, state found, holder, since} if not, and what was won otherwise: the fence, or 1 if
--         the turn is over; of a turn with more to tell {fence, in doubt, attempts, columns …}

-- for: all
local row = KEYS[1]
local seen = redis.call('HMGET', row, looked_at)
local since, done, named = seen[1], seen[2], seen_state
if not since and not done and not seen_key and redis.call('EXISTS', row) == 0 then return {} end
local time = redis.call('TIME') -- if: not given_now
local now = time[1] + time[2] / 1000000 -- if: not given_now
local now = tonumber(given_now) -- if: given_now
-- its sender is gone; P13: also if it began later than now, by a clock that was set back since
local began = tonumber(since or nil)
local stale = began and (began + patience <= now or began > now + patience)
-- a try that nobody has ended: it was marked so, or its sender is gone; only a reserved one has surely sent nothing
local doubt = named == 'uncertain' or (stale and named ~= 'reserved') -- if: state
local doubt = stale -- if: not state

-- for: begins
-- The time of a turn that begins or goes on is its fence, and later than the one before.
local later = began and began + 0.000001 or now
-- but where the clock was set back by more than the patience, nobody could have the turn until it is there again
if later > now + patience then later = now end
local fence = string.format('%.6f', math.max(now, later))

-- for: take
-- nobody has delivered it, nobody is at it (or has been for too long), and the policy allows another try (P7)
local free = not done and (not since or stale or named == 'uncertain')
free = free and not doubt -- if: hold
if free then
  -- what can fail comes first, for a script that fails half-way is not undone
  local attempts = redis.call('HINCRBY', row, attempts_column, 1) -- if: attempts
  redis.call('HSET', row, turn_fields)
  if not doubt then return fence end -- if: not attempts returning
  return {fence, doubt and 1 or 0, told_attempts, unpack(redis.call('HMGET', row, returned))} -- if: returning
  return {fence, doubt and 1 or 0, told_attempts} -- if: not returning
end
-- for: mark
-- P5: only the current winner's mark is accepted; P4: its timestamp is its fence
local accepted = since == given_fence
-- for: resolve
local accepted = doubt
-- for: mark resolve
if accepted and not done then
  redis.call('HSET', row, delivering, fence) -- if: sending
  redis.call('HSET', row, delivered, string.format('%.6f', now)) -- if: delivered
  redis.call('HDEL', row, delivering) -- if: over
  redis.call('HSET', row, error_column, given_error) -- if: error given_error not sending
  redis.call('HDEL', row, error_column) -- if: error not sending given_error
  redis.call('HSET', row, state_column, state) -- if: state
  return fence -- if: sending
  return 1 -- if: not sending
end
-- for: all
local found = done and 'delivered' or doubt and 'uncertain' or named or since and (stale and 'uncertain' or 'sending')
return {false, found or 'ready', seen_holder, since}
