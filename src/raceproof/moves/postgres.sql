-- Moves on PostgreSQL. One statement is one decision, right at READ COMMITTED in every interleaving:
-- `cur` locks the row and reads it as it is *after* the lock, `changed` writes only if the guards hold on that row,
-- `noted` keeps the history, and the last SELECT tells the caller what was found and what was done.
-- Whoever gets an answer has waited for the commit it rests on: every caller that loses locks the row, so that its own
-- commit waits for the synchronous standby too. A commit wait that was cancelled leaves rows that only the primary has.
-- {braces} are filled from the declaration, {$names} are parameters. `raceproof sql` prints the finished texts.

-- The quick way for the usual end: the row is at a source and moves. Where no row comes back, move.one decides.
-- name: move.swift
WITH changed AS (
    UPDATE {table} AS t
    SET {assignments}
    WHERE {key_matches}
      -- P1: the row leaves only a status from which this move is declared
      AND t.{status} IN ({sources})
      -- P4: and only if the caller's fence, revision and further guards hold
      AND {guards?}
    RETURNING {before} AS rp_before, {revision} AS rp_revision, {key_text} AS rp_key{returning}
), noted AS (
    INSERT INTO {history} (lifecycle, key, move, outcome, before, after, revision, actor, reason, call, at)
    SELECT {lifecycle}, rp_key, {move}, 'moved', rp_before, {target}, rp_revision, {$by}::text, {$reason}::text, {$call}::text, {now}
    FROM changed
)
SELECT rp_before, rp_revision{returned}
FROM changed

-- name: move.swift without history
UPDATE {table} AS t
SET {assignments}
WHERE {key_matches}
  AND t.{status} IN ({sources})
  AND {guards?}
RETURNING {before}, {revision}{returning}

-- Locks first, so that the answer tells what the row really was.
-- name: move.one
WITH cur AS MATERIALIZED (
    SELECT {keys},
           t.{status}::text AS rp_before,
           {revision} AS rp_revision,
           {fence} AS rp_fence,
           {key_text} AS rp_key,
           {unmet} AS rp_unmet{held}
    FROM {table} AS t
    WHERE {key_matches}
    -- NO KEY: a move never changes the key, so foreign keys that point at the row need not wait
    FOR NO KEY UPDATE
), changed AS (
    UPDATE {table} AS t
    SET {assignments}
    FROM cur
    WHERE {t_is_cur}
      -- P1: the row leaves only a status from which this move is declared
      AND cur.rp_before IN ({sources})
      -- P4: and only if the caller's fence, revision and further guards held when the row was locked
      AND cur.rp_unmet = 0
    RETURNING TRUE AS rp_won, {revision} AS rp_revision{returning}
){noted}
SELECT cur.rp_before, cur.rp_revision, cur.rp_fence, cur.rp_unmet, cur.rp_key,
       changed.rp_won, changed.rp_revision{returned}
FROM cur LEFT JOIN changed ON TRUE

-- Many rows by key, each with values of its own; locked in key order, so that two bulks cannot deadlock.
-- name: move.many
WITH wanted AS (
    SELECT w.*
    FROM unnest({arrays}) WITH ORDINALITY AS w ({wanted}, rp_ord)
    -- a statement that many callers share gives up soon if one of them makes it wait, for a trigger's or foreign key's row
    CROSS JOIN {patience?}
), cur AS MATERIALIZED (
    SELECT w.*,
           {keys},
           t.{status}::text AS rp_before,
           {revision} AS rp_revision,
           {fence} AS rp_fence,
           {key_text} AS rp_key,
           {unmet} AS rp_unmet{held}
    FROM {table} AS t
    JOIN wanted AS w ON {t_is_wanted}
    ORDER BY {t_keys}
    FOR NO KEY UPDATE OF t{skip_locked}
), changed AS (
    UPDATE {table} AS t
    SET {assignments}
    FROM cur
    WHERE {t_is_cur}
      AND cur.rp_before IN ({sources})
      AND cur.rp_unmet = 0
    RETURNING TRUE AS rp_won, cur.rp_ord, {revision} AS rp_revision{returning}
){noted}
SELECT cur.rp_ord, cur.rp_before, cur.rp_revision, cur.rp_fence, cur.rp_unmet, cur.rp_key,
       changed.rp_won, changed.rp_revision{returned}
FROM cur LEFT JOIN changed ON changed.rp_ord = cur.rp_ord

-- The quick way for many claimed rows, each with its fence. Rows that do not come back are asked for by move.many.
-- Where no columns are asked for, all answers are one row of arrays.
-- name: move.swift_many
WITH changed AS (
    UPDATE {table} AS t
    SET {assignments}
    FROM unnest({arrays}) WITH ORDINALITY AS w ({wanted}, rp_ord)
    WHERE {t_is_wanted}
      -- P1, P4: as in move.many
      AND t.{status} IN ({sources})
      AND {guards?}
    RETURNING w.rp_ord, {before} AS rp_before, {revision} AS rp_revision, {key_text} AS rp_key{own}{returning}
){swift_note}
SELECT {answers}
FROM changed

-- The same for rows that were claimed together, and so have one fence: found by their keys alone, without a join.
-- The answer is NULL if all of them have moved, and otherwise the places of those that have.
-- name: move.swift_alike
WITH wanted AS (
    SELECT {$rp_wanted_0}::{key_type}[] AS rp_keys
), changed AS (
    UPDATE {table} AS t
    SET {assignments}
    WHERE t.{key} = ANY ((SELECT rp_keys FROM wanted)::{key_type}[])
      -- P1, P4: as in move.many
      AND t.{status} IN ({sources})
      AND {guards?}
    RETURNING t.{key} AS rp_key
), told AS (
    SELECT array_agg(rp_key) AS rp_moved
    FROM changed
)
SELECT CASE
    WHEN cardinality(rp_moved) = cardinality(rp_keys) THEN NULL
    ELSE ARRAY (SELECT array_position(rp_keys, rp_key) FROM unnest(rp_moved) AS rp_key)
END
FROM told, wanted

-- Which rows are there, for those that move.many did not see because somebody holds them.
-- name: move.present
SELECT w.rp_ord
FROM unnest({arrays}) WITH ORDINALITY AS w ({wanted}, rp_ord)
JOIN {table} AS t ON {t_is_wanted}

-- All rows that match the guards and are at a source of the move, in key order.
-- name: move.matching
WITH cur AS MATERIALIZED (
    SELECT {keys},
           t.{status}::text AS rp_before,
           {key_text} AS rp_key{held}
    FROM {table} AS t
    WHERE t.{status} IN ({sources})
      AND {tenant_matches?}
      AND {guards?}
    ORDER BY {t_keys}
    LIMIT {$limit}
    FOR NO KEY UPDATE OF t
), changed AS (
    UPDATE {table} AS t
    SET {assignments}
    FROM cur
    WHERE {t_is_cur}
      AND cur.rp_before IN ({sources})
    RETURNING TRUE AS rp_won, {t_keys_as}, {revision} AS rp_revision{returning}
){noted}
SELECT cur.rp_before, changed.rp_revision, {changed_keys}{returned}
FROM cur JOIN changed ON {cur_is_changed}

-- The history row of a decision, written by the same statement that decides.
-- name: move.note
, noted AS (
    INSERT INTO {history} (lifecycle, key, move, outcome, before, after, revision, actor, reason, call, at)
    SELECT {lifecycle}, cur.rp_key, {move}, {outcome}, cur.rp_before, {target},
           {noted_revision}, {actor}::text, {reason}::text, {call}::text, {now}
    FROM cur {noted_join}
)

-- The same for move.swift_many, which has no `cur`.
-- name: move.swift_note
, noted AS (
    INSERT INTO {history} (lifecycle, key, move, outcome, before, after, revision, actor, reason, call, at)
    SELECT {lifecycle}, rp_key, {move}, 'moved', rp_before, {target}, rp_revision, rp_by, rp_reason, rp_call, {now}
    FROM changed
)

-- Locks the row, so that the next statement sees all that was committed before.
-- name: move.lock
SELECT {key_text} AS rp_key
FROM {table} AS t
WHERE {key_matches}
FOR NO KEY UPDATE

-- What an earlier call with this id did, if it moved the row.
-- name: move.replay
SELECT before, revision
FROM {history}
WHERE lifecycle = {lifecycle}
  AND key = {$key}::text
  AND call = {$call}::text
  AND move = {$move}::text
  AND outcome = 'moved'
ORDER BY id DESC
LIMIT 1

-- Who moved these rows last; asked only for rows that a caller has lost.
-- name: move.who
SELECT DISTINCT ON (key) key, after, revision, actor
FROM {history}
WHERE lifecycle = {lifecycle}
  AND key = ANY({$keys}::text[])
  AND outcome = 'moved'
ORDER BY key, id DESC

-- name: move.read
SELECT {columns}
FROM {table} AS t
WHERE {key_matches}

-- name: move.history
SELECT move, outcome, before, after, revision, actor, reason, call, at
FROM {history}
WHERE lifecycle = {lifecycle}
  AND key = {$key}::text
ORDER BY id DESC
LIMIT {$limit}

-- Whether the rows of the table are in several: then the place of a row says nothing alone. And whether it is known to have
-- many rows: then a plan that is kept is one for many.
-- name: move.table
SELECT relkind = 'p' OR relhassubclass OR relkind NOT IN ('r', 'p'), reltuples >= 1000
FROM pg_class
WHERE oid = {regclass}::regclass

-- The columns of the table and their types, for the arrays of move.many.
-- name: move.types
SELECT attname::text, format_type(atttypid, atttypmod)
FROM pg_attribute
WHERE attrelid = {regclass}::regclass
  AND attnum > 0
  AND NOT attisdropped
ORDER BY attnum
