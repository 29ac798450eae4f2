-- Deliveries on Redis and Valkey: one run of this script is one decision about one row, which is a hash.
--
-- KEYS  1 the row
-- ARGV  1 take, mark, resolve or look · 2 the delivery as JSON · 3 the time to use in seconds, '' for the server's
--       4 by · 5 the new state · 6 the fence · 7 the error
-- returns {} if the row is missing, else {word, state found, holder, since, doubt, fence, attempts, columns …}

local action, delivery = ARGV[1], cjson.decode(ARGV[2])
local row, by, state, fence, error = KEYS[1], ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local moment = ARGV[3]
if moment == '' then
  local time = redis.call('TIME')
  moment = string.format('%s.%06d', time[1], tonumber(time[2]))
end
local now = tonumber(moment)

local function get(column) return column and redis.call('HGET', row, column) end

if redis.call('EXISTS', row) == 0 then return {} end
local since, delivered, named = get(delivery.delivering), get(delivery.delivered), get(delivery.state)
local stale = since and tonumber(since) + delivery.stale <= now
-- a try that nobody has ended: it was marked so, or its sender is gone; only a reserved one has surely sent nothing
local doubt
if delivery.state then
  doubt = named == 'uncertain' or (named == 'sending' and stale)
else
  doubt = since and stale
end
local found = delivered and 'delivered' or doubt and 'uncertain' or named or since and (stale and 'uncertain' or 'sending')
  or 'ready'
local answer = {'no', found, get(delivery.holder), since, doubt and 1 or 0, since, get(delivery.attempts)}

local function begin()
  local written = string.format('%.6f', math.max(now, (tonumber(since or 0)) + 0.000001))
  redis.call('HSET', row, delivery.delivering, written)
  answer[6] = written
end

local function finish()
  if state == 'delivered' then redis.call('HSET', row, delivery.delivered, moment) end
  if state == 'delivered' or state == 'failed' then redis.call('HDEL', row, delivery.delivering) end
  if state == 'sending' then begin() end
  if delivery.state then redis.call('HSET', row, delivery.state, state) end
  if delivery.error and state ~= 'sending' then
    if error == '' then redis.call('HDEL', row, delivery.error) else redis.call('HSET', row, delivery.error, error) end
  end
  answer[1] = 'yes'
end

if action == 'take' then
  -- nobody has delivered it, nobody is at it (or has been for too long), and the policy allows another try (P7)
  local free = not since or stale or (delivery.state and named == 'uncertain')
  if not delivered and free and not (doubt and delivery.policy == 'hold') then
    begin()
    if delivery.state then redis.call('HSET', row, delivery.state, state) end
    if delivery.holder then redis.call('HSET', row, delivery.holder, by) end
    if delivery.attempts then answer[7] = redis.call('HINCRBY', row, delivery.attempts, 1) end
    answer[1] = 'yes'
    for _, column in ipairs(delivery.returning) do answer[#answer + 1] = redis.call('HGET', row, column) end
  end
elseif action == 'mark' then
  -- P5: only the current winner's mark is accepted; P4: its timestamp is its fence
  if since == fence and not delivered then finish() end
elseif action == 'resolve' then
  if doubt and not delivered then finish() end
end
return answer
