-- for: serial
-- The line in which a row stands, which is named by its column `serial`; without a value it stands alone.
local function line_of(row, key)
  local value = redis.call('HGET', row, serial)
  return index .. (value and '/line:' .. value or '/alone:' .. key)
end

-- for: leave
-- Takes a row out of the index of a claim, in which it waited, and out of its line; the next in line follows.
local function leave(row)
  local key = string.sub(row, #row_prefix + 1)
  redis.call('ZREM', index, key)
  if not serial then return end
  local line = line_of(row, key)
  redis.call('ZREM', line, key)
  local following = redis.call('ZRANGE', line, 0, 0)[1]
  if not following then return end
  local time = redis.call('TIME')
  redis.call('ZADD', index, 'NX', string.format('%s.%06d', time[1], tonumber(time[2])), following)
end

