-- Deliveries on Redis and Valkey: one run of this script is one decision about one row, which is a hash.
--
-- Each delivery has a script of its own for each thing to do: constants of its declaration, and then what stands below for
-- that.
--   delivering, delivered, and state_column, holder_column, error_column, attempts_column ('' where there is none), more
--   (whether there is any of these), patience: for how many seconds a sender counts as there, policy
-- KEYS  1 the row
-- ARGV  1 the new state · 2 the fence of a mark · 3 by · 4 the error, or, to take, the columns to return as JSON
--       5 the time to use in seconds instead of the server's; '' for what is not given, and nothing at the end
-- returns {} if the row is missing, {'no', state found, holder, since}, or {'yes', fence, in doubt, attempts, columns …}

-- for: all
local row, state, now = KEYS[1], ARGV[1], tonumber(ARGV[5] or '')
local seen = more and redis.call('HMGET', row, delivering, delivered, state_column, holder_column, attempts_column)
  or redis.call('HMGET', row, delivering, delivered)
local since, done, named = seen[1], seen[2], seen[3]
if not since and not done and redis.call('EXISTS', row) == 0 then return {} end
if not now then
  local time = redis.call('TIME')
  now = time[1] + time[2] / 1000000
end
local stale = since and tonumber(since) + patience <= now
-- a try that nobody has ended: it was marked so, or its sender is gone; only a reserved one has surely sent nothing
local doubt
if state_column ~= '' then
  doubt = named == 'uncertain' or (named == 'sending' and stale)
else
  doubt = stale
end
-- The time of a turn that begins or goes on is its fence, and later than the one before.
local function begun() return string.format('%.6f', math.max(now, tonumber(since or 0) + 0.000001)) end

-- for: take
-- nobody has delivered it, nobody is at it (or has been for too long), and the policy allows another try (P7)
local free = not since or stale or named == 'uncertain'
if not done and free and not (doubt and policy == 'hold') then
  local fence = begun()
  redis.call('HSET', row, delivering, fence)
  if state_column ~= '' then redis.call('HSET', row, state_column, state) end
  if holder_column ~= '' then redis.call('HSET', row, holder_column, ARGV[3]) end
  local attempts = attempts_column ~= '' and redis.call('HINCRBY', row, attempts_column, 1)
  local answer = {'yes', fence, doubt and 1 or 0, attempts}
  if (ARGV[4] or '') ~= '' then
    for _, column in ipairs(cjson.decode(ARGV[4])) do answer[#answer + 1] = redis.call('HGET', row, column) end
  end
  return answer
end
-- for: mark
-- P5: only the current winner's mark is accepted; P4: its timestamp is its fence
local accepted = since == ARGV[2]
-- for: resolve
local accepted = doubt
-- for: mark resolve
if accepted and not done then
  local fence
  if state == 'sending' then
    fence = begun()
    redis.call('HSET', row, delivering, fence)
  else
    if state == 'delivered' then redis.call('HSET', row, delivered, string.format('%.6f', now)) end
    if state == 'delivered' or state == 'failed' then redis.call('HDEL', row, delivering) end
    if error_column ~= '' then
      local error = ARGV[4] or ''
      if error == '' then redis.call('HDEL', row, error_column) else redis.call('HSET', row, error_column, error) end
    end
  end
  if state_column ~= '' then redis.call('HSET', row, state_column, state) end
  return {'yes', fence or false}
end
-- for: all
local found = done and 'delivered' or doubt and 'uncertain' or named or since and (stale and 'uncertain' or 'sending')
return {'no', found or 'ready', seen[4] or false, since}
