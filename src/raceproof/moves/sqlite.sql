-- Moves on SQLite. There is one writer at a time. A move without history is one move.write, which decides by itself; what
-- takes more statements takes the write lock first (BEGIN IMMEDIATE, or move.lock in a transaction of the caller's), so
-- nothing can change between them.
-- {braces} are filled from the declaration, {$names} are parameters. `raceproof sql` prints the finished texts.

-- Takes the write lock of the caller's transaction without touching a row; a snapshot that is already stale fails here.
-- name: move.lock
UPDATE {table} SET {status} = {status} WHERE 0

-- One source at a time, because SQLite's RETURNING cannot tell what a column was before.
-- name: move.write
UPDATE {table} AS t
SET {assignments}
WHERE {key_matches}
  -- P1: the row leaves only a status from which this move is declared
  AND t.{status} = {source}
  -- P4: and only if the caller's fence, revision and further guards hold
  AND {guards?}
RETURNING {returning_revision}, {returning_key}{returning}

-- The same for many rows with one key column, which all set the same values.
-- name: move.write_many
UPDATE {table} AS t
SET {assignments}
WHERE t.{key} IN (SELECT value FROM json_each({$keys}))
  AND t.{status} = {source}
  AND {guards?}
RETURNING {key}, {returning_revision}, {returning_key}{returning}

-- The same for claimed rows, each with its fence: [[key, fence] …].
-- name: move.write_fenced
UPDATE {table} AS t
SET {assignments}
FROM json_each({$keys}) AS w
WHERE t.{key} = json_extract(w.value, '$[0]')
  AND t.{status} = {source}
  -- P4: and only if the row still carries the fence of its holder
  AND {guards_of_many}
RETURNING {key}, {returning_revision}, {returning_key}{returning}

-- What the row is, for the answer to a call that did not move it.
-- name: move.look
SELECT t.{status} AS rp_before,
       {revision} AS rp_revision,
       {fence} AS rp_fence,
       {unmet} AS rp_unmet,
       {key_text} AS rp_key
FROM {table} AS t
WHERE {key_matches}

-- Who holds the row, before a move that ends the claim.
-- name: move.held
SELECT {fenced_off}
FROM {table} AS t
WHERE {key_matches}

-- Whether a row that was not found is there under another spelling of one of its UUIDs.
-- name: move.spelled
SELECT t.{column}
FROM {table} AS t
WHERE t.{column} IN ({spellings})
  AND {others?}
LIMIT 1

-- name: move.note
INSERT INTO {history} (lifecycle, key, move, outcome, before, after, revision, actor, reason, call, at)
VALUES ({lifecycle}, {$key}, {move}, {$outcome}, {$before}, {target}, {$found_revision}, {$by}, {$reason}, {$call}, {now})

-- The same for many rows: [[key, revision, call] …].
-- name: move.note_many
INSERT INTO {history} (lifecycle, key, move, outcome, before, after, revision, actor, reason, call, at)
SELECT {lifecycle}, json_extract(value, '$[0]'), {move}, 'moved', {$before}, {target},
       json_extract(value, '$[1]'), {$by}, {$reason}, json_extract(value, '$[2]'), {now}
FROM json_each({$rows})

-- The keys of all rows that match the guards and are at a source of the move, in key order.
-- name: move.matching
SELECT {keys}
FROM {table} AS t
WHERE t.{status} IN ({sources})
  AND {tenant_matches?}
  AND {guards?}
ORDER BY {keys}
LIMIT {$limit}

-- What an earlier call with this id did, if it moved the row.
-- name: move.replay
SELECT before, revision
FROM {history}
WHERE lifecycle = {lifecycle}
  AND key = {$key}
  AND call = {$call}
  AND move = {$move}
  AND outcome = 'moved'
ORDER BY id DESC
LIMIT 1

-- Who moved the row last; asked only for a row that a caller has lost.
-- name: move.who
SELECT key, after, revision, actor
FROM {history}
WHERE lifecycle = {lifecycle}
  AND key = {$key}
  AND outcome = 'moved'
ORDER BY id DESC
LIMIT 1

-- name: move.read
SELECT {columns}
FROM {table} AS t
WHERE {key_matches}

-- name: move.history
SELECT move, outcome, before, after, revision, actor, reason, call, at
FROM {history}
WHERE lifecycle = {lifecycle}
  AND key = {$key}
ORDER BY id DESC
LIMIT {$limit}

-- name: move.columns
SELECT name, type
FROM pragma_table_info({table_name}, {schema_name})
ORDER BY cid
