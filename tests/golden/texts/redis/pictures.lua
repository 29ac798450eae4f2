-- take the turn of a picture: delivery.take ×4
-- delivery.take
-- given_now = ARGV[1]
-- seen_state = false
-- seen_holder = false
-- seen_key = seen[3]
-- looked_at = 'delivering_at', 'delivered_at', 'job_id'
-- turn_fields = 'delivering_at', fence
-- patience = 300
-- told_attempts = false

local row = KEYS[1]
local seen = redis.call('HMGET', row, 'delivering_at', 'delivered_at', 'job_id')
local since, done, named = seen[1], seen[2], false
if not since and not done and not seen[3] and redis.call('EXISTS', row) == 0 then return {} end
local now = tonumber(ARGV[1])
-- its sender is gone; P13: also if it began later than now, by a clock that was set back since
local began = tonumber(since or nil)
local stale = began and (began + 300 <= now or began > now + 300)
-- a try that nobody has ended: it was marked so, or its sender is gone; only a reserved one has surely sent nothing
local doubt = stale

-- The time of a turn that begins or goes on is its fence, and later than the one before.
local later = began and began + 0.000001 or now
-- but where the clock was set back by more than the patience, nobody could have the turn until it is there again
if later > now + 300 then later = now end
local fence = string.format('%.6f', math.max(now, later))

-- nobody has delivered it, nobody is at it (or has been for too long), and the policy allows another try (P7)
local free = not done and (not since or stale or named == 'uncertain')
if free then
  -- what can fail comes first, for a script that fails half-way is not undone
  redis.call('HSET', row, 'delivering_at', fence)
  if not doubt then return fence end
  return {fence, doubt and 1 or 0, false}
end
local found = done and 'delivered' or doubt and 'uncertain' or named or since and (stale and 'uncertain' or 'sending')
return {false, found or 'ready', false, since}

-- take the turn of a picture by the store's clock, returning: delivery.take
-- delivery.take
-- seen_state = false
-- seen_holder = false
-- seen_key = seen[3]
-- looked_at = 'delivering_at', 'delivered_at', 'job_id'
-- turn_fields = 'delivering_at', fence
-- patience = 300
-- told_attempts = false
-- returned = 'made_at'

local row = KEYS[1]
local seen = redis.call('HMGET', row, 'delivering_at', 'delivered_at', 'job_id')
local since, done, named = seen[1], seen[2], false
if not since and not done and not seen[3] and redis.call('EXISTS', row) == 0 then return {} end
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
-- its sender is gone; P13: also if it began later than now, by a clock that was set back since
local began = tonumber(since or nil)
local stale = began and (began + 300 <= now or began > now + 300)
-- a try that nobody has ended: it was marked so, or its sender is gone; only a reserved one has surely sent nothing
local doubt = stale

-- The time of a turn that begins or goes on is its fence, and later than the one before.
local later = began and began + 0.000001 or now
-- but where the clock was set back by more than the patience, nobody could have the turn until it is there again
if later > now + 300 then later = now end
local fence = string.format('%.6f', math.max(now, later))

-- nobody has delivered it, nobody is at it (or has been for too long), and the policy allows another try (P7)
local free = not done and (not since or stale or named == 'uncertain')
if free then
  -- what can fail comes first, for a script that fails half-way is not undone
  redis.call('HSET', row, 'delivering_at', fence)
  return {fence, doubt and 1 or 0, false, unpack(redis.call('HMGET', row, 'made_at'))}
end
local found = done and 'delivered' or doubt and 'uncertain' or named or since and (stale and 'uncertain' or 'sending')
return {false, found or 'ready', false, since}

-- no turn of a picture: delivery.take
-- no picture: delivery.take
-- delivery.take
-- seen_state = false
-- seen_holder = false
-- seen_key = seen[3]
-- looked_at = 'delivering_at', 'delivered_at', 'job_id'
-- turn_fields = 'delivering_at', fence
-- patience = 300
-- told_attempts = false

local row = KEYS[1]
local seen = redis.call('HMGET', row, 'delivering_at', 'delivered_at', 'job_id')
local since, done, named = seen[1], seen[2], false
if not since and not done and not seen[3] and redis.call('EXISTS', row) == 0 then return {} end
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
-- its sender is gone; P13: also if it began later than now, by a clock that was set back since
local began = tonumber(since or nil)
local stale = began and (began + 300 <= now or began > now + 300)
-- a try that nobody has ended: it was marked so, or its sender is gone; only a reserved one has surely sent nothing
local doubt = stale

-- The time of a turn that begins or goes on is its fence, and later than the one before.
local later = began and began + 0.000001 or now
-- but where the clock was set back by more than the patience, nobody could have the turn until it is there again
if later > now + 300 then later = now end
local fence = string.format('%.6f', math.max(now, later))

-- nobody has delivered it, nobody is at it (or has been for too long), and the policy allows another try (P7)
local free = not done and (not since or stale or named == 'uncertain')
if free then
  -- what can fail comes first, for a script that fails half-way is not undone
  redis.call('HSET', row, 'delivering_at', fence)
  if not doubt then return fence end
  return {fence, doubt and 1 or 0, false}
end
local found = done and 'delivered' or doubt and 'uncertain' or named or since and (stale and 'uncertain' or 'sending')
return {false, found or 'ready', false, since}

-- sending a picture: delivery.mark
-- delivery.mark
-- given_fence = ARGV[1]
-- given_now = ARGV[2]
-- seen_state = false
-- seen_holder = false
-- looked_at = 'delivering_at', 'delivered_at'
-- delivering = 'delivering_at'
-- patience = 300

local row = KEYS[1]
local seen = redis.call('HMGET', row, 'delivering_at', 'delivered_at')
local since, done, named = seen[1], seen[2], false
if not since and not done and not seen_key and redis.call('EXISTS', row) == 0 then return {} end
local now = tonumber(ARGV[2])
-- its sender is gone; P13: also if it began later than now, by a clock that was set back since
local began = tonumber(since or nil)
local stale = began and (began + 300 <= now or began > now + 300)
-- a try that nobody has ended: it was marked so, or its sender is gone; only a reserved one has surely sent nothing
local doubt = stale

-- The time of a turn that begins or goes on is its fence, and later than the one before.
local later = began and began + 0.000001 or now
-- but where the clock was set back by more than the patience, nobody could have the turn until it is there again
if later > now + 300 then later = now end
local fence = string.format('%.6f', math.max(now, later))

-- P5: only the current winner's mark is accepted; P4: its timestamp is its fence
local accepted = since == ARGV[1]
if accepted and not done then
  redis.call('HSET', row, 'delivering_at', fence)
  return fence
end
local found = done and 'delivered' or doubt and 'uncertain' or named or since and (stale and 'uncertain' or 'sending')
return {false, found or 'ready', false, since}

-- delivered a picture: delivery.mark
-- delivery.mark
-- given_fence = ARGV[1]
-- given_now = ARGV[2]
-- seen_state = false
-- seen_holder = false
-- looked_at = 'delivering_at', 'delivered_at'
-- delivering = 'delivering_at'
-- delivered = 'delivered_at'
-- patience = 300

local row = KEYS[1]
local seen = redis.call('HMGET', row, 'delivering_at', 'delivered_at')
local since, done, named = seen[1], seen[2], false
if not since and not done and not seen_key and redis.call('EXISTS', row) == 0 then return {} end
local now = tonumber(ARGV[2])
-- its sender is gone; P13: also if it began later than now, by a clock that was set back since
local began = tonumber(since or nil)
local stale = began and (began + 300 <= now or began > now + 300)
-- a try that nobody has ended: it was marked so, or its sender is gone; only a reserved one has surely sent nothing
local doubt = stale

-- P5: only the current winner's mark is accepted; P4: its timestamp is its fence
local accepted = since == ARGV[1]
if accepted and not done then
  redis.call('HSET', row, 'delivered_at', string.format('%.6f', now))
  redis.call('HDEL', row, 'delivering_at')
  return 1
end
local found = done and 'delivered' or doubt and 'uncertain' or named or since and (stale and 'uncertain' or 'sending')
return {false, found or 'ready', false, since}

-- delivered a picture by the store's clock: delivery.mark
-- delivery.mark
-- given_fence = ARGV[1]
-- seen_state = false
-- seen_holder = false
-- looked_at = 'delivering_at', 'delivered_at'
-- delivering = 'delivering_at'
-- delivered = 'delivered_at'
-- patience = 300

local row = KEYS[1]
local seen = redis.call('HMGET', row, 'delivering_at', 'delivered_at')
local since, done, named = seen[1], seen[2], false
if not since and not done and not seen_key and redis.call('EXISTS', row) == 0 then return {} end
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
-- its sender is gone; P13: also if it began later than now, by a clock that was set back since
local began = tonumber(since or nil)
local stale = began and (began + 300 <= now or began > now + 300)
-- a try that nobody has ended: it was marked so, or its sender is gone; only a reserved one has surely sent nothing
local doubt = stale

-- P5: only the current winner's mark is accepted; P4: its timestamp is its fence
local accepted = since == ARGV[1]
if accepted and not done then
  redis.call('HSET', row, 'delivered_at', string.format('%.6f', now))
  redis.call('HDEL', row, 'delivering_at')
  return 1
end
local found = done and 'delivered' or doubt and 'uncertain' or named or since and (stale and 'uncertain' or 'sending')
return {false, found or 'ready', false, since}

-- not sent a picture: delivery.mark
-- delivery.mark
-- given_fence = ARGV[1]
-- seen_state = false
-- seen_holder = false
-- looked_at = 'delivering_at', 'delivered_at'
-- delivering = 'delivering_at'
-- patience = 300

local row = KEYS[1]
local seen = redis.call('HMGET', row, 'delivering_at', 'delivered_at')
local since, done, named = seen[1], seen[2], false
if not since and not done and not seen_key and redis.call('EXISTS', row) == 0 then return {} end
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
-- its sender is gone; P13: also if it began later than now, by a clock that was set back since
local began = tonumber(since or nil)
local stale = began and (began + 300 <= now or began > now + 300)
-- a try that nobody has ended: it was marked so, or its sender is gone; only a reserved one has surely sent nothing
local doubt = stale

-- P5: only the current winner's mark is accepted; P4: its timestamp is its fence
local accepted = since == ARGV[1]
if accepted and not done then
  redis.call('HDEL', row, 'delivering_at')
  return 1
end
local found = done and 'delivered' or doubt and 'uncertain' or named or since and (stale and 'uncertain' or 'sending')
return {false, found or 'ready', false, since}

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
-- patience = 300

local row = KEYS[1]
local seen = redis.call('HMGET', row, 'delivering_at', 'delivered_at', 'job_id')
local since, done, named = seen[1], seen[2], false
if not since and not done and not seen[3] and redis.call('EXISTS', row) == 0 then return {} end
local now = tonumber(ARGV[2])
-- its sender is gone; P13: also if it began later than now, by a clock that was set back since
local began = tonumber(since or nil)
local stale = began and (began + 300 <= now or began > now + 300)
-- a try that nobody has ended: it was marked so, or its sender is gone; only a reserved one has surely sent nothing
local doubt = stale

local accepted = doubt
if accepted and not done then
  redis.call('HSET', row, 'delivered_at', string.format('%.6f', now))
  redis.call('HDEL', row, 'delivering_at')
  return 1
end
local found = done and 'delivered' or doubt and 'uncertain' or named or since and (stale and 'uncertain' or 'sending')
return {false, found or 'ready', false, since}

-- a picture did not arrive: delivery.resolve
-- delivery.resolve
-- seen_state = false
-- seen_holder = false
-- seen_key = seen[3]
-- looked_at = 'delivering_at', 'delivered_at', 'job_id'
-- delivering = 'delivering_at'
-- patience = 300

local row = KEYS[1]
local seen = redis.call('HMGET', row, 'delivering_at', 'delivered_at', 'job_id')
local since, done, named = seen[1], seen[2], false
if not since and not done and not seen[3] and redis.call('EXISTS', row) == 0 then return {} end
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
-- its sender is gone; P13: also if it began later than now, by a clock that was set back since
local began = tonumber(since or nil)
local stale = began and (began + 300 <= now or began > now + 300)
-- a try that nobody has ended: it was marked so, or its sender is gone; only a reserved one has surely sent nothing
local doubt = stale

local accepted = doubt
if accepted and not done then
  redis.call('HDEL', row, 'delivering_at')
  return 1
end
local found = done and 'delivered' or doubt and 'uncertain' or named or since and (stale and 'uncertain' or 'sending')
return {false, found or 'ready', false, since}

-- take the turn of a receipt: delivery.take ×4
-- delivery.take
-- given_now = ARGV[2]
-- seen_state = seen[3]
-- seen_holder = seen[4]
-- seen_key = seen[5]
-- looked_at = 'receipt_sending_at', 'receipt_sent_at', 'receipt_state', 'receipt_by', 'job_id'
-- turn_fields = 'receipt_sending_at', fence, 'receipt_state', 'sending', 'receipt_by', ARGV[1]
-- attempts_column = 'receipt_tries'
-- patience = 300.0
-- told_attempts = attempts

local row = KEYS[1]
local seen = redis.call('HMGET', row, 'receipt_sending_at', 'receipt_sent_at', 'receipt_state', 'receipt_by', 'job_id')
local since, done, named = seen[1], seen[2], seen[3]
if not since and not done and not seen[5] and redis.call('EXISTS', row) == 0 then return {} end
local now = tonumber(ARGV[2])
-- its sender is gone; P13: also if it began later than now, by a clock that was set back since
local began = tonumber(since or nil)
local stale = began and (began + 300.0 <= now or began > now + 300.0)
-- a try that nobody has ended: it was marked so, or its sender is gone; only a reserved one has surely sent nothing
local doubt = named == 'uncertain' or (stale and named ~= 'reserved')

-- The time of a turn that begins or goes on is its fence, and later than the one before.
local later = began and began + 0.000001 or now
-- but where the clock was set back by more than the patience, nobody could have the turn until it is there again
if later > now + 300.0 then later = now end
local fence = string.format('%.6f', math.max(now, later))

-- nobody has delivered it, nobody is at it (or has been for too long), and the policy allows another try (P7)
local free = not done and (not since or stale or named == 'uncertain')
free = free and not doubt
if free then
  -- what can fail comes first, for a script that fails half-way is not undone
  local attempts = redis.call('HINCRBY', row, 'receipt_tries', 1)
  redis.call('HSET', row, 'receipt_sending_at', fence, 'receipt_state', 'sending', 'receipt_by', ARGV[1])
  return {fence, doubt and 1 or 0, attempts}
end
local found = done and 'delivered' or doubt and 'uncertain' or named or since and (stale and 'uncertain' or 'sending')
return {false, found or 'ready', seen[4], since}

-- take the turn of a receipt by the store's clock, returning: delivery.take
-- delivery.take
-- seen_state = seen[3]
-- seen_holder = seen[4]
-- seen_key = seen[5]
-- looked_at = 'receipt_sending_at', 'receipt_sent_at', 'receipt_state', 'receipt_by', 'job_id'
-- turn_fields = 'receipt_sending_at', fence, 'receipt_state', 'sending', 'receipt_by', ARGV[1]
-- attempts_column = 'receipt_tries'
-- patience = 300.0
-- told_attempts = attempts
-- returned = 'made_at'

local row = KEYS[1]
local seen = redis.call('HMGET', row, 'receipt_sending_at', 'receipt_sent_at', 'receipt_state', 'receipt_by', 'job_id')
local since, done, named = seen[1], seen[2], seen[3]
if not since and not done and not seen[5] and redis.call('EXISTS', row) == 0 then return {} end
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
-- its sender is gone; P13: also if it began later than now, by a clock that was set back since
local began = tonumber(since or nil)
local stale = began and (began + 300.0 <= now or began > now + 300.0)
-- a try that nobody has ended: it was marked so, or its sender is gone; only a reserved one has surely sent nothing
local doubt = named == 'uncertain' or (stale and named ~= 'reserved')

-- The time of a turn that begins or goes on is its fence, and later than the one before.
local later = began and began + 0.000001 or now
-- but where the clock was set back by more than the patience, nobody could have the turn until it is there again
if later > now + 300.0 then later = now end
local fence = string.format('%.6f', math.max(now, later))

-- nobody has delivered it, nobody is at it (or has been for too long), and the policy allows another try (P7)
local free = not done and (not since or stale or named == 'uncertain')
free = free and not doubt
if free then
  -- what can fail comes first, for a script that fails half-way is not undone
  local attempts = redis.call('HINCRBY', row, 'receipt_tries', 1)
  redis.call('HSET', row, 'receipt_sending_at', fence, 'receipt_state', 'sending', 'receipt_by', ARGV[1])
  return {fence, doubt and 1 or 0, attempts, unpack(redis.call('HMGET', row, 'made_at'))}
end
local found = done and 'delivered' or doubt and 'uncertain' or named or since and (stale and 'uncertain' or 'sending')
return {false, found or 'ready', seen[4], since}

-- no turn of a receipt: delivery.take
-- no receipt: delivery.take
-- delivery.take
-- seen_state = seen[3]
-- seen_holder = seen[4]
-- seen_key = seen[5]
-- looked_at = 'receipt_sending_at', 'receipt_sent_at', 'receipt_state', 'receipt_by', 'job_id'
-- turn_fields = 'receipt_sending_at', fence, 'receipt_state', 'sending', 'receipt_by', ARGV[1]
-- attempts_column = 'receipt_tries'
-- patience = 300.0
-- told_attempts = attempts

local row = KEYS[1]
local seen = redis.call('HMGET', row, 'receipt_sending_at', 'receipt_sent_at', 'receipt_state', 'receipt_by', 'job_id')
local since, done, named = seen[1], seen[2], seen[3]
if not since and not done and not seen[5] and redis.call('EXISTS', row) == 0 then return {} end
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
-- its sender is gone; P13: also if it began later than now, by a clock that was set back since
local began = tonumber(since or nil)
local stale = began and (began + 300.0 <= now or began > now + 300.0)
-- a try that nobody has ended: it was marked so, or its sender is gone; only a reserved one has surely sent nothing
local doubt = named == 'uncertain' or (stale and named ~= 'reserved')

-- The time of a turn that begins or goes on is its fence, and later than the one before.
local later = began and began + 0.000001 or now
-- but where the clock was set back by more than the patience, nobody could have the turn until it is there again
if later > now + 300.0 then later = now end
local fence = string.format('%.6f', math.max(now, later))

-- nobody has delivered it, nobody is at it (or has been for too long), and the policy allows another try (P7)
local free = not done and (not since or stale or named == 'uncertain')
free = free and not doubt
if free then
  -- what can fail comes first, for a script that fails half-way is not undone
  local attempts = redis.call('HINCRBY', row, 'receipt_tries', 1)
  redis.call('HSET', row, 'receipt_sending_at', fence, 'receipt_state', 'sending', 'receipt_by', ARGV[1])
  return {fence, doubt and 1 or 0, attempts}
end
local found = done and 'delivered' or doubt and 'uncertain' or named or since and (stale and 'uncertain' or 'sending')
return {false, found or 'ready', seen[4], since}

-- sending a receipt: delivery.mark
-- delivery.mark
-- given_fence = ARGV[1]
-- given_now = ARGV[2]
-- seen_state = seen[3]
-- seen_holder = seen[4]
-- looked_at = 'receipt_sending_at', 'receipt_sent_at', 'receipt_state', 'receipt_by'
-- delivering = 'receipt_sending_at'
-- state = 'sending'
-- state_column = 'receipt_state'
-- patience = 300.0

local row = KEYS[1]
local seen = redis.call('HMGET', row, 'receipt_sending_at', 'receipt_sent_at', 'receipt_state', 'receipt_by')
local since, done, named = seen[1], seen[2], seen[3]
if not since and not done and not seen_key and redis.call('EXISTS', row) == 0 then return {} end
local now = tonumber(ARGV[2])
-- its sender is gone; P13: also if it began later than now, by a clock that was set back since
local began = tonumber(since or nil)
local stale = began and (began + 300.0 <= now or began > now + 300.0)
-- a try that nobody has ended: it was marked so, or its sender is gone; only a reserved one has surely sent nothing
local doubt = named == 'uncertain' or (stale and named ~= 'reserved')

-- The time of a turn that begins or goes on is its fence, and later than the one before.
local later = began and began + 0.000001 or now
-- but where the clock was set back by more than the patience, nobody could have the turn until it is there again
if later > now + 300.0 then later = now end
local fence = string.format('%.6f', math.max(now, later))

-- P5: only the current winner's mark is accepted; P4: its timestamp is its fence
local accepted = since == ARGV[1]
if accepted and not done then
  redis.call('HSET', row, 'receipt_sending_at', fence)
  redis.call('HSET', row, 'receipt_state', 'sending')
  return fence
end
local found = done and 'delivered' or doubt and 'uncertain' or named or since and (stale and 'uncertain' or 'sending')
return {false, found or 'ready', seen[4], since}

-- delivered a receipt: delivery.mark
-- delivery.mark
-- given_fence = ARGV[1]
-- given_now = ARGV[2]
-- seen_state = seen[3]
-- seen_holder = seen[4]
-- looked_at = 'receipt_sending_at', 'receipt_sent_at', 'receipt_state', 'receipt_by'
-- delivering = 'receipt_sending_at'
-- delivered = 'receipt_sent_at'
-- state = 'delivered'
-- state_column = 'receipt_state'
-- error_column = 'receipt_error'
-- patience = 300.0

local row = KEYS[1]
local seen = redis.call('HMGET', row, 'receipt_sending_at', 'receipt_sent_at', 'receipt_state', 'receipt_by')
local since, done, named = seen[1], seen[2], seen[3]
if not since and not done and not seen_key and redis.call('EXISTS', row) == 0 then return {} end
local now = tonumber(ARGV[2])
-- its sender is gone; P13: also if it began later than now, by a clock that was set back since
local began = tonumber(since or nil)
local stale = began and (began + 300.0 <= now or began > now + 300.0)
-- a try that nobody has ended: it was marked so, or its sender is gone; only a reserved one has surely sent nothing
local doubt = named == 'uncertain' or (stale and named ~= 'reserved')

-- P5: only the current winner's mark is accepted; P4: its timestamp is its fence
local accepted = since == ARGV[1]
if accepted and not done then
  redis.call('HSET', row, 'receipt_sent_at', string.format('%.6f', now))
  redis.call('HDEL', row, 'receipt_sending_at')
  redis.call('HDEL', row, 'receipt_error')
  redis.call('HSET', row, 'receipt_state', 'delivered')
  return 1
end
local found = done and 'delivered' or doubt and 'uncertain' or named or since and (stale and 'uncertain' or 'sending')
return {false, found or 'ready', seen[4], since}

-- delivered a receipt by the store's clock: delivery.mark
-- delivery.mark
-- given_fence = ARGV[1]
-- seen_state = seen[3]
-- seen_holder = seen[4]
-- looked_at = 'receipt_sending_at', 'receipt_sent_at', 'receipt_state', 'receipt_by'
-- delivering = 'receipt_sending_at'
-- delivered = 'receipt_sent_at'
-- state = 'delivered'
-- state_column = 'receipt_state'
-- error_column = 'receipt_error'
-- patience = 300.0

local row = KEYS[1]
local seen = redis.call('HMGET', row, 'receipt_sending_at', 'receipt_sent_at', 'receipt_state', 'receipt_by')
local since, done, named = seen[1], seen[2], seen[3]
if not since and not done and not seen_key and redis.call('EXISTS', row) == 0 then return {} end
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
-- its sender is gone; P13: also if it began later than now, by a clock that was set back since
local began = tonumber(since or nil)
local stale = began and (began + 300.0 <= now or began > now + 300.0)
-- a try that nobody has ended: it was marked so, or its sender is gone; only a reserved one has surely sent nothing
local doubt = named == 'uncertain' or (stale and named ~= 'reserved')

-- P5: only the current winner's mark is accepted; P4: its timestamp is its fence
local accepted = since == ARGV[1]
if accepted and not done then
  redis.call('HSET', row, 'receipt_sent_at', string.format('%.6f', now))
  redis.call('HDEL', row, 'receipt_sending_at')
  redis.call('HDEL', row, 'receipt_error')
  redis.call('HSET', row, 'receipt_state', 'delivered')
  return 1
end
local found = done and 'delivered' or doubt and 'uncertain' or named or since and (stale and 'uncertain' or 'sending')
return {false, found or 'ready', seen[4], since}

-- not sent a receipt: delivery.mark
-- delivery.mark
-- given_fence = ARGV[1]
-- given_error = ARGV[2]
-- seen_state = seen[3]
-- seen_holder = seen[4]
-- looked_at = 'receipt_sending_at', 'receipt_sent_at', 'receipt_state', 'receipt_by'
-- delivering = 'receipt_sending_at'
-- state = 'failed'
-- state_column = 'receipt_state'
-- error_column = 'receipt_error'
-- patience = 300.0

local row = KEYS[1]
local seen = redis.call('HMGET', row, 'receipt_sending_at', 'receipt_sent_at', 'receipt_state', 'receipt_by')
local since, done, named = seen[1], seen[2], seen[3]
if not since and not done and not seen_key and redis.call('EXISTS', row) == 0 then return {} end
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
-- its sender is gone; P13: also if it began later than now, by a clock that was set back since
local began = tonumber(since or nil)
local stale = began and (began + 300.0 <= now or began > now + 300.0)
-- a try that nobody has ended: it was marked so, or its sender is gone; only a reserved one has surely sent nothing
local doubt = named == 'uncertain' or (stale and named ~= 'reserved')

-- P5: only the current winner's mark is accepted; P4: its timestamp is its fence
local accepted = since == ARGV[1]
if accepted and not done then
  redis.call('HDEL', row, 'receipt_sending_at')
  redis.call('HSET', row, 'receipt_error', ARGV[2])
  redis.call('HSET', row, 'receipt_state', 'failed')
  return 1
end
local found = done and 'delivered' or doubt and 'uncertain' or named or since and (stale and 'uncertain' or 'sending')
return {false, found or 'ready', seen[4], since}

-- uncertain about a receipt: delivery.mark
-- delivery.mark
-- given_fence = ARGV[1]
-- given_error = ARGV[2]
-- seen_state = seen[3]
-- seen_holder = seen[4]
-- looked_at = 'receipt_sending_at', 'receipt_sent_at', 'receipt_state', 'receipt_by'
-- state = 'uncertain'
-- state_column = 'receipt_state'
-- error_column = 'receipt_error'
-- patience = 300.0

local row = KEYS[1]
local seen = redis.call('HMGET', row, 'receipt_sending_at', 'receipt_sent_at', 'receipt_state', 'receipt_by')
local since, done, named = seen[1], seen[2], seen[3]
if not since and not done and not seen_key and redis.call('EXISTS', row) == 0 then return {} end
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
-- its sender is gone; P13: also if it began later than now, by a clock that was set back since
local began = tonumber(since or nil)
local stale = began and (began + 300.0 <= now or began > now + 300.0)
-- a try that nobody has ended: it was marked so, or its sender is gone; only a reserved one has surely sent nothing
local doubt = named == 'uncertain' or (stale and named ~= 'reserved')

-- P5: only the current winner's mark is accepted; P4: its timestamp is its fence
local accepted = since == ARGV[1]
if accepted and not done then
  redis.call('HSET', row, 'receipt_error', ARGV[2])
  redis.call('HSET', row, 'receipt_state', 'uncertain')
  return 1
end
local found = done and 'delivered' or doubt and 'uncertain' or named or since and (stale and 'uncertain' or 'sending')
return {false, found or 'ready', seen[4], since}

-- a receipt arrived: delivery.resolve
-- delivery.resolve
-- given_error = ARGV[1]
-- given_now = ARGV[2]
-- seen_state = seen[3]
-- seen_holder = seen[4]
-- seen_key = seen[5]
-- looked_at = 'receipt_sending_at', 'receipt_sent_at', 'receipt_state', 'receipt_by', 'job_id'
-- delivering = 'receipt_sending_at'
-- delivered = 'receipt_sent_at'
-- state = 'delivered'
-- state_column = 'receipt_state'
-- error_column = 'receipt_error'
-- patience = 300.0

local row = KEYS[1]
local seen = redis.call('HMGET', row, 'receipt_sending_at', 'receipt_sent_at', 'receipt_state', 'receipt_by', 'job_id')
local since, done, named = seen[1], seen[2], seen[3]
if not since and not done and not seen[5] and redis.call('EXISTS', row) == 0 then return {} end
local now = tonumber(ARGV[2])
-- its sender is gone; P13: also if it began later than now, by a clock that was set back since
local began = tonumber(since or nil)
local stale = began and (began + 300.0 <= now or began > now + 300.0)
-- a try that nobody has ended: it was marked so, or its sender is gone; only a reserved one has surely sent nothing
local doubt = named == 'uncertain' or (stale and named ~= 'reserved')

local accepted = doubt
if accepted and not done then
  redis.call('HSET', row, 'receipt_sent_at', string.format('%.6f', now))
  redis.call('HDEL', row, 'receipt_sending_at')
  redis.call('HSET', row, 'receipt_error', ARGV[1])
  redis.call('HSET', row, 'receipt_state', 'delivered')
  return 1
end
local found = done and 'delivered' or doubt and 'uncertain' or named or since and (stale and 'uncertain' or 'sending')
return {false, found or 'ready', seen[4], since}

-- a receipt did not arrive: delivery.resolve
-- delivery.resolve
-- given_error = ARGV[1]
-- seen_state = seen[3]
-- seen_holder = seen[4]
-- seen_key = seen[5]
-- looked_at = 'receipt_sending_at', 'receipt_sent_at', 'receipt_state', 'receipt_by', 'job_id'
-- delivering = 'receipt_sending_at'
-- state = 'failed'
-- state_column = 'receipt_state'
-- error_column = 'receipt_error'
-- patience = 300.0

local row = KEYS[1]
local seen = redis.call('HMGET', row, 'receipt_sending_at', 'receipt_sent_at', 'receipt_state', 'receipt_by', 'job_id')
local since, done, named = seen[1], seen[2], seen[3]
if not since and not done and not seen[5] and redis.call('EXISTS', row) == 0 then return {} end
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
-- its sender is gone; P13: also if it began later than now, by a clock that was set back since
local began = tonumber(since or nil)
local stale = began and (began + 300.0 <= now or began > now + 300.0)
-- a try that nobody has ended: it was marked so, or its sender is gone; only a reserved one has surely sent nothing
local doubt = named == 'uncertain' or (stale and named ~= 'reserved')

local accepted = doubt
if accepted and not done then
  redis.call('HDEL', row, 'receipt_sending_at')
  redis.call('HSET', row, 'receipt_error', ARGV[1])
  redis.call('HSET', row, 'receipt_state', 'failed')
  return 1
end
local found = done and 'delivered' or doubt and 'uncertain' or named or since and (stale and 'uncertain' or 'sending')
return {false, found or 'ready', seen[4], since}

-- reserve the turn of a receipt: delivery.take
-- delivery.take
-- given_now = ARGV[2]
-- seen_state = seen[3]
-- seen_holder = seen[4]
-- seen_key = seen[5]
-- looked_at = 'receipt_sending_at', 'receipt_sent_at', 'receipt_state', 'receipt_by', 'job_id'
-- turn_fields = 'receipt_sending_at', fence, 'receipt_state', doubt and 'sending' or 'reserved', 'receipt_by', ARGV[1]
-- attempts_column = 'receipt_tries'
-- patience = 300.0
-- told_attempts = attempts

local row = KEYS[1]
local seen = redis.call('HMGET', row, 'receipt_sending_at', 'receipt_sent_at', 'receipt_state', 'receipt_by', 'job_id')
local since, done, named = seen[1], seen[2], seen[3]
if not since and not done and not seen[5] and redis.call('EXISTS', row) == 0 then return {} end
local now = tonumber(ARGV[2])
-- its sender is gone; P13: also if it began later than now, by a clock that was set back since
local began = tonumber(since or nil)
local stale = began and (began + 300.0 <= now or began > now + 300.0)
-- a try that nobody has ended: it was marked so, or its sender is gone; only a reserved one has surely sent nothing
local doubt = named == 'uncertain' or (stale and named ~= 'reserved')

-- The time of a turn that begins or goes on is its fence, and later than the one before.
local later = began and began + 0.000001 or now
-- but where the clock was set back by more than the patience, nobody could have the turn until it is there again
if later > now + 300.0 then later = now end
local fence = string.format('%.6f', math.max(now, later))

-- nobody has delivered it, nobody is at it (or has been for too long), and the policy allows another try (P7)
local free = not done and (not since or stale or named == 'uncertain')
free = free and not doubt
if free then
  -- what can fail comes first, for a script that fails half-way is not undone
  local attempts = redis.call('HINCRBY', row, 'receipt_tries', 1)
  redis.call('HSET', row, 'receipt_sending_at', fence, 'receipt_state', doubt and 'sending' or 'reserved', 'receipt_by', ARGV[1])
  return {fence, doubt and 1 or 0, attempts}
end
local found = done and 'delivered' or doubt and 'uncertain' or named or since and (stale and 'uncertain' or 'sending')
return {false, found or 'ready', seen[4], since}
