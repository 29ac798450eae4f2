-- Looks at rows, which are hashes, and changes nothing.
--
-- KEYS  the rows
-- ARGV  the fields to read
-- returns for each row {milliseconds that it has left (-1 for ever, -2 if it is gone), field, …}

local found = {}
for i, row in ipairs(KEYS) do
  local fields = redis.pcall('HMGET', row, unpack(ARGV))
  if fields.err then -- a key of another type is not a row
    fields = {}
    for j = 1, #ARGV do fields[j] = false end
  end
  found[i] = {redis.call('PTTL', row), unpack(fields, 1, #ARGV)}
end
return found
