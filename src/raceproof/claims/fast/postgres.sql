-- The statements of `postgres.py` beside this file, which exist only for speed.

-- Up to the limit, rows, in order.
-- name: claim.acquire
WITH cur AS MATERIALIZED (
    SELECT t.ctid AS rp_place
    FROM {table} AS t
    WHERE {claimable}
      -- a row that kills its workers is dead-lettered after max_attempts
      AND {left?}
    ORDER BY {order}
    LIMIT {limit}
    -- NO KEY: a claim never changes the key, so foreign keys that point at the row need not wait
    FOR NO KEY UPDATE OF t SKIP LOCKED
), changed AS (
    UPDATE {table} AS t
    SET {take}
    -- by their places, of which no plan can make a search through the whole table
    WHERE t.ctid = ANY (ARRAY(SELECT rp_place FROM cur))
      AND {free}
    RETURNING {fence} AS rp_fence, {attempts} AS rp_attempts, old.{status}::text AS rp_before, {key_text} AS rp_key,
              {revision} AS rp_revision, {keys}, {t_order}{returning}
){noted}
SELECT rp_fence, rp_attempts, rp_before, {own_keys}{returned}
FROM changed
ORDER BY {own_order}

-- Renew, give back, back off: many claims, each with its fence; locked in key order.
-- name: claim.change_many
WITH wanted AS (
    SELECT w.*
    FROM unnest({arrays}) WITH ORDINALITY AS w ({wanted}, rp_ord)
), cur AS MATERIALIZED (
    SELECT w.rp_ord, {keys}, t.{status}::text AS rp_before, {fence} AS rp_fence, {holder}::text AS rp_holder,
           -- P5: only the current holder; P4: an older fence than the newest is refused
           ({fence} = w.rp_fence_wanted AND t.{status} IN ({held})) IS TRUE AS rp_mine{own_wanted}
    FROM {table} AS t
    JOIN wanted AS w ON {t_is_wanted}
    ORDER BY {t_keys}
    FOR NO KEY UPDATE OF t
), changed AS (
    UPDATE {table} AS t
    SET {changes}
    FROM cur
    WHERE {t_is_cur}
      AND cur.rp_mine
    RETURNING cur.rp_ord, {fence} AS rp_fence, {key_text} AS rp_key, cur.rp_before, {revision} AS rp_revision{by_given}
){noted}
-- what a trigger has passed over was not changed
SELECT cur.rp_ord, changed.rp_ord IS NOT NULL, COALESCE(changed.rp_fence, cur.rp_fence), cur.rp_before, cur.rp_holder
FROM cur LEFT JOIN changed ON changed.rp_ord = cur.rp_ord
