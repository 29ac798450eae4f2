-- Looks whether rows, which are hashes, meet guards, and changes nothing.
--
-- KEYS  the rows, then the leases that guards look at, so many
-- ARGV  1 the guards as JSON [[column, operator, value] …]
-- returns for each row which of the guards it does not meet, as bits

local function unmet()
  local guarded, found = cjson.decode(ARGV[1]), {}
  for i = 1, #KEYS - leases do
    found[i] = unmet_guards(KEYS[i], guarded, 1)
  end
  return found
end
