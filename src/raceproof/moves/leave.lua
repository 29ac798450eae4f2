-- for: serial
-- The line of rows with the value that this one has in its column `serial`; '' without a value, for such a row stands alone.
local function own_line(row, key)
  local value = redis.pcall('HGET', row, serial)
  if type(value) ~= 'string' then return '' end
  return index .. '/line:' .. string.match(key, '^[^:]*:?') .. value -- if: tenants
  return index .. '/line:' .. value -- if: not tenants
end

-- The line in which a row stands. It is kept beside the index, for a row that is gone cannot tell it any more (P13).
local function line_of(row, key)
  return redis.call('HGET', lines, key) or own_line(row, key)
end

-- for: leave
-- Takes a row out of the index of a claim, in which it waited, and out of its line; the next in line follows, and is told.
local function leave(row, key)
  redis.call('ZREM', index, key)
  local line = line_of(row, key) -- if: serial
  redis.call('HDEL', lines, key) -- if: serial
  if line == '' then return end -- if: serial
  redis.call('ZREM', line, key) -- if: serial
  local following = redis.call('ZRANGE', line, 0, 0)[1] -- if: serial
  if not following then return end -- if: serial
  local time = redis.call('TIME') -- if: serial
  local since = string.format('%s.%06d', time[1], time[2]) -- if: serial
  if redis.call('ZADD', index, 'NX', since, following) == 1 then return following end -- if: serial
end

-- for: lined
-- The first of a line. Those before this row that are gone, or have ended, would hold up all behind them: they leave.
local function first_of(line, key)
  while true do
    local first = redis.call('ZRANGE', line, 0, 0)[1]
    if not first or first == key or open[redis.pcall('HGET', row_prefix .. first, column)] then return first end
    redis.call('ZREM', line, first)
    leave(row_prefix .. first, first)
  end
end

