-- The inbox on Redis and Valkey: each event is a hash, created once, and stands in the index of the claim from then on.
--
-- KEYS  1 the index of the claim · 2 which line each event is in · then for each event its row and its line
-- ARGV  given_now (in seconds, instead of the server's clock) where a test gives it; then for each event: member, source,
--       event id, ordering key or '', body, headers
-- returns 1 for each that is new, 0 for each that was there

local moment = given_now or clock()

-- When an event of this line came: none comes before one that is in its line already.
local function behind(line, when)
  local last = redis.call('ZRANGE', line, -1, -1, 'WITHSCORES')[2]
  return last and math.max(when, tonumber(last) + 0.000001) or when
end

-- Stores one event; `at` is the place of its member in ARGV.
local function store(row, line, at, when)
  local member, ordering_key, first = ARGV[at], ARGV[at + 3], ARGV[at]
  redis.call('HSET', row, 'source', ARGV[at + 1], 'event_id', ARGV[at + 2], 'body', ARGV[at + 4], 'headers', ARGV[at + 5],
    'status', 'received', 'received_at', moment)
  if ordering_key == '' then
    redis.call('HSET', KEYS[2], member, '')
  else
    redis.call('HSET', row, 'ordering_key', ordering_key)
    redis.call('HSET', KEYS[2], member, line)
    when = behind(line, when)
    redis.call('ZADD', line, 'NX', string.format('%.6f', when), member)
    first = redis.call('ZRANGE', line, 0, 0)[1]
  end
  if first == member then redis.call('ZADD', KEYS[1], 'NX', string.format('%.6f', when), member) end
end

local function receive()
  local answers, events = {}, (#KEYS - 2) / 2
  for i = 1, events do
    local row, line = KEYS[i * 2 + 1], KEYS[i * 2 + 2]
    -- P8: the same event once, however often and by however many it is brought
    if redis.call('EXISTS', row) == 1 then
      answers[i] = 0
    else
      -- events that come together keep their order
      store(row, line, first_event + (i - 1) * 6, tonumber(moment) - (events - i) * 0.000001)
      answers[i] = 1
    end
  end
  redis.call('PUBLISH', KEYS[1], '')
  return answers
end
