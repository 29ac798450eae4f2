-- Claims on PostgreSQL. One statement is one decision: `due` finds rows that nobody holds, skips those that somebody is
-- deciding about right now, and locks the rest; `changed` writes the claim into the same rows; the lease is the store's time.
-- Whoever gets an answer has waited for the commit it rests on: every caller that loses locks the row, so that its own
-- commit waits for the synchronous standby too. A commit wait that was cancelled leaves rows that only the primary has.
-- {braces} are filled from the declaration, {$names} are parameters. `raceproof sql` prints the finished texts.

-- Up to so many rows, in order.
-- name: claim.acquire
WITH due AS MATERIALIZED (
    SELECT {keys}, t.{status}::text AS rp_before{place}
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
    LIMIT {limit}
    -- NO KEY: a claim never changes the key, so foreign keys that point at the row need not wait
    FOR NO KEY UPDATE OF t SKIP LOCKED
), changed AS (
    UPDATE {table} AS t
    SET {take}
    {from_due?}
    -- where that is possible, by their places, which no plan can make a search through the whole table of
    WHERE {t_is_due}
      AND {free}
    RETURNING {fence} AS rp_fence, {attempts} AS rp_attempts, {before} AS rp_before, {key_text} AS rp_key,
              {revision} AS rp_revision, {t_keys_as}, {t_order_as}{returning}
){noted}
SELECT rp_fence, rp_attempts, rp_before, {changed_keys}{returned}
FROM changed
ORDER BY {changed_order}

-- One row by its key; waits for whoever is deciding about it, and tells why not.
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
-- name: claim.note
, noted AS (
    INSERT INTO {history} (lifecycle, key, move, outcome, before, after, revision, actor, reason, at)
    SELECT {lifecycle}, rp_key, {move}, {note_outcome}, rp_before, {after}, rp_revision, {actor}::text, {reason}::text, {now}
    FROM changed
)

-- Rows that have had all their attempts, and that nobody holds: out of the way.
-- name: claim.set_aside
WITH spent AS MATERIALIZED (
    SELECT {keys}, t.{status}::text AS rp_before
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
    FOR NO KEY UPDATE OF t SKIP LOCKED
), changed AS (
    UPDATE {table} AS t
    SET {assignments}
    FROM spent
    WHERE {t_is_spent}
      AND {free}
    RETURNING {attempts} AS rp_attempts, spent.rp_before, {key_text} AS rp_key, {revision} AS rp_revision, {t_keys_as}
){noted}
SELECT rp_attempts, {changed_keys}
FROM changed

-- Renew, give back, let rest: many claims, each with its fence; locked in key order.
-- name: claim.change
WITH wanted AS (
    SELECT w.*
    FROM unnest({arrays}) WITH ORDINALITY AS w ({wanted}, rp_ord)
), cur AS MATERIALIZED (
    SELECT w.rp_ord, {keys}, t.{status}::text AS rp_before, {fence} AS rp_fence, {holder} AS rp_holder,
           -- P5: only the current holder; P4: an older fence than the newest is refused
           ({fence} = w.rp_fence_wanted AND t.{status} IN ({held})) IS TRUE AS rp_mine{rest_wanted}
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

-- Who holds what, for people who look: the oldest first.
-- name: claim.list
SELECT {until} AS rp_until, {until} <= {now} AS rp_stale, t.{status}::text, {holder}, {fence}, {attempts}, {t_keys}
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
CREATE INDEX{concurrently} IF NOT EXISTS {index_name} ON {table} ({index_columns})
WHERE {status} IN ({open});

-- Wakes up whoever waits for rows; one for a whole batch.
-- name: claim.offer
SELECT pg_notify('raceproof', {topic})

-- Makes a row that waits, unless it is there.
-- name: claim.add
INSERT INTO {table} ({key_columns}, {status})
VALUES ({key_values}, {waiting})
ON CONFLICT DO NOTHING
