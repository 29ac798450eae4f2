-- The statements of `postgres.py` and `postgres_ends.py` beside this file, which exist only for speed.
-- A row that they return has passed the guards of move.one; a row that they do not return is decided by move.one or move.many.

-- The usual end of a call: the row is at a source and moves.
-- name: move.fast
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

-- name: move.fast without history
UPDATE {table} AS t
SET {assignments}
WHERE {key_matches}
  AND t.{status} IN ({sources})
  AND {guards?}
RETURNING {before}, {revision}{returning}

-- Many claimed rows, each with its fence. If no columns are asked for, all answers are one row of arrays.
-- name: move.fast_many
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

-- Rows that were claimed together, and so have one fence: found by their keys alone, without a join.
-- The answer is NULL if all of them have moved, and otherwise the places of those that have.
-- name: move.fast_same
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

-- Which rows are there, of those that move.many did not see: they may be held by other transactions.
-- name: move.present
SELECT w.rp_ord
FROM unnest({arrays}) WITH ORDINALITY AS w ({wanted}, rp_ord)
JOIN {table} AS t ON {t_is_wanted}

-- The history of move.fast_many, which has no `cur`.
-- name: move.fast_note
, noted AS (
    INSERT INTO {history} (lifecycle, key, move, outcome, before, after, revision, actor, reason, call, at)
    SELECT {lifecycle}, rp_key, {move}, 'moved', rp_before, {target}, rp_revision, rp_by, rp_reason, rp_call, {now}
    FROM changed
)

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
    RETURNING TRUE AS rp_won, {keys}, {revision} AS rp_revision{returning}
){noted}
SELECT cur.rp_before, changed.rp_revision, {changed_keys}{returned}
FROM cur JOIN changed ON {cur_is_changed}

-- Who moved these rows last; asked only for rows that callers have lost.
-- name: move.who_of_many
SELECT DISTINCT ON (key) key, after, revision, actor
FROM {history}
WHERE lifecycle = {lifecycle}
  AND key = ANY({$keys}::text[])
  AND outcome = 'moved'
ORDER BY key, id DESC
