-- Deliveries on SQLite: what takes more than one statement takes the write lock first, so nothing changes in between.
-- A fence is told as an expression (+), for a converter of the connection's (detect_types, Django) would round the column.
-- {braces} are filled from the declaration, {$names} are parameters. `raceproof sql` prints the finished texts.

-- Takes the write lock of the caller's transaction without touching a row; a snapshot that is already stale fails here.
-- name: delivery.lock
UPDATE {table} SET {delivered} = {delivered} WHERE 0

-- Whether the turn can be taken, and who has it.
-- name: delivery.look
SELECT {found_state}, {holder}, {since}, ({open} AND {free} AND {policy}) IS TRUE, {doubt}
FROM {table} AS t
WHERE {key_matches}

-- name: delivery.take
UPDATE {table} AS t
SET {take}
WHERE {key_matches}
  -- nobody has delivered it, nobody is at it (or has been for too long), and the policy allows another try
  AND {open}
  AND {free}
  AND {policy}
RETURNING +{bare_fence}, {bare_attempts}{bare_returning}

-- Say how the turn has ended.
-- name: delivery.mark
UPDATE {table} AS t
SET {marks}
WHERE {key_matches}
  -- P5: only the current winner's mark is accepted; P4: its timestamp is its fence
  AND {fence} = {$fence}
  AND {open}
RETURNING +{bare_fence}

-- A person has looked: it arrived, or it did not.
-- name: delivery.resolve
UPDATE {table} AS t
SET {marks}
WHERE {key_matches}
  AND {open}
  -- only what nobody knows the end of
  AND {doubt}
RETURNING +{bare_fence}

-- What is under way or unknown, for people who look.
-- name: delivery.list
SELECT {found_state}, {holder}, {since}, {attempts}, {error}, {t_keys}
FROM {table} AS t
WHERE {open}
  AND {begun}
  -- before the limit: those that are under way hide none whose end nobody knows
  AND {only_doubt?}
  AND {tenant_matches?}
ORDER BY {since}
LIMIT {$limit}
