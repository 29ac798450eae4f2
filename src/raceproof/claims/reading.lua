-- Claims that are held, as people and tools read them; see `redis.lua` beside this file. Nothing is decided here.

-- Who holds what, on one page of the index: key, until, status, holder, fence, attempts.
local function listed()
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
end
