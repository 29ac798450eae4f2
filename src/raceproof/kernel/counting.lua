-- Time and whole numbers, for every primitive on Redis and Valkey.

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

-- The whole number after this one, 1 if there is none, and nothing if it is not a whole number. Lua's own numbers lose
-- digits beyond 2^53: a longer one stays text.
local function one_more(text)
  if not text then return 1 end
  if #text < 16 and string.find(text, '^%-?%d+$') then return text + 1 end
  local head, digit, nines = string.match('0' .. text, '^(%d-)([0-8])(9*)$')
  return head and string.gsub(head .. digit + 1 .. string.rep('0', #nines), '^0+', '') or nil
end

-- A number that grows with each holder (P4, P10): by at least one, and to the microseconds of now, so that it grows even
-- after a lossy failover has forgotten the last ones.
local function grown(number, now)
  local least, following = math.floor(now * 1000000), (tonumber(number) or 0) + 1
  if following < 9007199254740992 then return string.format('%.0f', math.max(following, least)) end
  return one_more(number) or string.format('%.0f', least)
end
