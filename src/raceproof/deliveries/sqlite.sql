-- Deliveries on SQLite: what takes more than one statement takes the write lock first, so nothing changes in between.
-- A fence is returned as an expression (+): a converter of the connection (detect_types, Django) would round the column.
-- {braces} are filled from the declaration, {$names} are parameters. `raceproof sql` prints the finished texts.

-- Takes the write lock of the caller's transaction without touching a row; a snapshot that is already stale fails here.
-- name: delivery.lock
UPDATE {table} SET {delivered} = {delivered} WHERE 0

-- Whether the permit can be taken, and who has it.
-- name: delivery.look
SELECT {found_state}, {holder}, {since}, ({open} AND {free} AND {policy}) IS TRUE, {doubt}
FROM {table} AS t
WHERE {key_matches}

-- name: delivery.take
UPDATE {table} AS t
SET {take}
WHERE {key_matches}
  -- it is not delivered, no process is sending it (or one has been for too long), and the policy allows another attempt
  AND {open}
  AND {free}
  AND {policy}
RETURNING {written_fence}, {written_attempts}{written_returning}
