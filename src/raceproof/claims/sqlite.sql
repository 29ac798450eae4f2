-- Claims on SQLite. There is one writer at a time: every program here takes the write lock first (BEGIN IMMEDIATE, or
-- claim.lock in a transaction of the caller's), so what claim.due finds is still so when claim.take writes it.
-- A fence is returned as an expression (+): a converter of the connection (detect_types, Django) would round the column.
-- {braces} are filled from the declaration, {$names} are parameters. `raceproof sql` prints the finished texts.

-- Up to the limit, rows that have no holder, in order.
-- name: claim.due
SELECT {t_keys}, t.{status} AS rp_before, {key_text} AS rp_key
FROM {table} AS t
WHERE {claimable}
      -- a row that kills its workers is dead-lettered after max_attempts
      AND {left?}
ORDER BY {order}
LIMIT {$limit}

-- Writes the claim into the rows that were found: [[key …] …].
-- name: claim.take
UPDATE {table} AS t
SET {take}
FROM json_each({$rows}) AS w
WHERE {t_is_wanted}
RETURNING {written_keys}, {written_fence}, {written_attempts}, {written_revision}{written_returning}

-- Why one row can be claimed or not.
-- name: claim.look
SELECT t.{status}, {unmet}, {holder}, {key_text}
FROM {table} AS t
WHERE {key_matches}

-- Rows that have used up their attempts and have no holder.
-- name: claim.spent
SELECT {t_keys}, t.{status} AS rp_before, {key_text} AS rp_key
FROM {table} AS t
-- only what this call could have claimed, had it attempts left
WHERE {claimable}
      AND {spent}
ORDER BY {order}
LIMIT {$limit}

-- name: claim.dead_letter
UPDATE {table} AS t
SET {dead_letter}
FROM json_each({$rows}) AS w
WHERE {t_is_wanted}
RETURNING {written_keys}, {written_attempts}, {written_revision}
