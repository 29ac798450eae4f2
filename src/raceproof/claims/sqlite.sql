-- Claims on SQLite. There is one writer at a time: every program here takes the write lock first (BEGIN IMMEDIATE, or
-- claim.lock in a transaction of the caller's), so what claim.due finds is still so when claim.take writes it.
-- A fence is told as an expression (+), for a converter of the connection's (detect_types, Django) would round the column.
-- {braces} are filled from the declaration, {$names} are parameters. `raceproof sql` prints the finished texts.

-- Takes the write lock of the caller's transaction without touching a row; a snapshot that is already stale fails here.
-- name: claim.lock
UPDATE {table} SET {status} = {status} WHERE 0

-- Up to so many rows that nobody holds, in order.
-- name: claim.due
SELECT {t_keys}, t.{status} AS rp_before, {key_text} AS rp_key
FROM {table} AS t
WHERE t.{status} IN ({open})
  -- P3: nobody holds it, or the lease is over by the store's clock (P13: so the dead need no reaper)
  AND {free}
  AND {rested?}
  -- a row that kills its workers is set aside after so many attempts
  AND {left?}
  AND {tenant_matches?}
  AND {guards?}
  AND {first_of_its_line?}
ORDER BY {order}
LIMIT {$limit}

-- Writes the claim into the rows that were found: [[key …] …].
-- name: claim.take
UPDATE {table} AS t
SET {take}
FROM json_each({$rows}) AS w
WHERE {t_is_wanted}
RETURNING {bare_keys}, +{bare_fence}, {bare_attempts}, {bare_revision}{returning}

-- Why one row can be claimed or not.
-- name: claim.look
SELECT t.{status}, {unmet}, {holder}, {key_text}
FROM {table} AS t
WHERE {key_matches}

-- Rows that have had all their attempts and that nobody holds.
-- name: claim.spent
SELECT {t_keys}, t.{status} AS rp_before, {key_text} AS rp_key
FROM {table} AS t
WHERE t.{status} IN ({open})
  AND {free}
  AND {rested?}
  AND {spent}
  AND {tenant_matches?}
  -- only what this call could have claimed, had it attempts left
  AND {guards?}
  AND {first_of_its_line?}
ORDER BY {order}
LIMIT {$limit}

-- name: claim.set_aside
UPDATE {table} AS t
SET {assignments}
FROM json_each({$rows}) AS w
WHERE {t_is_wanted}
RETURNING {bare_keys}, {bare_attempts}, {bare_revision}

-- Renew, give back, let rest: one claim by its fence.
-- name: claim.change
UPDATE {table} AS t
SET {changes}
WHERE {key_matches}
  -- P5: only the current holder; P4: an older fence than the newest is refused
  AND {fence} = {$fence}
  AND t.{status} IN ({held})
RETURNING +{bare_fence}, {bare_key_text}, {bare_revision}

-- What the row is, for the answer to somebody who does not hold it.
-- name: claim.found
SELECT +{fence}, t.{status}, {holder}
FROM {table} AS t
WHERE {key_matches}

-- name: claim.note
INSERT INTO {history} (lifecycle, key, move, outcome, before, after, revision, actor, reason, at)
VALUES ({lifecycle}, {$key}, {$move}, {$outcome}, {$before}, {$after}, {$found_revision}, {$by}, {$reason}, {now})

-- Who holds what, for people who look: the oldest first.
-- name: claim.list
SELECT {until} AS rp_until, {until} <= {now} AS rp_stale, t.{status}, {holder}, +{fence}, {attempts}, {t_keys}
FROM {table} AS t
WHERE t.{status} IN ({open})
  AND {until} IS NOT NULL
  AND {tenant_matches?}
ORDER BY rp_until
LIMIT {$limit}

-- The first deploy: a row that is in work and has no lease gets one, so that no new worker takes it from an old one.
-- name: claim.backfill
UPDATE {table} AS t
SET {take}
WHERE t.{status} IN ({held})
  AND {until} IS NULL
  AND {never_claimed};

-- name: claim.index
CREATE INDEX IF NOT EXISTS {index_name} ON {bare_table} ({index_columns})
WHERE {status} IN ({open});

-- Makes a row that waits, unless it is there.
-- name: claim.add
INSERT INTO {table} ({key_columns}, {status})
VALUES ({key_values}, {waiting})
ON CONFLICT DO NOTHING
