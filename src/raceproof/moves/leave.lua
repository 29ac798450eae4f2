-- for: serial
-- The line in which a row stands, which is named by its column `serial`; without a value it stands alone.
local function line_of(row, key)
  local value = redis.call('HGET', row, serial)
  return index .. (value and '/line:' .. value or '/alone:' .. key)
end

-- for: leave
-- Takes a row out of the index of a claim, in which it waited, and out of its line; the next in line follows.
local function leave(row, key)
  redis.call('ZREM', index, key)
  local line = line_of(row, key) -- if: serial
  redis.call('ZREM', line, key) -- if: serial
  local following = redis.call('ZRANGE', line, 0, 0)[1] -- if: serial
  if not following then return end -- if: serial
  local time = redis.call('TIME') -- if: serial
  redis.call('ZADD', index, 'NX', string.format('%s.%06d', time[1], time[2]), following) -- if: serial
end

