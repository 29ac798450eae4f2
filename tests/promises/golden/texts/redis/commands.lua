-- move, won: move
-- move
-- given_now = false
-- given_by = ARGV[1]
-- given_reason = ARGV[2]
-- given_call = ARGV[3]
-- lifecycle = 'Command'
-- revision_column = 'rev'
-- move_name = 'send'
-- target = 'SENT'
local sources = {['QUEUED'] = true, ['SEND_FAILED'] = true}
-- looked_at = 'status', 'rev'
-- seen_fence = false
-- seen_revision = found[2] or '0'
-- first_asked = 4
-- move_fields = 'status', 'SENT', 'sent_at', moment, 'rev', after

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local moment = false or clock()

local function note(stream, i, outcome, before, revision)
  return redis.pcall('XADD', stream, '*', 'lifecycle', 'Command', 'move', 'send', 'outcome', outcome,
    'before', before, 'after', 'SENT', 'revision', revision or '',
    'actor', ARGV[1], 'reason', ARGV[2], 'call', ARGV[3], 'at', moment)
end

-- The next revision, which is written with the rest; one that Lua cannot count exactly is counted in the row, at once.
local function next_revision(row, revision)
  if #revision < 16 and (revision == '0' or string.find(revision, '^[1-9]%d*$')) then
    return string.format('%.0f', revision + 1)
  end
  redis.call('HINCRBY', row, 'rev', 1)
  return redis.call('HGET', row, 'rev'), true
end

-- The newest entry of the history that `test` accepts, among the newest thousand.
local function newest(stream, test)
  for _, entry in ipairs(redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1000)) do
    local fields = {}
    for i = 1, #entry[2], 2 do fields[entry[2][i]] = entry[2][i + 1] end
    if fields.outcome == 'moved' and test(fields) then return fields end
  end
end

-- Who moved the row to where it was found, if the history says so.
local function winner(stream, before, revision)
  local last = newest(stream, function() return true end)
  local same = last and last.after == before and last.revision == (revision or '')
  return same and last.actor ~= '' and last.actor
end

-- The refusal, with what was found.
local function not_moved(stream, i, before, revision, fence, unmet)
  local by = false
  by = winner(stream, before, revision) or false
  -- what the caller asked of the row comes before 'already': its revision (2), and its guards, which follow the declared ones
  local asked = unmet % 4 >= 2 or unmet >= 4
  local outcome = unmet % 2 == 1 and 'lost' or before == 'SENT' and not asked and 'already' or 'refused'
  local noted = note(stream, i, outcome, before, revision)
  if noted.err then return {false, 'error', noted.err} end
  return {false, 'not moved', before, revision, fence, unmet, by}
end

local function decide(row, stream, i)
  -- a key of another type is not a row of ours
  local found = redis.pcall('HMGET', row, 'status', 'rev')
  local before = found[1]
  if found.err or not before then return {} end
  -- numbers stay texts, because Lua's lose digits beyond 2^53
  local revision, fence, unmet = found[2] or '0', false, 0
  -- P1: the row leaves only a status from which this move is declared
  if unmet > 0 or not sources[before] then return not_moved(stream, i, before, revision, fence, unmet) end

  -- what can fail comes first, for a script that fails half-way is not undone: the history, and then the whole row at once
  local after, counted = false, false
  after, counted = next_revision(row, revision)
  local noted = note(stream, i, 'moved', before, after)
  if noted.err and counted then redis.call('HINCRBY', row, 'rev', -1) end
  if noted.err then return {false, 'error', noted.err} end
  redis.call('HSET', row, 'status', 'SENT', 'sent_at', moment, 'rev', after)
  return after and {before, after} or before
end

local function move_one()
  return decide(KEYS[1], KEYS[2], 1)
end

return move_one()

-- move, won from its last source: move
-- move, already: move
-- move, refused: move
-- move
-- given_now = false
-- given_by = ARGV[1]
-- given_reason = ARGV[2]
-- given_call = ARGV[3]
-- lifecycle = 'Command'
-- revision_column = 'rev'
-- move_name = 'ack'
-- target = 'ACK'
local sources = {['QUEUED'] = true, ['SENT'] = true}
-- looked_at = 'status', 'rev'
-- seen_fence = false
-- seen_revision = found[2] or '0'
-- first_asked = 4
-- move_fields = 'status', 'ACK', 'ack_at', moment, 'rev', after

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local moment = false or clock()

local function note(stream, i, outcome, before, revision)
  return redis.pcall('XADD', stream, '*', 'lifecycle', 'Command', 'move', 'ack', 'outcome', outcome,
    'before', before, 'after', 'ACK', 'revision', revision or '',
    'actor', ARGV[1], 'reason', ARGV[2], 'call', ARGV[3], 'at', moment)
end

-- The next revision, which is written with the rest; one that Lua cannot count exactly is counted in the row, at once.
local function next_revision(row, revision)
  if #revision < 16 and (revision == '0' or string.find(revision, '^[1-9]%d*$')) then
    return string.format('%.0f', revision + 1)
  end
  redis.call('HINCRBY', row, 'rev', 1)
  return redis.call('HGET', row, 'rev'), true
end

-- The newest entry of the history that `test` accepts, among the newest thousand.
local function newest(stream, test)
  for _, entry in ipairs(redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1000)) do
    local fields = {}
    for i = 1, #entry[2], 2 do fields[entry[2][i]] = entry[2][i + 1] end
    if fields.outcome == 'moved' and test(fields) then return fields end
  end
end

-- Who moved the row to where it was found, if the history says so.
local function winner(stream, before, revision)
  local last = newest(stream, function() return true end)
  local same = last and last.after == before and last.revision == (revision or '')
  return same and last.actor ~= '' and last.actor
end

-- The refusal, with what was found.
local function not_moved(stream, i, before, revision, fence, unmet)
  local by = false
  by = winner(stream, before, revision) or false
  -- what the caller asked of the row comes before 'already': its revision (2), and its guards, which follow the declared ones
  local asked = unmet % 4 >= 2 or unmet >= 4
  local outcome = unmet % 2 == 1 and 'lost' or before == 'ACK' and not asked and 'already' or 'refused'
  local noted = note(stream, i, outcome, before, revision)
  if noted.err then return {false, 'error', noted.err} end
  return {false, 'not moved', before, revision, fence, unmet, by}
end

local function decide(row, stream, i)
  -- a key of another type is not a row of ours
  local found = redis.pcall('HMGET', row, 'status', 'rev')
  local before = found[1]
  if found.err or not before then return {} end
  -- numbers stay texts, because Lua's lose digits beyond 2^53
  local revision, fence, unmet = found[2] or '0', false, 0
  -- P1: the row leaves only a status from which this move is declared
  if unmet > 0 or not sources[before] then return not_moved(stream, i, before, revision, fence, unmet) end

  -- what can fail comes first, for a script that fails half-way is not undone: the history, and then the whole row at once
  local after, counted = false, false
  after, counted = next_revision(row, revision)
  local noted = note(stream, i, 'moved', before, after)
  if noted.err and counted then redis.call('HINCRBY', row, 'rev', -1) end
  if noted.err then return {false, 'error', noted.err} end
  redis.call('HSET', row, 'status', 'ACK', 'ack_at', moment, 'rev', after)
  return after and {before, after} or before
end

local function move_one()
  return decide(KEYS[1], KEYS[2], 1)
end

return move_one()

-- move, missing: move
-- move with columns, a guard and returning: move
-- move
-- given_now = false
-- given_guards = ARGV[1]
-- given_change = ARGV[2]
-- given_by = ARGV[3]
-- given_reason = ARGV[4]
-- given_call = ARGV[5]
-- lifecycle = 'Command'
-- revision_column = 'rev'
-- returning = true
-- returned = 'cmd_id', 'error'
-- ends_claims = false
-- move_name = 'finish'
-- target = 'DONE'
local sources = {['QUEUED'] = true, ['SENT'] = true, ['ACK'] = true}
-- looked_at = 'status', 'rev'
-- seen_fence = false
-- seen_revision = found[2] or '0'
-- first_asked = 4
-- move_fields = 'status', 'DONE', 'rev', after

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local moment = false or clock()

local function note(stream, i, outcome, before, revision)
  return redis.pcall('XADD', stream, '*', 'lifecycle', 'Command', 'move', 'finish', 'outcome', outcome,
    'before', before, 'after', 'DONE', 'revision', revision or '',
    'actor', ARGV[3], 'reason', ARGV[4], 'call', ARGV[5], 'at', moment)
end

-- The next revision, which is written with the rest; one that Lua cannot count exactly is counted in the row, at once.
local function next_revision(row, revision)
  if #revision < 16 and (revision == '0' or string.find(revision, '^[1-9]%d*$')) then
    return string.format('%.0f', revision + 1)
  end
  redis.call('HINCRBY', row, 'rev', 1)
  return redis.call('HGET', row, 'rev'), true
end

-- Whether a row meets a guard [column, operator, value].
-- A comparison with a missing field is never true, as with NULL in SQL. Numbers compare as numbers, text as text.
local function holds(row, guard)
  local operator, value = guard[2], guard[3]
  -- P10: the lease (its key is counted from the last one) is still in this epoch, so an old leader can write nothing
  if operator == 'epoch' then return redis.call('HGET', KEYS[#KEYS - guard[1]], 'epoch') == value end
  local found = redis.call('HGET', row, guard[1])
  if operator == 'is null' then return not found end
  if operator == 'is not null' then return found end
  if found and type(value) == 'number' then found = tonumber(found) end
  if not found then return false end
  if operator == '=' then return found == value end
  if operator == '<>' then return found ~= value end
  if operator == '<' then return found < value end
  if operator == '<=' then return found <= value end
  if operator == '>' then return found > value end
  return found >= value
end

-- Which of the guards the row does not meet, as bits from this one on.
local function unmet_guards(row, guards, bit)
  local unmet = 0
  for _, guard in ipairs(guards) do
    if not holds(row, guard) then unmet = unmet + bit end
    bit = bit * 2
  end
  return unmet
end

local guarded = cjson.decode(ARGV[1])

-- Which of the caller's and the declared guards do not hold, as bits: the fence 1, the revision 2, then the predicates.
local function unmet_by(row, fence, revision, i)
  local unmet = 0
  unmet = unmet + unmet_guards(row, guarded, 4)
  return unmet
end

-- Writes the columns that the call sets beside those of the move.
local function write(row, i, after)
  local fields, change = {'status', 'DONE', 'rev', after}, cjson.decode(ARGV[2])
  for _, name in ipairs(change.clear) do redis.call('HDEL', row, name) end
  for name, value in pairs(change.set) do
    fields[#fields + 1] = name
    fields[#fields + 1] = value
  end
  redis.call('HSET', row, unpack(fields))
end

-- The newest entry of the history that `test` accepts, among the newest thousand.
local function newest(stream, test)
  for _, entry in ipairs(redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1000)) do
    local fields = {}
    for i = 1, #entry[2], 2 do fields[entry[2][i]] = entry[2][i + 1] end
    if fields.outcome == 'moved' and test(fields) then return fields end
  end
end

-- Who moved the row to where it was found, if the history says so.
local function winner(stream, before, revision)
  local last = newest(stream, function() return true end)
  local same = last and last.after == before and last.revision == (revision or '')
  return same and last.actor ~= '' and last.actor
end

-- The refusal, with what was found.
local function not_moved(stream, i, before, revision, fence, unmet)
  local by = false
  by = winner(stream, before, revision) or false
  -- what the caller asked of the row comes before 'already': its revision (2), and its guards, which follow the declared ones
  local asked = unmet % 4 >= 2 or unmet >= 4
  local outcome = unmet % 2 == 1 and 'lost' or before == 'DONE' and not asked and 'already' or 'refused'
  local noted = note(stream, i, outcome, before, revision)
  if noted.err then return {false, 'error', noted.err} end
  return {false, 'not moved', before, revision, fence, unmet, by}
end

local function decide(row, stream, i)
  -- a key of another type is not a row of ours
  local found = redis.pcall('HMGET', row, 'status', 'rev')
  local before = found[1]
  if found.err or not before then return {} end
  -- numbers stay texts, because Lua's lose digits beyond 2^53
  local revision, fence, unmet = found[2] or '0', false, 0
  unmet = unmet_by(row, fence, revision, i)
  -- P1: the row leaves only a status from which this move is declared
  if unmet > 0 or not sources[before] then return not_moved(stream, i, before, revision, fence, unmet) end

  -- what can fail comes first, for a script that fails half-way is not undone: the history, and then the whole row at once
  local after, counted = false, false
  after, counted = next_revision(row, revision)
  local noted = note(stream, i, 'moved', before, after)
  if noted.err and counted then redis.call('HINCRBY', row, 'rev', -1) end
  if noted.err then return {false, 'error', noted.err} end
  write(row, i, after)
  if true and not false then return {before, after, unpack(redis.call('HMGET', row, 'cmd_id', 'error'))} end
  return after and {before, after} or before
end

local function move_one()
  return decide(KEYS[1], KEYS[2], 1)
end

return move_one()

-- move with a revision: move
-- move
-- given_now = false
-- given_revision = ARGV[1]
-- given_change = ARGV[2]
-- given_by = ARGV[3]
-- given_reason = ARGV[4]
-- given_call = ARGV[5]
-- lifecycle = 'Command'
-- revision_column = 'rev'
-- move_name = 'fail'
-- target = 'ERROR'
local sources = {['QUEUED'] = true, ['SENT'] = true, ['ACK'] = true}
-- looked_at = 'status', 'rev'
-- seen_fence = false
-- seen_revision = found[2] or '0'
-- first_asked = 4
-- move_fields = 'status', 'ERROR', 'rev', after

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local moment = false or clock()

local function note(stream, i, outcome, before, revision)
  return redis.pcall('XADD', stream, '*', 'lifecycle', 'Command', 'move', 'fail', 'outcome', outcome,
    'before', before, 'after', 'ERROR', 'revision', revision or '',
    'actor', ARGV[3], 'reason', ARGV[4], 'call', ARGV[5], 'at', moment)
end

-- The next revision, which is written with the rest; one that Lua cannot count exactly is counted in the row, at once.
local function next_revision(row, revision)
  if #revision < 16 and (revision == '0' or string.find(revision, '^[1-9]%d*$')) then
    return string.format('%.0f', revision + 1)
  end
  redis.call('HINCRBY', row, 'rev', 1)
  return redis.call('HGET', row, 'rev'), true
end

-- Which of the caller's and the declared guards do not hold, as bits: the fence 1, the revision 2, then the predicates.
local function unmet_by(row, fence, revision, i)
  local unmet = 0
  if revision ~= ARGV[1] then unmet = unmet + 2 end
  return unmet
end

-- Writes the columns that the call sets beside those of the move.
local function write(row, i, after)
  local fields, change = {'status', 'ERROR', 'rev', after}, cjson.decode(ARGV[2])
  for _, name in ipairs(change.clear) do redis.call('HDEL', row, name) end
  for name, value in pairs(change.set) do
    fields[#fields + 1] = name
    fields[#fields + 1] = value
  end
  redis.call('HSET', row, unpack(fields))
end

-- The newest entry of the history that `test` accepts, among the newest thousand.
local function newest(stream, test)
  for _, entry in ipairs(redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1000)) do
    local fields = {}
    for i = 1, #entry[2], 2 do fields[entry[2][i]] = entry[2][i + 1] end
    if fields.outcome == 'moved' and test(fields) then return fields end
  end
end

-- Who moved the row to where it was found, if the history says so.
local function winner(stream, before, revision)
  local last = newest(stream, function() return true end)
  local same = last and last.after == before and last.revision == (revision or '')
  return same and last.actor ~= '' and last.actor
end

-- The refusal, with what was found.
local function not_moved(stream, i, before, revision, fence, unmet)
  local by = false
  by = winner(stream, before, revision) or false
  -- what the caller asked of the row comes before 'already': its revision (2), and its guards, which follow the declared ones
  local asked = unmet % 4 >= 2 or unmet >= 4
  local outcome = unmet % 2 == 1 and 'lost' or before == 'ERROR' and not asked and 'already' or 'refused'
  local noted = note(stream, i, outcome, before, revision)
  if noted.err then return {false, 'error', noted.err} end
  return {false, 'not moved', before, revision, fence, unmet, by}
end

local function decide(row, stream, i)
  -- a key of another type is not a row of ours
  local found = redis.pcall('HMGET', row, 'status', 'rev')
  local before = found[1]
  if found.err or not before then return {} end
  -- numbers stay texts, because Lua's lose digits beyond 2^53
  local revision, fence, unmet = found[2] or '0', false, 0
  unmet = unmet_by(row, fence, revision, i)
  -- P1: the row leaves only a status from which this move is declared
  if unmet > 0 or not sources[before] then return not_moved(stream, i, before, revision, fence, unmet) end

  -- what can fail comes first, for a script that fails half-way is not undone: the history, and then the whole row at once
  local after, counted = false, false
  after, counted = next_revision(row, revision)
  local noted = note(stream, i, 'moved', before, after)
  if noted.err and counted then redis.call('HINCRBY', row, 'rev', -1) end
  if noted.err then return {false, 'error', noted.err} end
  write(row, i, after)
  return after and {before, after} or before
end

local function move_one()
  return decide(KEYS[1], KEYS[2], 1)
end

return move_one()

-- move at a given time: move
-- move
-- given_now = ARGV[1]
-- given_by = ARGV[2]
-- given_reason = ARGV[3]
-- given_call = ARGV[4]
-- lifecycle = 'Command'
-- revision_column = 'rev'
-- move_name = 'ack'
-- target = 'ACK'
local sources = {['QUEUED'] = true, ['SENT'] = true}
-- looked_at = 'status', 'rev'
-- seen_fence = false
-- seen_revision = found[2] or '0'
-- first_asked = 4
-- move_fields = 'status', 'ACK', 'ack_at', moment, 'rev', after

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local moment = ARGV[1] or clock()

local function note(stream, i, outcome, before, revision)
  return redis.pcall('XADD', stream, '*', 'lifecycle', 'Command', 'move', 'ack', 'outcome', outcome,
    'before', before, 'after', 'ACK', 'revision', revision or '',
    'actor', ARGV[2], 'reason', ARGV[3], 'call', ARGV[4], 'at', moment)
end

-- The next revision, which is written with the rest; one that Lua cannot count exactly is counted in the row, at once.
local function next_revision(row, revision)
  if #revision < 16 and (revision == '0' or string.find(revision, '^[1-9]%d*$')) then
    return string.format('%.0f', revision + 1)
  end
  redis.call('HINCRBY', row, 'rev', 1)
  return redis.call('HGET', row, 'rev'), true
end

-- The newest entry of the history that `test` accepts, among the newest thousand.
local function newest(stream, test)
  for _, entry in ipairs(redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1000)) do
    local fields = {}
    for i = 1, #entry[2], 2 do fields[entry[2][i]] = entry[2][i + 1] end
    if fields.outcome == 'moved' and test(fields) then return fields end
  end
end

-- Who moved the row to where it was found, if the history says so.
local function winner(stream, before, revision)
  local last = newest(stream, function() return true end)
  local same = last and last.after == before and last.revision == (revision or '')
  return same and last.actor ~= '' and last.actor
end

-- The refusal, with what was found.
local function not_moved(stream, i, before, revision, fence, unmet)
  local by = false
  by = winner(stream, before, revision) or false
  -- what the caller asked of the row comes before 'already': its revision (2), and its guards, which follow the declared ones
  local asked = unmet % 4 >= 2 or unmet >= 4
  local outcome = unmet % 2 == 1 and 'lost' or before == 'ACK' and not asked and 'already' or 'refused'
  local noted = note(stream, i, outcome, before, revision)
  if noted.err then return {false, 'error', noted.err} end
  return {false, 'not moved', before, revision, fence, unmet, by}
end

local function decide(row, stream, i)
  -- a key of another type is not a row of ours
  local found = redis.pcall('HMGET', row, 'status', 'rev')
  local before = found[1]
  if found.err or not before then return {} end
  -- numbers stay texts, because Lua's lose digits beyond 2^53
  local revision, fence, unmet = found[2] or '0', false, 0
  -- P1: the row leaves only a status from which this move is declared
  if unmet > 0 or not sources[before] then return not_moved(stream, i, before, revision, fence, unmet) end

  -- what can fail comes first, for a script that fails half-way is not undone: the history, and then the whole row at once
  local after, counted = false, false
  after, counted = next_revision(row, revision)
  local noted = note(stream, i, 'moved', before, after)
  if noted.err and counted then redis.call('HINCRBY', row, 'rev', -1) end
  if noted.err then return {false, 'error', noted.err} end
  redis.call('HSET', row, 'status', 'ACK', 'ack_at', moment, 'rev', after)
  return after and {before, after} or before
end

local function move_one()
  return decide(KEYS[1], KEYS[2], 1)
end

return move_one()

-- move, the same call again: move
-- move
-- given_now = false
-- given_by = ARGV[1]
-- given_reason = ARGV[2]
-- given_call = ARGV[3]
-- lifecycle = 'Command'
-- revision_column = 'rev'
-- move_name = 'ack'
-- target = 'ACK'
local sources = {['QUEUED'] = true, ['SENT'] = true}
-- looked_at = 'status', 'rev'
-- seen_fence = false
-- seen_revision = found[2] or '0'
-- first_asked = 4
-- move_fields = 'status', 'ACK', 'ack_at', moment, 'rev', after

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local moment = false or clock()

-- The newest entry of the history that `test` accepts, among the newest thousand.
local function newest(stream, test)
  for _, entry in ipairs(redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1000)) do
    local fields = {}
    for i = 1, #entry[2], 2 do fields[entry[2][i]] = entry[2][i + 1] end
    if fields.outcome == 'moved' and test(fields) then return fields end
  end
end

-- What an earlier call with the same id did, if it moved the row.
local function earlier_call(stream, i)
  return newest(stream, function(entry) return entry.call == ARGV[3] and entry.move == 'ack' end)
end

local function note(stream, i, outcome, before, revision)
  return redis.pcall('XADD', stream, '*', 'lifecycle', 'Command', 'move', 'ack', 'outcome', outcome,
    'before', before, 'after', 'ACK', 'revision', revision or '',
    'actor', ARGV[1], 'reason', ARGV[2], 'call', ARGV[3], 'at', moment)
end

-- The next revision, which is written with the rest; one that Lua cannot count exactly is counted in the row, at once.
local function next_revision(row, revision)
  if #revision < 16 and (revision == '0' or string.find(revision, '^[1-9]%d*$')) then
    return string.format('%.0f', revision + 1)
  end
  redis.call('HINCRBY', row, 'rev', 1)
  return redis.call('HGET', row, 'rev'), true
end

-- Who moved the row to where it was found, if the history says so.
local function winner(stream, before, revision)
  local last = newest(stream, function() return true end)
  local same = last and last.after == before and last.revision == (revision or '')
  return same and last.actor ~= '' and last.actor
end

-- The refusal, with what was found.
local function not_moved(stream, i, before, revision, fence, unmet)
  local by = false
  by = winner(stream, before, revision) or false
  -- what the caller asked of the row comes before 'already': its revision (2), and its guards, which follow the declared ones
  local asked = unmet % 4 >= 2 or unmet >= 4
  local outcome = unmet % 2 == 1 and 'lost' or before == 'ACK' and not asked and 'already' or 'refused'
  local noted = note(stream, i, outcome, before, revision)
  if noted.err then return {false, 'error', noted.err} end
  return {false, 'not moved', before, revision, fence, unmet, by}
end

local function decide(row, stream, i)
  -- a key of another type is not a row of ours
  local found = redis.pcall('HMGET', row, 'status', 'rev')
  local before = found[1]
  if found.err or not before then return {} end
  -- numbers stay texts, because Lua's lose digits beyond 2^53
  local revision, fence, unmet = found[2] or '0', false, 0
  local earlier = earlier_call(stream, i)
  if earlier then return {false, 'replayed', earlier.before, earlier.revision ~= '' and earlier.revision} end
  -- P1: the row leaves only a status from which this move is declared
  if unmet > 0 or not sources[before] then return not_moved(stream, i, before, revision, fence, unmet) end

  -- what can fail comes first, for a script that fails half-way is not undone: the history, and then the whole row at once
  local after, counted = false, false
  after, counted = next_revision(row, revision)
  local noted = note(stream, i, 'moved', before, after)
  if noted.err and counted then redis.call('HINCRBY', row, 'rev', -1) end
  if noted.err then return {false, 'error', noted.err} end
  redis.call('HSET', row, 'status', 'ACK', 'ack_at', moment, 'rev', after)
  return after and {before, after} or before
end

local function move_one()
  return decide(KEYS[1], KEYS[2], 1)
end

return move_one()

-- move_many by keys: move
-- move
-- given_now = false
-- given_by = ARGV[1]
-- given_reason = ARGV[2]
-- given_call = ARGV[2 + 0 * rows + i]
-- lifecycle = 'Command'
-- revision_column = 'rev'
-- stream_key = KEYS[rows + i]
-- keys_of_a_row = 2
-- move_name = 'send'
-- target = 'SENT'
local sources = {['QUEUED'] = true, ['SEND_FAILED'] = true}
-- looked_at = 'status', 'rev'
-- seen_fence = false
-- seen_revision = found[2] or '0'
-- first_asked = 4
-- move_fields = 'status', 'SENT', 'sent_at', moment, 'rev', after
-- leases = 0

local rows = (#KEYS - 0) / 2

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local moment = false or clock()

local function note(stream, i, outcome, before, revision)
  return redis.pcall('XADD', stream, '*', 'lifecycle', 'Command', 'move', 'send', 'outcome', outcome,
    'before', before, 'after', 'SENT', 'revision', revision or '',
    'actor', ARGV[1], 'reason', ARGV[2], 'call', ARGV[2 + 0 * rows + i], 'at', moment)
end

-- The next revision, which is written with the rest; one that Lua cannot count exactly is counted in the row, at once.
local function next_revision(row, revision)
  if #revision < 16 and (revision == '0' or string.find(revision, '^[1-9]%d*$')) then
    return string.format('%.0f', revision + 1)
  end
  redis.call('HINCRBY', row, 'rev', 1)
  return redis.call('HGET', row, 'rev'), true
end

-- The newest entry of the history that `test` accepts, among the newest thousand.
local function newest(stream, test)
  for _, entry in ipairs(redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1000)) do
    local fields = {}
    for i = 1, #entry[2], 2 do fields[entry[2][i]] = entry[2][i + 1] end
    if fields.outcome == 'moved' and test(fields) then return fields end
  end
end

-- Who moved the row to where it was found, if the history says so.
local function winner(stream, before, revision)
  local last = newest(stream, function() return true end)
  local same = last and last.after == before and last.revision == (revision or '')
  return same and last.actor ~= '' and last.actor
end

-- The refusal, with what was found.
local function not_moved(stream, i, before, revision, fence, unmet)
  local by = false
  by = winner(stream, before, revision) or false
  -- what the caller asked of the row comes before 'already': its revision (2), and its guards, which follow the declared ones
  local asked = unmet % 4 >= 2 or unmet >= 4
  local outcome = unmet % 2 == 1 and 'lost' or before == 'SENT' and not asked and 'already' or 'refused'
  local noted = note(stream, i, outcome, before, revision)
  if noted.err then return {false, 'error', noted.err} end
  return {false, 'not moved', before, revision, fence, unmet, by}
end

local function decide(row, stream, i)
  -- a key of another type is not a row of ours
  local found = redis.pcall('HMGET', row, 'status', 'rev')
  local before = found[1]
  if found.err or not before then return {} end
  -- numbers stay texts, because Lua's lose digits beyond 2^53
  local revision, fence, unmet = found[2] or '0', false, 0
  -- P1: the row leaves only a status from which this move is declared
  if unmet > 0 or not sources[before] then return not_moved(stream, i, before, revision, fence, unmet) end

  -- what can fail comes first, for a script that fails half-way is not undone: the history, and then the whole row at once
  local after, counted = false, false
  after, counted = next_revision(row, revision)
  local noted = note(stream, i, 'moved', before, after)
  if noted.err and counted then redis.call('HINCRBY', row, 'rev', -1) end
  if noted.err then return {false, 'error', noted.err} end
  redis.call('HSET', row, 'status', 'SENT', 'sent_at', moment, 'rev', after)
  return after and {before, after} or before
end

-- A row that fails is answered alone.
local function move_many()
  local answers = {}
  for i = 1, rows do
    local fine, answer = pcall(decide, KEYS[i], KEYS[rows + i], i)
    if not fine then answer = {false, 'error', type(answer) == 'table' and answer.err or tostring(answer)} end
    answers[i] = answer
  end
  return answers
end

return move_many()

-- move_many with columns of each: move
-- move
-- given_now = false
-- given_change = ARGV[0 + 0 * rows + i]
-- given_by = ARGV[1 + 1 * rows]
-- given_reason = ARGV[2 + 1 * rows]
-- given_call = ARGV[2 + 1 * rows + i]
-- lifecycle = 'Command'
-- revision_column = 'rev'
-- stream_key = KEYS[rows + i]
-- keys_of_a_row = 2
-- returning = true
-- returned = 'rev'
-- ends_claims = false
-- move_name = 'fail'
-- target = 'ERROR'
local sources = {['QUEUED'] = true, ['SENT'] = true, ['ACK'] = true}
-- looked_at = 'status', 'rev'
-- seen_fence = false
-- seen_revision = found[2] or '0'
-- first_asked = 4
-- move_fields = 'status', 'ERROR', 'rev', after
-- leases = 0

local rows = (#KEYS - 0) / 2

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local moment = false or clock()

local function note(stream, i, outcome, before, revision)
  return redis.pcall('XADD', stream, '*', 'lifecycle', 'Command', 'move', 'fail', 'outcome', outcome,
    'before', before, 'after', 'ERROR', 'revision', revision or '',
    'actor', ARGV[1 + 1 * rows], 'reason', ARGV[2 + 1 * rows], 'call', ARGV[2 + 1 * rows + i], 'at', moment)
end

-- The next revision, which is written with the rest; one that Lua cannot count exactly is counted in the row, at once.
local function next_revision(row, revision)
  if #revision < 16 and (revision == '0' or string.find(revision, '^[1-9]%d*$')) then
    return string.format('%.0f', revision + 1)
  end
  redis.call('HINCRBY', row, 'rev', 1)
  return redis.call('HGET', row, 'rev'), true
end

-- Writes the columns that the call sets beside those of the move.
local function write(row, i, after)
  local fields, change = {'status', 'ERROR', 'rev', after}, cjson.decode(ARGV[0 + 0 * rows + i])
  for _, name in ipairs(change.clear) do redis.call('HDEL', row, name) end
  for name, value in pairs(change.set) do
    fields[#fields + 1] = name
    fields[#fields + 1] = value
  end
  redis.call('HSET', row, unpack(fields))
end

-- The newest entry of the history that `test` accepts, among the newest thousand.
local function newest(stream, test)
  for _, entry in ipairs(redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1000)) do
    local fields = {}
    for i = 1, #entry[2], 2 do fields[entry[2][i]] = entry[2][i + 1] end
    if fields.outcome == 'moved' and test(fields) then return fields end
  end
end

-- Who moved the row to where it was found, if the history says so.
local function winner(stream, before, revision)
  local last = newest(stream, function() return true end)
  local same = last and last.after == before and last.revision == (revision or '')
  return same and last.actor ~= '' and last.actor
end

-- The refusal, with what was found.
local function not_moved(stream, i, before, revision, fence, unmet)
  local by = false
  by = winner(stream, before, revision) or false
  -- what the caller asked of the row comes before 'already': its revision (2), and its guards, which follow the declared ones
  local asked = unmet % 4 >= 2 or unmet >= 4
  local outcome = unmet % 2 == 1 and 'lost' or before == 'ERROR' and not asked and 'already' or 'refused'
  local noted = note(stream, i, outcome, before, revision)
  if noted.err then return {false, 'error', noted.err} end
  return {false, 'not moved', before, revision, fence, unmet, by}
end

local function decide(row, stream, i)
  -- a key of another type is not a row of ours
  local found = redis.pcall('HMGET', row, 'status', 'rev')
  local before = found[1]
  if found.err or not before then return {} end
  -- numbers stay texts, because Lua's lose digits beyond 2^53
  local revision, fence, unmet = found[2] or '0', false, 0
  -- P1: the row leaves only a status from which this move is declared
  if unmet > 0 or not sources[before] then return not_moved(stream, i, before, revision, fence, unmet) end

  -- what can fail comes first, for a script that fails half-way is not undone: the history, and then the whole row at once
  local after, counted = false, false
  after, counted = next_revision(row, revision)
  local noted = note(stream, i, 'moved', before, after)
  if noted.err and counted then redis.call('HINCRBY', row, 'rev', -1) end
  if noted.err then return {false, 'error', noted.err} end
  write(row, i, after)
  if true and not false then return {before, after, unpack(redis.call('HMGET', row, 'rev'))} end
  return after and {before, after} or before
end

-- A row that fails is answered alone.
local function move_many()
  local answers = {}
  for i = 1, rows do
    local fine, answer = pcall(decide, KEYS[i], KEYS[rows + i], i)
    if not fine then answer = {false, 'error', type(answer) == 'table' and answer.err or tostring(answer)} end
    answers[i] = answer
  end
  return answers
end

return move_many()

-- move_many of what matches: scan, move
-- scan
SCAN

-- move
-- given_now = false
-- given_guards = ARGV[1]
-- given_change = ARGV[2]
-- given_by = ARGV[3]
-- given_reason = ARGV[4]
-- given_call = ARGV[5]
-- lifecycle = 'Command'
-- revision_column = 'rev'
-- stream_key = KEYS[rows + i]
-- keys_of_a_row = 2
-- move_name = 'fail_sending'
-- target = 'SEND_FAILED'
local sources = {['QUEUED'] = true}
-- looked_at = 'status', 'rev'
-- seen_fence = false
-- seen_revision = found[2] or '0'
-- first_asked = 4
-- move_fields = 'status', 'SEND_FAILED', 'rev', after
-- leases = 0

local rows = (#KEYS - 0) / 2

-- The server's clock: seconds since 1970, with microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s.%06d', time[1], time[2])
end

local moment = false or clock()

local function note(stream, i, outcome, before, revision)
  return redis.pcall('XADD', stream, '*', 'lifecycle', 'Command', 'move', 'fail_sending', 'outcome', outcome,
    'before', before, 'after', 'SEND_FAILED', 'revision', revision or '',
    'actor', ARGV[3], 'reason', ARGV[4], 'call', ARGV[5], 'at', moment)
end

-- The next revision, which is written with the rest; one that Lua cannot count exactly is counted in the row, at once.
local function next_revision(row, revision)
  if #revision < 16 and (revision == '0' or string.find(revision, '^[1-9]%d*$')) then
    return string.format('%.0f', revision + 1)
  end
  redis.call('HINCRBY', row, 'rev', 1)
  return redis.call('HGET', row, 'rev'), true
end

-- Whether a row meets a guard [column, operator, value].
-- A comparison with a missing field is never true, as with NULL in SQL. Numbers compare as numbers, text as text.
local function holds(row, guard)
  local operator, value = guard[2], guard[3]
  -- P10: the lease (its key is counted from the last one) is still in this epoch, so an old leader can write nothing
  if operator == 'epoch' then return redis.call('HGET', KEYS[#KEYS - guard[1]], 'epoch') == value end
  local found = redis.call('HGET', row, guard[1])
  if operator == 'is null' then return not found end
  if operator == 'is not null' then return found end
  if found and type(value) == 'number' then found = tonumber(found) end
  if not found then return false end
  if operator == '=' then return found == value end
  if operator == '<>' then return found ~= value end
  if operator == '<' then return found < value end
  if operator == '<=' then return found <= value end
  if operator == '>' then return found > value end
  return found >= value
end

-- Which of the guards the row does not meet, as bits from this one on.
local function unmet_guards(row, guards, bit)
  local unmet = 0
  for _, guard in ipairs(guards) do
    if not holds(row, guard) then unmet = unmet + bit end
    bit = bit * 2
  end
  return unmet
end

local guarded = cjson.decode(ARGV[1])

-- Which of the caller's and the declared guards do not hold, as bits: the fence 1, the revision 2, then the predicates.
local function unmet_by(row, fence, revision, i)
  local unmet = 0
  unmet = unmet + unmet_guards(row, guarded, 4)
  return unmet
end

-- Writes the columns that the call sets beside those of the move.
local function write(row, i, after)
  local fields, change = {'status', 'SEND_FAILED', 'rev', after}, cjson.decode(ARGV[2])
  for _, name in ipairs(change.clear) do redis.call('HDEL', row, name) end
  for name, value in pairs(change.set) do
    fields[#fields + 1] = name
    fields[#fields + 1] = value
  end
  redis.call('HSET', row, unpack(fields))
end

-- The newest entry of the history that `test` accepts, among the newest thousand.
local function newest(stream, test)
  for _, entry in ipairs(redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1000)) do
    local fields = {}
    for i = 1, #entry[2], 2 do fields[entry[2][i]] = entry[2][i + 1] end
    if fields.outcome == 'moved' and test(fields) then return fields end
  end
end

-- Who moved the row to where it was found, if the history says so.
local function winner(stream, before, revision)
  local last = newest(stream, function() return true end)
  local same = last and last.after == before and last.revision == (revision or '')
  return same and last.actor ~= '' and last.actor
end

-- The refusal, with what was found.
local function not_moved(stream, i, before, revision, fence, unmet)
  local by = false
  by = winner(stream, before, revision) or false
  -- what the caller asked of the row comes before 'already': its revision (2), and its guards, which follow the declared ones
  local asked = unmet % 4 >= 2 or unmet >= 4
  local outcome = unmet % 2 == 1 and 'lost' or before == 'SEND_FAILED' and not asked and 'already' or 'refused'
  local noted = note(stream, i, outcome, before, revision)
  if noted.err then return {false, 'error', noted.err} end
  return {false, 'not moved', before, revision, fence, unmet, by}
end

local function decide(row, stream, i)
  -- a key of another type is not a row of ours
  local found = redis.pcall('HMGET', row, 'status', 'rev')
  local before = found[1]
  if found.err or not before then return {} end
  -- numbers stay texts, because Lua's lose digits beyond 2^53
  local revision, fence, unmet = found[2] or '0', false, 0
  unmet = unmet_by(row, fence, revision, i)
  -- P1: the row leaves only a status from which this move is declared
  if unmet > 0 or not sources[before] then return not_moved(stream, i, before, revision, fence, unmet) end

  -- what can fail comes first, for a script that fails half-way is not undone: the history, and then the whole row at once
  local after, counted = false, false
  after, counted = next_revision(row, revision)
  local noted = note(stream, i, 'moved', before, after)
  if noted.err and counted then redis.call('HINCRBY', row, 'rev', -1) end
  if noted.err then return {false, 'error', noted.err} end
  write(row, i, after)
  return after and {before, after} or before
end

-- A row that fails is answered alone.
local function move_many()
  local answers = {}
  for i = 1, rows do
    local fine, answer = pcall(decide, KEYS[i], KEYS[rows + i], i)
    if not fine then answer = {false, 'error', type(answer) == 'table' and answer.err or tostring(answer)} end
    answers[i] = answer
  end
  return answers
end

return move_many()

-- read: read
-- read
HGETALL

-- history: history
-- history
XREVRANGE
