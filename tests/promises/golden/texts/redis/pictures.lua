-- begin a picture: delivery.take ×4
-- delivery.take
-- given_now = ARGV[1]
-- seen_state = false
-- seen_holder = false
-- seen_key = seen[3]
-- looked_at = 'delivering_at', 'delivered_at', 'job_id'
-- permit_fields = 'delivering_at', fence
-- stale_after = 300

local row = KEYS[1]

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local now = tonumber(ARGV[1] or clock())

-- The row: its columns, whether its sender is gone, and whether an earlier attempt may have arrived; nothing without a row.
local function read()
  local seen = redis.call('HMGET', row, 'delivering_at', 'delivered_at', 'job_id')
  if not seen[1] and not seen[2] and not seen[3] and redis.call('EXISTS', row) == 0 then return end
  local began = tonumber(seen[1] or nil)
  -- P13: the sender is also gone if it began later than now, by a clock that was set back since
  local stale = began and (began + 300 <= now or began > now + 300)
  -- an attempt that never ended: it was recorded as uncertain, or its sender is gone and had not just reserved
  local doubt = stale
  return seen, stale, doubt
end

-- The answer to a caller who may not: how the delivery stands.
local function found(seen, stale, doubt)
  local under_way = seen[1] and (stale and 'uncertain' or 'sending')
  local named = seen[2] and 'delivered' or doubt and 'uncertain' or false or under_way or 'ready'
  return {false, named, false, seen[1]}
end

-- The time at which a permit begins or goes on is its fence (P4), later than the one before.
local function next_fence(since)
  local began = tonumber(since or nil)
  local later = began and began + 0.000001 or now
  -- unless the clock was set back by more than a permit lasts: no process could get one until then
  if later > now + 300 then later = now end
  return string.format('%.6f', math.max(now, later))
end

local function take()
  local seen, stale, doubt = read()
  if not seen then return {} end
  -- not delivered, no process is sending (or one has been for too long), and the policy allows another attempt (P7)
  local free = not seen[2] and (not seen[1] or stale or false == 'uncertain')
  if not free then return found(seen, stale, doubt) end
  local fence, attempts = next_fence(seen[1]), false
  redis.call('HSET', row, 'delivering_at', fence)
  if not attempts and not doubt then return fence end
  return {fence, doubt and 1 or 0, attempts}
end

return take()

-- begin a picture by the store's clock, returning: delivery.take
-- delivery.take
-- given_now = false
-- seen_state = false
-- seen_holder = false
-- seen_key = seen[3]
-- looked_at = 'delivering_at', 'delivered_at', 'job_id'
-- permit_fields = 'delivering_at', fence
-- stale_after = 300
-- returning = true
-- returned = 'made_at'

local row = KEYS[1]

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local now = tonumber(false or clock())

-- The row: its columns, whether its sender is gone, and whether an earlier attempt may have arrived; nothing without a row.
local function read()
  local seen = redis.call('HMGET', row, 'delivering_at', 'delivered_at', 'job_id')
  if not seen[1] and not seen[2] and not seen[3] and redis.call('EXISTS', row) == 0 then return end
  local began = tonumber(seen[1] or nil)
  -- P13: the sender is also gone if it began later than now, by a clock that was set back since
  local stale = began and (began + 300 <= now or began > now + 300)
  -- an attempt that never ended: it was recorded as uncertain, or its sender is gone and had not just reserved
  local doubt = stale
  return seen, stale, doubt
end

-- The answer to a caller who may not: how the delivery stands.
local function found(seen, stale, doubt)
  local under_way = seen[1] and (stale and 'uncertain' or 'sending')
  local named = seen[2] and 'delivered' or doubt and 'uncertain' or false or under_way or 'ready'
  return {false, named, false, seen[1]}
end

-- The time at which a permit begins or goes on is its fence (P4), later than the one before.
local function next_fence(since)
  local began = tonumber(since or nil)
  local later = began and began + 0.000001 or now
  -- unless the clock was set back by more than a permit lasts: no process could get one until then
  if later > now + 300 then later = now end
  return string.format('%.6f', math.max(now, later))
end

local function take()
  local seen, stale, doubt = read()
  if not seen then return {} end
  -- not delivered, no process is sending (or one has been for too long), and the policy allows another attempt (P7)
  local free = not seen[2] and (not seen[1] or stale or false == 'uncertain')
  if not free then return found(seen, stale, doubt) end
  local fence, attempts = next_fence(seen[1]), false
  redis.call('HSET', row, 'delivering_at', fence)
  if true then return {fence, doubt and 1 or 0, attempts, unpack(redis.call('HMGET', row, 'made_at'))} end
  if not attempts and not doubt then return fence end
  return {fence, doubt and 1 or 0, attempts}
end

return take()

-- begin a picture, refused: delivery.take
-- begin a picture, missing: delivery.take
-- delivery.take
-- given_now = false
-- seen_state = false
-- seen_holder = false
-- seen_key = seen[3]
-- looked_at = 'delivering_at', 'delivered_at', 'job_id'
-- permit_fields = 'delivering_at', fence
-- stale_after = 300

local row = KEYS[1]

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local now = tonumber(false or clock())

-- The row: its columns, whether its sender is gone, and whether an earlier attempt may have arrived; nothing without a row.
local function read()
  local seen = redis.call('HMGET', row, 'delivering_at', 'delivered_at', 'job_id')
  if not seen[1] and not seen[2] and not seen[3] and redis.call('EXISTS', row) == 0 then return end
  local began = tonumber(seen[1] or nil)
  -- P13: the sender is also gone if it began later than now, by a clock that was set back since
  local stale = began and (began + 300 <= now or began > now + 300)
  -- an attempt that never ended: it was recorded as uncertain, or its sender is gone and had not just reserved
  local doubt = stale
  return seen, stale, doubt
end

-- The answer to a caller who may not: how the delivery stands.
local function found(seen, stale, doubt)
  local under_way = seen[1] and (stale and 'uncertain' or 'sending')
  local named = seen[2] and 'delivered' or doubt and 'uncertain' or false or under_way or 'ready'
  return {false, named, false, seen[1]}
end

-- The time at which a permit begins or goes on is its fence (P4), later than the one before.
local function next_fence(since)
  local began = tonumber(since or nil)
  local later = began and began + 0.000001 or now
  -- unless the clock was set back by more than a permit lasts: no process could get one until then
  if later > now + 300 then later = now end
  return string.format('%.6f', math.max(now, later))
end

local function take()
  local seen, stale, doubt = read()
  if not seen then return {} end
  -- not delivered, no process is sending (or one has been for too long), and the policy allows another attempt (P7)
  local free = not seen[2] and (not seen[1] or stale or false == 'uncertain')
  if not free then return found(seen, stale, doubt) end
  local fence, attempts = next_fence(seen[1]), false
  redis.call('HSET', row, 'delivering_at', fence)
  if not attempts and not doubt then return fence end
  return {fence, doubt and 1 or 0, attempts}
end

return take()

-- sending a picture: delivery.mark
-- delivery.mark
-- given_now = ARGV[2]
-- given_fence = ARGV[1]
-- seen_state = false
-- seen_holder = false
-- looked_at = 'delivering_at', 'delivered_at'
-- delivering = 'delivering_at'
-- stale_after = 300

local row = KEYS[1]

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local now = tonumber(ARGV[2] or clock())

-- The row: its columns, whether its sender is gone, and whether an earlier attempt may have arrived; nothing without a row.
local function read()
  local seen = redis.call('HMGET', row, 'delivering_at', 'delivered_at')
  if not seen[1] and not seen[2] and not seen_key and redis.call('EXISTS', row) == 0 then return end
  local began = tonumber(seen[1] or nil)
  -- P13: the sender is also gone if it began later than now, by a clock that was set back since
  local stale = began and (began + 300 <= now or began > now + 300)
  -- an attempt that never ended: it was recorded as uncertain, or its sender is gone and had not just reserved
  local doubt = stale
  return seen, stale, doubt
end

-- The answer to a caller who may not: how the delivery stands.
local function found(seen, stale, doubt)
  local under_way = seen[1] and (stale and 'uncertain' or 'sending')
  local named = seen[2] and 'delivered' or doubt and 'uncertain' or false or under_way or 'ready'
  return {false, named, false, seen[1]}
end

-- The time at which a permit begins or goes on is its fence (P4), later than the one before.
local function next_fence(since)
  local began = tonumber(since or nil)
  local later = began and began + 0.000001 or now
  -- unless the clock was set back by more than a permit lasts: no process could get one until then
  if later > now + 300 then later = now end
  return string.format('%.6f', math.max(now, later))
end

-- Records how the attempt ended, or, at the state 'sending', that it goes on; returns its fence, or 1 if it is over.
local function record(seen)
  local fence = 1
  fence = next_fence(seen[1])
  redis.call('HSET', row, 'delivering_at', fence)
  return fence
end

local function mark()
  local seen, stale, doubt = read()
  if not seen then return {} end
  -- P5: only the current sender's record is accepted; P4: its timestamp is its fence
  if seen[1] ~= ARGV[1] or seen[2] then return found(seen, stale, doubt) end
  return record(seen)
end

return mark()

-- delivered a picture: delivery.mark
-- delivery.mark
-- given_now = ARGV[2]
-- given_fence = ARGV[1]
-- seen_state = false
-- seen_holder = false
-- looked_at = 'delivering_at', 'delivered_at'
-- delivering = 'delivering_at'
-- delivered = 'delivered_at'
-- stale_after = 300

local row = KEYS[1]

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local now = tonumber(ARGV[2] or clock())

-- The row: its columns, whether its sender is gone, and whether an earlier attempt may have arrived; nothing without a row.
local function read()
  local seen = redis.call('HMGET', row, 'delivering_at', 'delivered_at')
  if not seen[1] and not seen[2] and not seen_key and redis.call('EXISTS', row) == 0 then return end
  local began = tonumber(seen[1] or nil)
  -- P13: the sender is also gone if it began later than now, by a clock that was set back since
  local stale = began and (began + 300 <= now or began > now + 300)
  -- an attempt that never ended: it was recorded as uncertain, or its sender is gone and had not just reserved
  local doubt = stale
  return seen, stale, doubt
end

-- The answer to a caller who may not: how the delivery stands.
local function found(seen, stale, doubt)
  local under_way = seen[1] and (stale and 'uncertain' or 'sending')
  local named = seen[2] and 'delivered' or doubt and 'uncertain' or false or under_way or 'ready'
  return {false, named, false, seen[1]}
end

-- Records how the attempt ended, or, at the state 'sending', that it goes on; returns its fence, or 1 if it is over.
local function record(seen)
  local fence = 1
  redis.call('HSET', row, 'delivered_at', string.format('%.6f', now))
  redis.call('HDEL', row, 'delivering_at')
  return fence
end

local function mark()
  local seen, stale, doubt = read()
  if not seen then return {} end
  -- P5: only the current sender's record is accepted; P4: its timestamp is its fence
  if seen[1] ~= ARGV[1] or seen[2] then return found(seen, stale, doubt) end
  return record(seen)
end

return mark()

-- delivered a picture by the store's clock: delivery.mark
-- delivery.mark
-- given_now = false
-- given_fence = ARGV[1]
-- seen_state = false
-- seen_holder = false
-- looked_at = 'delivering_at', 'delivered_at'
-- delivering = 'delivering_at'
-- delivered = 'delivered_at'
-- stale_after = 300

local row = KEYS[1]

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local now = tonumber(false or clock())

-- The row: its columns, whether its sender is gone, and whether an earlier attempt may have arrived; nothing without a row.
local function read()
  local seen = redis.call('HMGET', row, 'delivering_at', 'delivered_at')
  if not seen[1] and not seen[2] and not seen_key and redis.call('EXISTS', row) == 0 then return end
  local began = tonumber(seen[1] or nil)
  -- P13: the sender is also gone if it began later than now, by a clock that was set back since
  local stale = began and (began + 300 <= now or began > now + 300)
  -- an attempt that never ended: it was recorded as uncertain, or its sender is gone and had not just reserved
  local doubt = stale
  return seen, stale, doubt
end

-- The answer to a caller who may not: how the delivery stands.
local function found(seen, stale, doubt)
  local under_way = seen[1] and (stale and 'uncertain' or 'sending')
  local named = seen[2] and 'delivered' or doubt and 'uncertain' or false or under_way or 'ready'
  return {false, named, false, seen[1]}
end

-- Records how the attempt ended, or, at the state 'sending', that it goes on; returns its fence, or 1 if it is over.
local function record(seen)
  local fence = 1
  redis.call('HSET', row, 'delivered_at', string.format('%.6f', now))
  redis.call('HDEL', row, 'delivering_at')
  return fence
end

local function mark()
  local seen, stale, doubt = read()
  if not seen then return {} end
  -- P5: only the current sender's record is accepted; P4: its timestamp is its fence
  if seen[1] ~= ARGV[1] or seen[2] then return found(seen, stale, doubt) end
  return record(seen)
end

return mark()

-- not sent a picture: delivery.mark
-- delivery.mark
-- given_now = false
-- given_fence = ARGV[1]
-- seen_state = false
-- seen_holder = false
-- looked_at = 'delivering_at', 'delivered_at'
-- delivering = 'delivering_at'
-- stale_after = 300

local row = KEYS[1]

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local now = tonumber(false or clock())

-- The row: its columns, whether its sender is gone, and whether an earlier attempt may have arrived; nothing without a row.
local function read()
  local seen = redis.call('HMGET', row, 'delivering_at', 'delivered_at')
  if not seen[1] and not seen[2] and not seen_key and redis.call('EXISTS', row) == 0 then return end
  local began = tonumber(seen[1] or nil)
  -- P13: the sender is also gone if it began later than now, by a clock that was set back since
  local stale = began and (began + 300 <= now or began > now + 300)
  -- an attempt that never ended: it was recorded as uncertain, or its sender is gone and had not just reserved
  local doubt = stale
  return seen, stale, doubt
end

-- The answer to a caller who may not: how the delivery stands.
local function found(seen, stale, doubt)
  local under_way = seen[1] and (stale and 'uncertain' or 'sending')
  local named = seen[2] and 'delivered' or doubt and 'uncertain' or false or under_way or 'ready'
  return {false, named, false, seen[1]}
end

-- Records how the attempt ended, or, at the state 'sending', that it goes on; returns its fence, or 1 if it is over.
local function record(seen)
  local fence = 1
  redis.call('HDEL', row, 'delivering_at')
  return fence
end

local function mark()
  local seen, stale, doubt = read()
  if not seen then return {} end
  -- P5: only the current sender's record is accepted; P4: its timestamp is its fence
  if seen[1] ~= ARGV[1] or seen[2] then return found(seen, stale, doubt) end
  return record(seen)
end

return mark()

-- uncertain about a picture: nothing
-- a picture arrived: delivery.resolve
-- delivery.resolve
-- given_now = ARGV[2]
-- seen_state = false
-- seen_holder = false
-- seen_key = seen[3]
-- looked_at = 'delivering_at', 'delivered_at', 'job_id'
-- delivering = 'delivering_at'
-- delivered = 'delivered_at'
-- stale_after = 300

local row = KEYS[1]

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local now = tonumber(ARGV[2] or clock())

-- The row: its columns, whether its sender is gone, and whether an earlier attempt may have arrived; nothing without a row.
local function read()
  local seen = redis.call('HMGET', row, 'delivering_at', 'delivered_at', 'job_id')
  if not seen[1] and not seen[2] and not seen[3] and redis.call('EXISTS', row) == 0 then return end
  local began = tonumber(seen[1] or nil)
  -- P13: the sender is also gone if it began later than now, by a clock that was set back since
  local stale = began and (began + 300 <= now or began > now + 300)
  -- an attempt that never ended: it was recorded as uncertain, or its sender is gone and had not just reserved
  local doubt = stale
  return seen, stale, doubt
end

-- The answer to a caller who may not: how the delivery stands.
local function found(seen, stale, doubt)
  local under_way = seen[1] and (stale and 'uncertain' or 'sending')
  local named = seen[2] and 'delivered' or doubt and 'uncertain' or false or under_way or 'ready'
  return {false, named, false, seen[1]}
end

-- Records how the attempt ended, or, at the state 'sending', that it goes on; returns its fence, or 1 if it is over.
local function record(seen)
  local fence = 1
  redis.call('HSET', row, 'delivered_at', string.format('%.6f', now))
  redis.call('HDEL', row, 'delivering_at')
  return fence
end

local function resolve()
  local seen, stale, doubt = read()
  if not seen then return {} end
  -- only a delivery whose outcome is unknown
  if not doubt or seen[2] then return found(seen, stale, doubt) end
  return record(seen)
end

return resolve()

-- a picture did not arrive: delivery.resolve
-- delivery.resolve
-- given_now = false
-- seen_state = false
-- seen_holder = false
-- seen_key = seen[3]
-- looked_at = 'delivering_at', 'delivered_at', 'job_id'
-- delivering = 'delivering_at'
-- stale_after = 300

local row = KEYS[1]

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local now = tonumber(false or clock())

-- The row: its columns, whether its sender is gone, and whether an earlier attempt may have arrived; nothing without a row.
local function read()
  local seen = redis.call('HMGET', row, 'delivering_at', 'delivered_at', 'job_id')
  if not seen[1] and not seen[2] and not seen[3] and redis.call('EXISTS', row) == 0 then return end
  local began = tonumber(seen[1] or nil)
  -- P13: the sender is also gone if it began later than now, by a clock that was set back since
  local stale = began and (began + 300 <= now or began > now + 300)
  -- an attempt that never ended: it was recorded as uncertain, or its sender is gone and had not just reserved
  local doubt = stale
  return seen, stale, doubt
end

-- The answer to a caller who may not: how the delivery stands.
local function found(seen, stale, doubt)
  local under_way = seen[1] and (stale and 'uncertain' or 'sending')
  local named = seen[2] and 'delivered' or doubt and 'uncertain' or false or under_way or 'ready'
  return {false, named, false, seen[1]}
end

-- Records how the attempt ended, or, at the state 'sending', that it goes on; returns its fence, or 1 if it is over.
local function record(seen)
  local fence = 1
  redis.call('HDEL', row, 'delivering_at')
  return fence
end

local function resolve()
  local seen, stale, doubt = read()
  if not seen then return {} end
  -- only a delivery whose outcome is unknown
  if not doubt or seen[2] then return found(seen, stale, doubt) end
  return record(seen)
end

return resolve()

-- begin a receipt: delivery.take ×4
-- delivery.take
-- given_now = ARGV[2]
-- seen_state = seen[3]
-- seen_holder = seen[4]
-- seen_key = seen[5]
-- looked_at = 'receipt_sending_at', 'receipt_sent_at', 'receipt_state', 'receipt_by', 'job_id'
-- permit_fields = 'receipt_sending_at', fence, 'receipt_state', 'sending', 'receipt_by', ARGV[1]
-- attempts_column = 'receipt_tries'
-- stale_after = 300.0

local row = KEYS[1]

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local now = tonumber(ARGV[2] or clock())

-- The row: its columns, whether its sender is gone, and whether an earlier attempt may have arrived; nothing without a row.
local function read()
  local seen = redis.call('HMGET', row, 'receipt_sending_at', 'receipt_sent_at', 'receipt_state', 'receipt_by', 'job_id')
  if not seen[1] and not seen[2] and not seen[5] and redis.call('EXISTS', row) == 0 then return end
  local began = tonumber(seen[1] or nil)
  -- P13: the sender is also gone if it began later than now, by a clock that was set back since
  local stale = began and (began + 300.0 <= now or began > now + 300.0)
  -- an attempt that never ended: it was recorded as uncertain, or its sender is gone and had not just reserved
  local doubt = stale
  doubt = seen[3] == 'uncertain' or (stale and seen[3] ~= 'reserved')
  return seen, stale, doubt
end

-- The answer to a caller who may not: how the delivery stands.
local function found(seen, stale, doubt)
  local under_way = seen[1] and (stale and 'uncertain' or 'sending')
  local named = seen[2] and 'delivered' or doubt and 'uncertain' or seen[3] or under_way or 'ready'
  return {false, named, seen[4], seen[1]}
end

-- The time at which a permit begins or goes on is its fence (P4), later than the one before.
local function next_fence(since)
  local began = tonumber(since or nil)
  local later = began and began + 0.000001 or now
  -- unless the clock was set back by more than a permit lasts: no process could get one until then
  if later > now + 300.0 then later = now end
  return string.format('%.6f', math.max(now, later))
end

local function take()
  local seen, stale, doubt = read()
  if not seen then return {} end
  -- not delivered, no process is sending (or one has been for too long), and the policy allows another attempt (P7)
  local free = not seen[2] and (not seen[1] or stale or seen[3] == 'uncertain')
  free = free and not doubt
  if not free then return found(seen, stale, doubt) end
  local fence, attempts = next_fence(seen[1]), false
  -- what can fail comes first, for a script that fails half-way is not undone
  attempts = redis.call('HINCRBY', row, 'receipt_tries', 1)
  redis.call('HSET', row, 'receipt_sending_at', fence, 'receipt_state', 'sending', 'receipt_by', ARGV[1])
  if not attempts and not doubt then return fence end
  return {fence, doubt and 1 or 0, attempts}
end

return take()

-- begin a receipt by the store's clock, returning: delivery.take
-- delivery.take
-- given_now = false
-- seen_state = seen[3]
-- seen_holder = seen[4]
-- seen_key = seen[5]
-- looked_at = 'receipt_sending_at', 'receipt_sent_at', 'receipt_state', 'receipt_by', 'job_id'
-- permit_fields = 'receipt_sending_at', fence, 'receipt_state', 'sending', 'receipt_by', ARGV[1]
-- attempts_column = 'receipt_tries'
-- stale_after = 300.0
-- returning = true
-- returned = 'made_at'

local row = KEYS[1]

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local now = tonumber(false or clock())

-- The row: its columns, whether its sender is gone, and whether an earlier attempt may have arrived; nothing without a row.
local function read()
  local seen = redis.call('HMGET', row, 'receipt_sending_at', 'receipt_sent_at', 'receipt_state', 'receipt_by', 'job_id')
  if not seen[1] and not seen[2] and not seen[5] and redis.call('EXISTS', row) == 0 then return end
  local began = tonumber(seen[1] or nil)
  -- P13: the sender is also gone if it began later than now, by a clock that was set back since
  local stale = began and (began + 300.0 <= now or began > now + 300.0)
  -- an attempt that never ended: it was recorded as uncertain, or its sender is gone and had not just reserved
  local doubt = stale
  doubt = seen[3] == 'uncertain' or (stale and seen[3] ~= 'reserved')
  return seen, stale, doubt
end

-- The answer to a caller who may not: how the delivery stands.
local function found(seen, stale, doubt)
  local under_way = seen[1] and (stale and 'uncertain' or 'sending')
  local named = seen[2] and 'delivered' or doubt and 'uncertain' or seen[3] or under_way or 'ready'
  return {false, named, seen[4], seen[1]}
end

-- The time at which a permit begins or goes on is its fence (P4), later than the one before.
local function next_fence(since)
  local began = tonumber(since or nil)
  local later = began and began + 0.000001 or now
  -- unless the clock was set back by more than a permit lasts: no process could get one until then
  if later > now + 300.0 then later = now end
  return string.format('%.6f', math.max(now, later))
end

local function take()
  local seen, stale, doubt = read()
  if not seen then return {} end
  -- not delivered, no process is sending (or one has been for too long), and the policy allows another attempt (P7)
  local free = not seen[2] and (not seen[1] or stale or seen[3] == 'uncertain')
  free = free and not doubt
  if not free then return found(seen, stale, doubt) end
  local fence, attempts = next_fence(seen[1]), false
  -- what can fail comes first, for a script that fails half-way is not undone
  attempts = redis.call('HINCRBY', row, 'receipt_tries', 1)
  redis.call('HSET', row, 'receipt_sending_at', fence, 'receipt_state', 'sending', 'receipt_by', ARGV[1])
  if true then return {fence, doubt and 1 or 0, attempts, unpack(redis.call('HMGET', row, 'made_at'))} end
  if not attempts and not doubt then return fence end
  return {fence, doubt and 1 or 0, attempts}
end

return take()

-- begin a receipt, refused: delivery.take
-- begin a receipt, missing: delivery.take
-- delivery.take
-- given_now = false
-- seen_state = seen[3]
-- seen_holder = seen[4]
-- seen_key = seen[5]
-- looked_at = 'receipt_sending_at', 'receipt_sent_at', 'receipt_state', 'receipt_by', 'job_id'
-- permit_fields = 'receipt_sending_at', fence, 'receipt_state', 'sending', 'receipt_by', ARGV[1]
-- attempts_column = 'receipt_tries'
-- stale_after = 300.0

local row = KEYS[1]

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local now = tonumber(false or clock())

-- The row: its columns, whether its sender is gone, and whether an earlier attempt may have arrived; nothing without a row.
local function read()
  local seen = redis.call('HMGET', row, 'receipt_sending_at', 'receipt_sent_at', 'receipt_state', 'receipt_by', 'job_id')
  if not seen[1] and not seen[2] and not seen[5] and redis.call('EXISTS', row) == 0 then return end
  local began = tonumber(seen[1] or nil)
  -- P13: the sender is also gone if it began later than now, by a clock that was set back since
  local stale = began and (began + 300.0 <= now or began > now + 300.0)
  -- an attempt that never ended: it was recorded as uncertain, or its sender is gone and had not just reserved
  local doubt = stale
  doubt = seen[3] == 'uncertain' or (stale and seen[3] ~= 'reserved')
  return seen, stale, doubt
end

-- The answer to a caller who may not: how the delivery stands.
local function found(seen, stale, doubt)
  local under_way = seen[1] and (stale and 'uncertain' or 'sending')
  local named = seen[2] and 'delivered' or doubt and 'uncertain' or seen[3] or under_way or 'ready'
  return {false, named, seen[4], seen[1]}
end

-- The time at which a permit begins or goes on is its fence (P4), later than the one before.
local function next_fence(since)
  local began = tonumber(since or nil)
  local later = began and began + 0.000001 or now
  -- unless the clock was set back by more than a permit lasts: no process could get one until then
  if later > now + 300.0 then later = now end
  return string.format('%.6f', math.max(now, later))
end

local function take()
  local seen, stale, doubt = read()
  if not seen then return {} end
  -- not delivered, no process is sending (or one has been for too long), and the policy allows another attempt (P7)
  local free = not seen[2] and (not seen[1] or stale or seen[3] == 'uncertain')
  free = free and not doubt
  if not free then return found(seen, stale, doubt) end
  local fence, attempts = next_fence(seen[1]), false
  -- what can fail comes first, for a script that fails half-way is not undone
  attempts = redis.call('HINCRBY', row, 'receipt_tries', 1)
  redis.call('HSET', row, 'receipt_sending_at', fence, 'receipt_state', 'sending', 'receipt_by', ARGV[1])
  if not attempts and not doubt then return fence end
  return {fence, doubt and 1 or 0, attempts}
end

return take()

-- sending a receipt: delivery.mark
-- delivery.mark
-- given_now = ARGV[2]
-- given_fence = ARGV[1]
-- seen_state = seen[3]
-- seen_holder = seen[4]
-- looked_at = 'receipt_sending_at', 'receipt_sent_at', 'receipt_state', 'receipt_by'
-- delivering = 'receipt_sending_at'
-- state = 'sending'
-- state_column = 'receipt_state'
-- stale_after = 300.0

local row = KEYS[1]

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local now = tonumber(ARGV[2] or clock())

-- The row: its columns, whether its sender is gone, and whether an earlier attempt may have arrived; nothing without a row.
local function read()
  local seen = redis.call('HMGET', row, 'receipt_sending_at', 'receipt_sent_at', 'receipt_state', 'receipt_by')
  if not seen[1] and not seen[2] and not seen_key and redis.call('EXISTS', row) == 0 then return end
  local began = tonumber(seen[1] or nil)
  -- P13: the sender is also gone if it began later than now, by a clock that was set back since
  local stale = began and (began + 300.0 <= now or began > now + 300.0)
  -- an attempt that never ended: it was recorded as uncertain, or its sender is gone and had not just reserved
  local doubt = stale
  doubt = seen[3] == 'uncertain' or (stale and seen[3] ~= 'reserved')
  return seen, stale, doubt
end

-- The answer to a caller who may not: how the delivery stands.
local function found(seen, stale, doubt)
  local under_way = seen[1] and (stale and 'uncertain' or 'sending')
  local named = seen[2] and 'delivered' or doubt and 'uncertain' or seen[3] or under_way or 'ready'
  return {false, named, seen[4], seen[1]}
end

-- The time at which a permit begins or goes on is its fence (P4), later than the one before.
local function next_fence(since)
  local began = tonumber(since or nil)
  local later = began and began + 0.000001 or now
  -- unless the clock was set back by more than a permit lasts: no process could get one until then
  if later > now + 300.0 then later = now end
  return string.format('%.6f', math.max(now, later))
end

-- Records how the attempt ended, or, at the state 'sending', that it goes on; returns its fence, or 1 if it is over.
local function record(seen)
  local fence = 1
  fence = next_fence(seen[1])
  redis.call('HSET', row, 'receipt_sending_at', fence)
  redis.call('HSET', row, 'receipt_state', 'sending')
  return fence
end

local function mark()
  local seen, stale, doubt = read()
  if not seen then return {} end
  -- P5: only the current sender's record is accepted; P4: its timestamp is its fence
  if seen[1] ~= ARGV[1] or seen[2] then return found(seen, stale, doubt) end
  return record(seen)
end

return mark()

-- delivered a receipt: delivery.mark
-- delivery.mark
-- given_now = ARGV[2]
-- given_fence = ARGV[1]
-- seen_state = seen[3]
-- seen_holder = seen[4]
-- looked_at = 'receipt_sending_at', 'receipt_sent_at', 'receipt_state', 'receipt_by'
-- delivering = 'receipt_sending_at'
-- delivered = 'receipt_sent_at'
-- state = 'delivered'
-- state_column = 'receipt_state'
-- error_column = 'receipt_error'
-- stale_after = 300.0

local row = KEYS[1]

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local now = tonumber(ARGV[2] or clock())

-- The row: its columns, whether its sender is gone, and whether an earlier attempt may have arrived; nothing without a row.
local function read()
  local seen = redis.call('HMGET', row, 'receipt_sending_at', 'receipt_sent_at', 'receipt_state', 'receipt_by')
  if not seen[1] and not seen[2] and not seen_key and redis.call('EXISTS', row) == 0 then return end
  local began = tonumber(seen[1] or nil)
  -- P13: the sender is also gone if it began later than now, by a clock that was set back since
  local stale = began and (began + 300.0 <= now or began > now + 300.0)
  -- an attempt that never ended: it was recorded as uncertain, or its sender is gone and had not just reserved
  local doubt = stale
  doubt = seen[3] == 'uncertain' or (stale and seen[3] ~= 'reserved')
  return seen, stale, doubt
end

-- The answer to a caller who may not: how the delivery stands.
local function found(seen, stale, doubt)
  local under_way = seen[1] and (stale and 'uncertain' or 'sending')
  local named = seen[2] and 'delivered' or doubt and 'uncertain' or seen[3] or under_way or 'ready'
  return {false, named, seen[4], seen[1]}
end

-- Records how the attempt ended, or, at the state 'sending', that it goes on; returns its fence, or 1 if it is over.
local function record(seen)
  local fence = 1
  redis.call('HSET', row, 'receipt_sent_at', string.format('%.6f', now))
  redis.call('HDEL', row, 'receipt_sending_at')
  redis.call('HDEL', row, 'receipt_error')
  redis.call('HSET', row, 'receipt_state', 'delivered')
  return fence
end

local function mark()
  local seen, stale, doubt = read()
  if not seen then return {} end
  -- P5: only the current sender's record is accepted; P4: its timestamp is its fence
  if seen[1] ~= ARGV[1] or seen[2] then return found(seen, stale, doubt) end
  return record(seen)
end

return mark()

-- delivered a receipt by the store's clock: delivery.mark
-- delivery.mark
-- given_now = false
-- given_fence = ARGV[1]
-- seen_state = seen[3]
-- seen_holder = seen[4]
-- looked_at = 'receipt_sending_at', 'receipt_sent_at', 'receipt_state', 'receipt_by'
-- delivering = 'receipt_sending_at'
-- delivered = 'receipt_sent_at'
-- state = 'delivered'
-- state_column = 'receipt_state'
-- error_column = 'receipt_error'
-- stale_after = 300.0

local row = KEYS[1]

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local now = tonumber(false or clock())

-- The row: its columns, whether its sender is gone, and whether an earlier attempt may have arrived; nothing without a row.
local function read()
  local seen = redis.call('HMGET', row, 'receipt_sending_at', 'receipt_sent_at', 'receipt_state', 'receipt_by')
  if not seen[1] and not seen[2] and not seen_key and redis.call('EXISTS', row) == 0 then return end
  local began = tonumber(seen[1] or nil)
  -- P13: the sender is also gone if it began later than now, by a clock that was set back since
  local stale = began and (began + 300.0 <= now or began > now + 300.0)
  -- an attempt that never ended: it was recorded as uncertain, or its sender is gone and had not just reserved
  local doubt = stale
  doubt = seen[3] == 'uncertain' or (stale and seen[3] ~= 'reserved')
  return seen, stale, doubt
end

-- The answer to a caller who may not: how the delivery stands.
local function found(seen, stale, doubt)
  local under_way = seen[1] and (stale and 'uncertain' or 'sending')
  local named = seen[2] and 'delivered' or doubt and 'uncertain' or seen[3] or under_way or 'ready'
  return {false, named, seen[4], seen[1]}
end

-- Records how the attempt ended, or, at the state 'sending', that it goes on; returns its fence, or 1 if it is over.
local function record(seen)
  local fence = 1
  redis.call('HSET', row, 'receipt_sent_at', string.format('%.6f', now))
  redis.call('HDEL', row, 'receipt_sending_at')
  redis.call('HDEL', row, 'receipt_error')
  redis.call('HSET', row, 'receipt_state', 'delivered')
  return fence
end

local function mark()
  local seen, stale, doubt = read()
  if not seen then return {} end
  -- P5: only the current sender's record is accepted; P4: its timestamp is its fence
  if seen[1] ~= ARGV[1] or seen[2] then return found(seen, stale, doubt) end
  return record(seen)
end

return mark()

-- not sent a receipt: delivery.mark
-- delivery.mark
-- given_now = false
-- given_fence = ARGV[1]
-- given_error = ARGV[2]
-- seen_state = seen[3]
-- seen_holder = seen[4]
-- looked_at = 'receipt_sending_at', 'receipt_sent_at', 'receipt_state', 'receipt_by'
-- delivering = 'receipt_sending_at'
-- state = 'failed'
-- state_column = 'receipt_state'
-- error_column = 'receipt_error'
-- stale_after = 300.0

local row = KEYS[1]

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local now = tonumber(false or clock())

-- The row: its columns, whether its sender is gone, and whether an earlier attempt may have arrived; nothing without a row.
local function read()
  local seen = redis.call('HMGET', row, 'receipt_sending_at', 'receipt_sent_at', 'receipt_state', 'receipt_by')
  if not seen[1] and not seen[2] and not seen_key and redis.call('EXISTS', row) == 0 then return end
  local began = tonumber(seen[1] or nil)
  -- P13: the sender is also gone if it began later than now, by a clock that was set back since
  local stale = began and (began + 300.0 <= now or began > now + 300.0)
  -- an attempt that never ended: it was recorded as uncertain, or its sender is gone and had not just reserved
  local doubt = stale
  doubt = seen[3] == 'uncertain' or (stale and seen[3] ~= 'reserved')
  return seen, stale, doubt
end

-- The answer to a caller who may not: how the delivery stands.
local function found(seen, stale, doubt)
  local under_way = seen[1] and (stale and 'uncertain' or 'sending')
  local named = seen[2] and 'delivered' or doubt and 'uncertain' or seen[3] or under_way or 'ready'
  return {false, named, seen[4], seen[1]}
end

-- Records how the attempt ended, or, at the state 'sending', that it goes on; returns its fence, or 1 if it is over.
local function record(seen)
  local fence = 1
  redis.call('HDEL', row, 'receipt_sending_at')
  redis.call('HSET', row, 'receipt_error', ARGV[2])
  redis.call('HSET', row, 'receipt_state', 'failed')
  return fence
end

local function mark()
  local seen, stale, doubt = read()
  if not seen then return {} end
  -- P5: only the current sender's record is accepted; P4: its timestamp is its fence
  if seen[1] ~= ARGV[1] or seen[2] then return found(seen, stale, doubt) end
  return record(seen)
end

return mark()

-- uncertain about a receipt: delivery.mark
-- delivery.mark
-- given_now = false
-- given_fence = ARGV[1]
-- given_error = ARGV[2]
-- seen_state = seen[3]
-- seen_holder = seen[4]
-- looked_at = 'receipt_sending_at', 'receipt_sent_at', 'receipt_state', 'receipt_by'
-- state = 'uncertain'
-- state_column = 'receipt_state'
-- error_column = 'receipt_error'
-- stale_after = 300.0

local row = KEYS[1]

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local now = tonumber(false or clock())

-- The row: its columns, whether its sender is gone, and whether an earlier attempt may have arrived; nothing without a row.
local function read()
  local seen = redis.call('HMGET', row, 'receipt_sending_at', 'receipt_sent_at', 'receipt_state', 'receipt_by')
  if not seen[1] and not seen[2] and not seen_key and redis.call('EXISTS', row) == 0 then return end
  local began = tonumber(seen[1] or nil)
  -- P13: the sender is also gone if it began later than now, by a clock that was set back since
  local stale = began and (began + 300.0 <= now or began > now + 300.0)
  -- an attempt that never ended: it was recorded as uncertain, or its sender is gone and had not just reserved
  local doubt = stale
  doubt = seen[3] == 'uncertain' or (stale and seen[3] ~= 'reserved')
  return seen, stale, doubt
end

-- The answer to a caller who may not: how the delivery stands.
local function found(seen, stale, doubt)
  local under_way = seen[1] and (stale and 'uncertain' or 'sending')
  local named = seen[2] and 'delivered' or doubt and 'uncertain' or seen[3] or under_way or 'ready'
  return {false, named, seen[4], seen[1]}
end

-- Records how the attempt ended, or, at the state 'sending', that it goes on; returns its fence, or 1 if it is over.
local function record(seen)
  local fence = 1
  redis.call('HSET', row, 'receipt_error', ARGV[2])
  redis.call('HSET', row, 'receipt_state', 'uncertain')
  return fence
end

local function mark()
  local seen, stale, doubt = read()
  if not seen then return {} end
  -- P5: only the current sender's record is accepted; P4: its timestamp is its fence
  if seen[1] ~= ARGV[1] or seen[2] then return found(seen, stale, doubt) end
  return record(seen)
end

return mark()

-- a receipt arrived: delivery.resolve
-- delivery.resolve
-- given_now = ARGV[2]
-- given_error = ARGV[1]
-- seen_state = seen[3]
-- seen_holder = seen[4]
-- seen_key = seen[5]
-- looked_at = 'receipt_sending_at', 'receipt_sent_at', 'receipt_state', 'receipt_by', 'job_id'
-- delivering = 'receipt_sending_at'
-- delivered = 'receipt_sent_at'
-- state = 'delivered'
-- state_column = 'receipt_state'
-- error_column = 'receipt_error'
-- stale_after = 300.0

local row = KEYS[1]

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local now = tonumber(ARGV[2] or clock())

-- The row: its columns, whether its sender is gone, and whether an earlier attempt may have arrived; nothing without a row.
local function read()
  local seen = redis.call('HMGET', row, 'receipt_sending_at', 'receipt_sent_at', 'receipt_state', 'receipt_by', 'job_id')
  if not seen[1] and not seen[2] and not seen[5] and redis.call('EXISTS', row) == 0 then return end
  local began = tonumber(seen[1] or nil)
  -- P13: the sender is also gone if it began later than now, by a clock that was set back since
  local stale = began and (began + 300.0 <= now or began > now + 300.0)
  -- an attempt that never ended: it was recorded as uncertain, or its sender is gone and had not just reserved
  local doubt = stale
  doubt = seen[3] == 'uncertain' or (stale and seen[3] ~= 'reserved')
  return seen, stale, doubt
end

-- The answer to a caller who may not: how the delivery stands.
local function found(seen, stale, doubt)
  local under_way = seen[1] and (stale and 'uncertain' or 'sending')
  local named = seen[2] and 'delivered' or doubt and 'uncertain' or seen[3] or under_way or 'ready'
  return {false, named, seen[4], seen[1]}
end

-- Records how the attempt ended, or, at the state 'sending', that it goes on; returns its fence, or 1 if it is over.
local function record(seen)
  local fence = 1
  redis.call('HSET', row, 'receipt_sent_at', string.format('%.6f', now))
  redis.call('HDEL', row, 'receipt_sending_at')
  redis.call('HSET', row, 'receipt_error', ARGV[1])
  redis.call('HSET', row, 'receipt_state', 'delivered')
  return fence
end

local function resolve()
  local seen, stale, doubt = read()
  if not seen then return {} end
  -- only a delivery whose outcome is unknown
  if not doubt or seen[2] then return found(seen, stale, doubt) end
  return record(seen)
end

return resolve()

-- a receipt did not arrive: delivery.resolve
-- delivery.resolve
-- given_now = false
-- given_error = ARGV[1]
-- seen_state = seen[3]
-- seen_holder = seen[4]
-- seen_key = seen[5]
-- looked_at = 'receipt_sending_at', 'receipt_sent_at', 'receipt_state', 'receipt_by', 'job_id'
-- delivering = 'receipt_sending_at'
-- state = 'failed'
-- state_column = 'receipt_state'
-- error_column = 'receipt_error'
-- stale_after = 300.0

local row = KEYS[1]

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local now = tonumber(false or clock())

-- The row: its columns, whether its sender is gone, and whether an earlier attempt may have arrived; nothing without a row.
local function read()
  local seen = redis.call('HMGET', row, 'receipt_sending_at', 'receipt_sent_at', 'receipt_state', 'receipt_by', 'job_id')
  if not seen[1] and not seen[2] and not seen[5] and redis.call('EXISTS', row) == 0 then return end
  local began = tonumber(seen[1] or nil)
  -- P13: the sender is also gone if it began later than now, by a clock that was set back since
  local stale = began and (began + 300.0 <= now or began > now + 300.0)
  -- an attempt that never ended: it was recorded as uncertain, or its sender is gone and had not just reserved
  local doubt = stale
  doubt = seen[3] == 'uncertain' or (stale and seen[3] ~= 'reserved')
  return seen, stale, doubt
end

-- The answer to a caller who may not: how the delivery stands.
local function found(seen, stale, doubt)
  local under_way = seen[1] and (stale and 'uncertain' or 'sending')
  local named = seen[2] and 'delivered' or doubt and 'uncertain' or seen[3] or under_way or 'ready'
  return {false, named, seen[4], seen[1]}
end

-- Records how the attempt ended, or, at the state 'sending', that it goes on; returns its fence, or 1 if it is over.
local function record(seen)
  local fence = 1
  redis.call('HDEL', row, 'receipt_sending_at')
  redis.call('HSET', row, 'receipt_error', ARGV[1])
  redis.call('HSET', row, 'receipt_state', 'failed')
  return fence
end

local function resolve()
  local seen, stale, doubt = read()
  if not seen then return {} end
  -- only a delivery whose outcome is unknown
  if not doubt or seen[2] then return found(seen, stale, doubt) end
  return record(seen)
end

return resolve()

-- reserve the permit of a receipt: delivery.take
-- delivery.take
-- given_now = ARGV[2]
-- seen_state = seen[3]
-- seen_holder = seen[4]
-- seen_key = seen[5]
-- looked_at = 'receipt_sending_at', 'receipt_sent_at', 'receipt_state', 'receipt_by', 'job_id'
-- permit_fields = 'receipt_sending_at', fence, 'receipt_state', doubt and 'sending' or 'reserved', 'receipt_by', ARGV[1]
-- attempts_column = 'receipt_tries'
-- stale_after = 300.0

local row = KEYS[1]

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local now = tonumber(ARGV[2] or clock())

-- The row: its columns, whether its sender is gone, and whether an earlier attempt may have arrived; nothing without a row.
local function read()
  local seen = redis.call('HMGET', row, 'receipt_sending_at', 'receipt_sent_at', 'receipt_state', 'receipt_by', 'job_id')
  if not seen[1] and not seen[2] and not seen[5] and redis.call('EXISTS', row) == 0 then return end
  local began = tonumber(seen[1] or nil)
  -- P13: the sender is also gone if it began later than now, by a clock that was set back since
  local stale = began and (began + 300.0 <= now or began > now + 300.0)
  -- an attempt that never ended: it was recorded as uncertain, or its sender is gone and had not just reserved
  local doubt = stale
  doubt = seen[3] == 'uncertain' or (stale and seen[3] ~= 'reserved')
  return seen, stale, doubt
end

-- The answer to a caller who may not: how the delivery stands.
local function found(seen, stale, doubt)
  local under_way = seen[1] and (stale and 'uncertain' or 'sending')
  local named = seen[2] and 'delivered' or doubt and 'uncertain' or seen[3] or under_way or 'ready'
  return {false, named, seen[4], seen[1]}
end

-- The time at which a permit begins or goes on is its fence (P4), later than the one before.
local function next_fence(since)
  local began = tonumber(since or nil)
  local later = began and began + 0.000001 or now
  -- unless the clock was set back by more than a permit lasts: no process could get one until then
  if later > now + 300.0 then later = now end
  return string.format('%.6f', math.max(now, later))
end

local function take()
  local seen, stale, doubt = read()
  if not seen then return {} end
  -- not delivered, no process is sending (or one has been for too long), and the policy allows another attempt (P7)
  local free = not seen[2] and (not seen[1] or stale or seen[3] == 'uncertain')
  free = free and not doubt
  if not free then return found(seen, stale, doubt) end
  local fence, attempts = next_fence(seen[1]), false
  -- what can fail comes first, for a script that fails half-way is not undone
  attempts = redis.call('HINCRBY', row, 'receipt_tries', 1)
  redis.call('HSET', row, 'receipt_sending_at', fence, 'receipt_state', doubt and 'sending' or 'reserved', 'receipt_by', ARGV[1])
  if not attempts and not doubt then return fence end
  return {fence, doubt and 1 or 0, attempts}
end

return take()
