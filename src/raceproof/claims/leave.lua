-- Where the rows of a claim wait on Redis and Valkey, how they leave, and how a claim ends that another process holds.
-- An index is a sorted set of keys. Rows with one ordering key also stand in a line of their own, and only its first row is
-- in the index.

-- The line of rows with the value that this one has in its column `ordering_key`; '' without a value: such a row stands alone.
local function own_line(row, key)
  local value, tenant = redis.pcall('HGET', row, ordering_key), ''
  if type(value) ~= 'string' then return '' end
  if tenants then tenant = string.match(key, '^[^:]*:?') end
  return index .. '/line:' .. tenant .. value
end

-- The line in which a row stands. It is kept beside the index, because a row that is gone can no longer say it (P13).
local function line_of(row, key)
  return redis.call('HGET', lines, key) or own_line(row, key)
end

-- Takes a row out of its line; the next in line follows into the index, and is returned.
local function leave_line(row, key)
  local line = line_of(row, key)
  redis.call('HDEL', lines, key)
  if line == '' then return end
  redis.call('ZREM', line, key)
  local following = redis.call('ZRANGE', line, 0, 0)[1]
  if following and redis.call('ZADD', index, 'NX', clock(), following) == 1 then return following end
end

-- Takes a row out of the index in which it waited, and out of its line.
local function leave(row, key)
  redis.call('ZREM', index, key)
  if ordering_key then return leave_line(row, key) end
end

-- Ends the claims that other processes may hold on a row; `found` is what its columns were. P4: their fences no longer fit,
-- even if the row comes back.
local function end_claims(row, found)
  if ends_columns then redis.call('HDEL', row, ended_columns) end
  if ends_markers then
    for name, prefix in pairs(ended_markers) do
      local text = redis.call('HGET', row, name)
      if text and string.sub(text, 1, #prefix) == prefix then redis.call('HDEL', row, name) end
    end
  end
  if ends_fences then redis.call('HSET', row, ended_fences) end
end
