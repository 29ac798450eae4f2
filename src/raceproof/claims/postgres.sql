-- Claims on PostgreSQL. One statement is one decision: `cur` finds rows that have no holder, skips those that
-- another transaction is deciding about right now, and locks the others; `changed` writes the claim into the same rows. The
-- lease is measured by the store's clock.
-- Whoever gets an answer has waited for the commit it rests on: every caller that loses locks the row, so that its own
-- commit waits for the synchronous standby too. A commit wait that was cancelled leaves rows that only the primary has.
-- {braces} are filled from the declaration, {$names} are parameters. `raceproof sql` prints the finished texts.

-- Up to the limit, rows, in order.
-- name: claim.acquire
WITH cur AS MATERIALIZED (
    SELECT {keys}, t.{status}::text AS rp_before
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
    FROM cur
    WHERE {t_is_cur}
      AND {free}
    RETURNING {fence} AS rp_fence, {attempts} AS rp_attempts, cur.rp_before, {key_text} AS rp_key,
              {revision} AS rp_revision, {keys}, {t_order}{returning}
){noted}
SELECT rp_fence, rp_attempts, rp_before, {own_keys}{returned}
FROM changed
ORDER BY {own_order}

-- One row by its key; waits for whoever is deciding about it, and says why not.
-- name: claim.one
WITH cur AS MATERIALIZED (
    SELECT {keys}, t.{status}::text AS rp_before, {unmet} AS rp_unmet, {holder} AS rp_holder
    FROM {table} AS t
    WHERE {key_matches}
    FOR NO KEY UPDATE OF t
), changed AS (
    UPDATE {table} AS t
    SET {take}
    FROM cur
    WHERE {t_is_cur}
      AND cur.rp_unmet = 0
    RETURNING {fence} AS rp_fence, {attempts} AS rp_attempts, cur.rp_before, {key_text} AS rp_key,
              {revision} AS rp_revision{returning}
){noted}
SELECT cur.rp_before, cur.rp_unmet, cur.rp_holder, changed.rp_fence, changed.rp_attempts{returned}
FROM cur LEFT JOIN changed ON TRUE

-- The history row of a claim, written by the same statement that decides.
-- name: claim.noted
, noted AS (
    INSERT INTO {history} (lifecycle, key, move, outcome, before, after, revision, actor, reason, at)
    SELECT {lifecycle}, rp_key, {move}, {note_outcome}, rp_before, {after}, rp_revision, {actor}::text, {reason}::text, {now}
    FROM changed
)

-- Rows that have used up their attempts and have no holder: out of the way.
-- name: claim.dead_letter
WITH cur AS MATERIALIZED (
    SELECT {keys}, t.{status}::text AS rp_before
    FROM {table} AS t
    -- only what this call could have claimed, had it attempts left
    WHERE {claimable}
      AND {spent}
    ORDER BY {order}
    LIMIT {$limit}
    FOR NO KEY UPDATE OF t SKIP LOCKED
), changed AS (
    UPDATE {table} AS t
    SET {dead_letter}
    FROM cur
    WHERE {t_is_cur}
      AND {free}
    RETURNING {attempts} AS rp_attempts, cur.rp_before, {key_text} AS rp_key, {revision} AS rp_revision, {keys}
){noted}
SELECT rp_attempts, {own_keys}
FROM changed

-- Wakes up whoever waits for rows; one for a whole batch.
-- name: claim.offer
SELECT pg_notify('raceproof', {topic})
