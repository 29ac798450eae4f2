-- for: counts
-- The whole number after this one, the first if there is none, and nothing if it is no such number. Lua's own numbers lose
-- digits beyond 2^53: a longer one stays text.
local function one_more(text)
  if not text then return 1 end
  if #text < 16 and string.find(text, '^%-?%d+$') then return text + 1 end
  local head, digit, nines = string.match('0' .. text, '^(%d-)([0-8])(9*)$')
  return head and string.gsub(head .. digit + 1 .. string.rep('0', #nines), '^0+', '') or nil
end

-- for: grows
-- A number that grows with each holder (P4, P10): by one at least, and to the microseconds of now, also where a lossy
-- failover has forgotten the last ones.
local function grown(number, now)
  local least, following = math.floor(now * 1000000), (tonumber(number) or 0) + 1
  if following < 9007199254740992 then return string.format('%.0f', math.max(following, least)) end
  return one_more(number) or string.format('%.0f', least)
end

