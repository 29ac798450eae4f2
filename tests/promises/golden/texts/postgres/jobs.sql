-- offer: claim.offer
-- claim.offer
SELECT pg_notify('raceproof', 'jobs/work')

-- claim: table.kind, claim.acquire
-- table.kind
SELECT relkind = 'p' OR relhassubclass OR relkind NOT IN ('r', 'p'), reltuples >= 1000
FROM pg_class
WHERE oid = '"jobs"'::regclass

-- claim.acquire
WITH cur AS MATERIALIZED (
    SELECT t.ctid AS rp_place
    FROM "jobs" AS t
    WHERE t."status" IN ('QUEUED', 'RUNNING')
      AND (t."claimed_until" IS NULL OR t."claimed_until" <= $1::timestamptz OR (t."claimed_until" > (SELECT $1::timestamptz + make_interval(secs => $2::float8) + make_interval(secs => $2::float8)) AND t."fence" > (SELECT (extract(epoch FROM $1::timestamptz) * 1000000)::bigint)))
      AND (t."not_before" IS NULL OR t."not_before" <= $1::timestamptz)
      AND COALESCE(t."attempts", 0) < 3
    ORDER BY t."made_at"
    LIMIT $3
    FOR NO KEY UPDATE OF t SKIP LOCKED
), changed AS (
    UPDATE "jobs" AS t
    SET "status" = 'RUNNING',
      "claimed_by" = $4,
      "claimed_until" = (SELECT $1::timestamptz + make_interval(secs => $2::float8)),
      "fence" = GREATEST(COALESCE(t."fence", 0) + 1, (SELECT (extract(epoch FROM $1::timestamptz) * 1000000)::bigint)),
      "attempts" = COALESCE(t."attempts", 0) + 1
    WHERE t.ctid = ANY (ARRAY(SELECT rp_place FROM cur))
      AND (t."claimed_until" IS NULL OR t."claimed_until" <= $1::timestamptz OR (t."claimed_until" > (SELECT $1::timestamptz + make_interval(secs => $2::float8) + make_interval(secs => $2::float8)) AND t."fence" > (SELECT (extract(epoch FROM $1::timestamptz) * 1000000)::bigint)))
    RETURNING t."fence" AS rp_fence, t."attempts" AS rp_attempts, old."status"::text AS rp_before, NULL::text AS rp_key,
              NULL::bigint AS rp_revision, t."job_id" AS rp_key_0, t."made_at" AS rp_order_0
)
SELECT rp_fence, rp_attempts, rp_before, rp_key_0
FROM changed
ORDER BY rp_order_0

-- claim by the store's clock, returning: claim.acquire
-- claim.acquire
WITH cur AS MATERIALIZED (
    SELECT t.ctid AS rp_place
    FROM "jobs" AS t
    WHERE t."status" IN ('QUEUED', 'RUNNING')
      AND (t."claimed_until" IS NULL OR t."claimed_until" <= statement_timestamp() OR (t."claimed_until" > (SELECT statement_timestamp() + make_interval(secs => $1::float8) + make_interval(secs => $1::float8)) AND t."fence" > (SELECT (extract(epoch FROM statement_timestamp()) * 1000000)::bigint)))
      AND (t."not_before" IS NULL OR t."not_before" <= statement_timestamp())
      AND COALESCE(t."attempts", 0) < 3
    ORDER BY t."made_at"
    LIMIT $2
    FOR NO KEY UPDATE OF t SKIP LOCKED
), changed AS (
    UPDATE "jobs" AS t
    SET "status" = 'RUNNING',
      "claimed_by" = $3,
      "claimed_until" = (SELECT statement_timestamp() + make_interval(secs => $1::float8)),
      "fence" = GREATEST(COALESCE(t."fence", 0) + 1, (SELECT (extract(epoch FROM statement_timestamp()) * 1000000)::bigint)),
      "attempts" = COALESCE(t."attempts", 0) + 1
    WHERE t.ctid = ANY (ARRAY(SELECT rp_place FROM cur))
      AND (t."claimed_until" IS NULL OR t."claimed_until" <= statement_timestamp() OR (t."claimed_until" > (SELECT statement_timestamp() + make_interval(secs => $1::float8) + make_interval(secs => $1::float8)) AND t."fence" > (SELECT (extract(epoch FROM statement_timestamp()) * 1000000)::bigint)))
    RETURNING t."fence" AS rp_fence, t."attempts" AS rp_attempts, old."status"::text AS rp_before, NULL::text AS rp_key,
              NULL::bigint AS rp_revision, t."job_id" AS rp_key_0, t."made_at" AS rp_order_0, t."made_at"
)
SELECT rp_fence, rp_attempts, rp_before, rp_key_0, changed."made_at"
FROM changed
ORDER BY rp_order_0

-- claim with a guard and another lease: claim.acquire
-- claim.acquire
WITH cur AS MATERIALIZED (
    SELECT t.ctid AS rp_place
    FROM "jobs" AS t
    WHERE t."status" IN ('QUEUED', 'RUNNING')
      AND (t."claimed_until" IS NULL OR t."claimed_until" <= statement_timestamp() OR (t."claimed_until" > (SELECT statement_timestamp() + make_interval(secs => $1::float8) + make_interval(secs => $1::float8)) AND t."fence" > (SELECT (extract(epoch FROM statement_timestamp()) * 1000000)::bigint)))
      AND (t."not_before" IS NULL OR t."not_before" <= statement_timestamp())
      AND t."result" is null
      AND COALESCE(t."attempts", 0) < 3
    ORDER BY t."made_at"
    LIMIT $2
    FOR NO KEY UPDATE OF t SKIP LOCKED
), changed AS (
    UPDATE "jobs" AS t
    SET "status" = 'RUNNING',
      "claimed_by" = $3,
      "claimed_until" = (SELECT statement_timestamp() + make_interval(secs => $1::float8)),
      "fence" = GREATEST(COALESCE(t."fence", 0) + 1, (SELECT (extract(epoch FROM statement_timestamp()) * 1000000)::bigint)),
      "attempts" = COALESCE(t."attempts", 0) + 1
    WHERE t.ctid = ANY (ARRAY(SELECT rp_place FROM cur))
      AND (t."claimed_until" IS NULL OR t."claimed_until" <= statement_timestamp() OR (t."claimed_until" > (SELECT statement_timestamp() + make_interval(secs => $1::float8) + make_interval(secs => $1::float8)) AND t."fence" > (SELECT (extract(epoch FROM statement_timestamp()) * 1000000)::bigint)))
    RETURNING t."fence" AS rp_fence, t."attempts" AS rp_attempts, old."status"::text AS rp_before, NULL::text AS rp_key,
              NULL::bigint AS rp_revision, t."job_id" AS rp_key_0, t."made_at" AS rp_order_0
)
SELECT rp_fence, rp_attempts, rp_before, rp_key_0
FROM changed
ORDER BY rp_order_0

-- claim_one, won: claim.one
-- claim.one
WITH cur AS MATERIALIZED (
    SELECT t."job_id" AS rp_key_0, t."status"::text AS rp_before, CASE WHEN t."status" IN ('QUEUED', 'RUNNING') THEN 0 ELSE 1 END
         + CASE WHEN (t."claimed_until" IS NULL OR t."claimed_until" <= $1::timestamptz OR (t."claimed_until" > (SELECT $1::timestamptz + make_interval(secs => $2::float8) + make_interval(secs => $2::float8)) AND t."fence" > (SELECT (extract(epoch FROM $1::timestamptz) * 1000000)::bigint))) THEN 0 ELSE 2 END
         + CASE WHEN (t."not_before" IS NULL OR t."not_before" <= $1::timestamptz) THEN 0 ELSE 4 END
         + CASE WHEN COALESCE(t."attempts", 0) < 3 THEN 0 ELSE 8 END AS rp_unmet, t."claimed_by" AS rp_holder
    FROM "jobs" AS t
    WHERE t."job_id" = $3
    FOR NO KEY UPDATE OF t
), changed AS (
    UPDATE "jobs" AS t
    SET "status" = 'RUNNING',
      "claimed_by" = $4,
      "claimed_until" = (SELECT $1::timestamptz + make_interval(secs => $2::float8)),
      "fence" = GREATEST(COALESCE(t."fence", 0) + 1, (SELECT (extract(epoch FROM $1::timestamptz) * 1000000)::bigint)),
      "attempts" = COALESCE(t."attempts", 0) + 1
    FROM cur
    WHERE t."job_id" = cur.rp_key_0
      AND cur.rp_unmet = 0
    RETURNING t."fence" AS rp_fence, t."attempts" AS rp_attempts, cur.rp_before, NULL::text AS rp_key,
              NULL::bigint AS rp_revision
)
SELECT cur.rp_before, cur.rp_unmet, cur.rp_holder, changed.rp_fence, changed.rp_attempts
FROM cur LEFT JOIN changed ON TRUE

-- claim_one, taken: claim.one
-- claim_one, missing: claim.one
-- claim.one
WITH cur AS MATERIALIZED (
    SELECT t."job_id" AS rp_key_0, t."status"::text AS rp_before, CASE WHEN t."status" IN ('QUEUED', 'RUNNING') THEN 0 ELSE 1 END
         + CASE WHEN (t."claimed_until" IS NULL OR t."claimed_until" <= statement_timestamp() OR (t."claimed_until" > (SELECT statement_timestamp() + make_interval(secs => $1::float8) + make_interval(secs => $1::float8)) AND t."fence" > (SELECT (extract(epoch FROM statement_timestamp()) * 1000000)::bigint))) THEN 0 ELSE 2 END
         + CASE WHEN (t."not_before" IS NULL OR t."not_before" <= statement_timestamp()) THEN 0 ELSE 4 END
         + CASE WHEN COALESCE(t."attempts", 0) < 3 THEN 0 ELSE 8 END AS rp_unmet, t."claimed_by" AS rp_holder
    FROM "jobs" AS t
    WHERE t."job_id" = $2
    FOR NO KEY UPDATE OF t
), changed AS (
    UPDATE "jobs" AS t
    SET "status" = 'RUNNING',
      "claimed_by" = $3,
      "claimed_until" = (SELECT statement_timestamp() + make_interval(secs => $1::float8)),
      "fence" = GREATEST(COALESCE(t."fence", 0) + 1, (SELECT (extract(epoch FROM statement_timestamp()) * 1000000)::bigint)),
      "attempts" = COALESCE(t."attempts", 0) + 1
    FROM cur
    WHERE t."job_id" = cur.rp_key_0
      AND cur.rp_unmet = 0
    RETURNING t."fence" AS rp_fence, t."attempts" AS rp_attempts, cur.rp_before, NULL::text AS rp_key,
              NULL::bigint AS rp_revision
)
SELECT cur.rp_before, cur.rp_unmet, cur.rp_holder, changed.rp_fence, changed.rp_attempts
FROM cur LEFT JOIN changed ON TRUE

-- renew: table.columns, claim.change_many
-- table.columns
SELECT attname::text, format_type(atttypid, atttypmod)
FROM pg_attribute
WHERE attrelid = '"jobs"'::regclass
  AND attnum > 0
  AND NOT attisdropped
ORDER BY attnum

-- claim.change_many
WITH wanted AS (
    SELECT w.*
    FROM unnest($1::text[],
      $2::bigint[]) WITH ORDINALITY AS w (rp_wanted_0, rp_fence_wanted, rp_ord)
), cur AS MATERIALIZED (
    SELECT w.rp_ord, t."job_id" AS rp_key_0, t."status"::text AS rp_before, t."fence" AS rp_fence, t."claimed_by"::text AS rp_holder,
           (t."fence" = w.rp_fence_wanted AND t."status" IN ('RUNNING')) IS TRUE AS rp_mine
    FROM "jobs" AS t
    JOIN wanted AS w ON t."job_id" = w.rp_wanted_0
    ORDER BY t."job_id"
    FOR NO KEY UPDATE OF t
), changed AS (
    UPDATE "jobs" AS t
    SET "claimed_until" = (SELECT statement_timestamp() + make_interval(secs => $3::float8))
    FROM cur
    WHERE t."job_id" = cur.rp_key_0
      AND cur.rp_mine
    RETURNING cur.rp_ord, t."fence" AS rp_fence, NULL::text AS rp_key, cur.rp_before, NULL::bigint AS rp_revision
)
SELECT cur.rp_ord, changed.rp_ord IS NOT NULL, COALESCE(changed.rp_fence, cur.rp_fence), cur.rp_before, cur.rp_holder
FROM cur LEFT JOIN changed ON changed.rp_ord = cur.rp_ord

-- renew at a given time: claim.change_many
-- claim.change_many
WITH wanted AS (
    SELECT w.*
    FROM unnest($1::text[],
      $2::bigint[]) WITH ORDINALITY AS w (rp_wanted_0, rp_fence_wanted, rp_ord)
), cur AS MATERIALIZED (
    SELECT w.rp_ord, t."job_id" AS rp_key_0, t."status"::text AS rp_before, t."fence" AS rp_fence, t."claimed_by"::text AS rp_holder,
           (t."fence" = w.rp_fence_wanted AND t."status" IN ('RUNNING')) IS TRUE AS rp_mine
    FROM "jobs" AS t
    JOIN wanted AS w ON t."job_id" = w.rp_wanted_0
    ORDER BY t."job_id"
    FOR NO KEY UPDATE OF t
), changed AS (
    UPDATE "jobs" AS t
    SET "claimed_until" = (SELECT $3::timestamptz + make_interval(secs => $4::float8))
    FROM cur
    WHERE t."job_id" = cur.rp_key_0
      AND cur.rp_mine
    RETURNING cur.rp_ord, t."fence" AS rp_fence, NULL::text AS rp_key, cur.rp_before, NULL::bigint AS rp_revision
)
SELECT cur.rp_ord, changed.rp_ord IS NOT NULL, COALESCE(changed.rp_fence, cur.rp_fence), cur.rp_before, cur.rp_holder
FROM cur LEFT JOIN changed ON changed.rp_ord = cur.rp_ord

-- release: claim.change_many
-- claim.change_many
WITH wanted AS (
    SELECT w.*
    FROM unnest($1::text[],
      $2::bigint[]) WITH ORDINALITY AS w (rp_wanted_0, rp_fence_wanted, rp_ord)
), cur AS MATERIALIZED (
    SELECT w.rp_ord, t."job_id" AS rp_key_0, t."status"::text AS rp_before, t."fence" AS rp_fence, t."claimed_by"::text AS rp_holder,
           (t."fence" = w.rp_fence_wanted AND t."status" IN ('RUNNING')) IS TRUE AS rp_mine
    FROM "jobs" AS t
    JOIN wanted AS w ON t."job_id" = w.rp_wanted_0
    ORDER BY t."job_id"
    FOR NO KEY UPDATE OF t
), changed AS (
    UPDATE "jobs" AS t
    SET "claimed_by" = NULL,
      "claimed_until" = NULL,
      "fence" = GREATEST(COALESCE(t."fence", 0) + 1, (SELECT (extract(epoch FROM statement_timestamp()) * 1000000)::bigint)),
      "status" = 'QUEUED',
      "attempts" = CASE WHEN t."attempts" > 0 THEN t."attempts" - 1 ELSE 0 END
    FROM cur
    WHERE t."job_id" = cur.rp_key_0
      AND cur.rp_mine
    RETURNING cur.rp_ord, t."fence" AS rp_fence, NULL::text AS rp_key, cur.rp_before, NULL::bigint AS rp_revision
)
SELECT cur.rp_ord, changed.rp_ord IS NOT NULL, COALESCE(changed.rp_fence, cur.rp_fence), cur.rp_before, cur.rp_holder
FROM cur LEFT JOIN changed ON changed.rp_ord = cur.rp_ord

-- release, lost: claim.change_many
-- claim.change_many
WITH wanted AS (
    SELECT w.*
    FROM unnest($1::text[],
      $2::bigint[]) WITH ORDINALITY AS w (rp_wanted_0, rp_fence_wanted, rp_ord)
), cur AS MATERIALIZED (
    SELECT w.rp_ord, t."job_id" AS rp_key_0, t."status"::text AS rp_before, t."fence" AS rp_fence, t."claimed_by"::text AS rp_holder,
           (t."fence" = w.rp_fence_wanted AND t."status" IN ('RUNNING')) IS TRUE AS rp_mine
    FROM "jobs" AS t
    JOIN wanted AS w ON t."job_id" = w.rp_wanted_0
    ORDER BY t."job_id"
    FOR NO KEY UPDATE OF t
), changed AS (
    UPDATE "jobs" AS t
    SET "claimed_by" = NULL,
      "claimed_until" = NULL,
      "fence" = GREATEST(COALESCE(t."fence", 0) + 1, (SELECT (extract(epoch FROM $3::timestamptz) * 1000000)::bigint)),
      "status" = 'QUEUED',
      "attempts" = CASE WHEN t."attempts" > 0 THEN t."attempts" - 1 ELSE 0 END
    FROM cur
    WHERE t."job_id" = cur.rp_key_0
      AND cur.rp_mine
    RETURNING cur.rp_ord, t."fence" AS rp_fence, NULL::text AS rp_key, cur.rp_before, NULL::bigint AS rp_revision
)
SELECT cur.rp_ord, changed.rp_ord IS NOT NULL, COALESCE(changed.rp_fence, cur.rp_fence), cur.rp_before, cur.rp_holder
FROM cur LEFT JOIN changed ON changed.rp_ord = cur.rp_ord

-- fail: claim.change_many
-- claim.change_many
WITH wanted AS (
    SELECT w.*
    FROM unnest($1::text[],
      $2::bigint[],
      $3::float8[]) WITH ORDINALITY AS w (rp_wanted_0, rp_fence_wanted, rp_delay, rp_ord)
), cur AS MATERIALIZED (
    SELECT w.rp_ord, t."job_id" AS rp_key_0, t."status"::text AS rp_before, t."fence" AS rp_fence, t."claimed_by"::text AS rp_holder,
           (t."fence" = w.rp_fence_wanted AND t."status" IN ('RUNNING')) IS TRUE AS rp_mine, w.rp_delay
    FROM "jobs" AS t
    JOIN wanted AS w ON t."job_id" = w.rp_wanted_0
    ORDER BY t."job_id"
    FOR NO KEY UPDATE OF t
), changed AS (
    UPDATE "jobs" AS t
    SET "claimed_by" = NULL,
      "claimed_until" = NULL,
      "fence" = GREATEST(COALESCE(t."fence", 0) + 1, (SELECT (extract(epoch FROM statement_timestamp()) * 1000000)::bigint)),
      "status" = 'QUEUED',
      "not_before" = statement_timestamp() + make_interval(secs => cur.rp_delay::float8)
    FROM cur
    WHERE t."job_id" = cur.rp_key_0
      AND cur.rp_mine
    RETURNING cur.rp_ord, t."fence" AS rp_fence, NULL::text AS rp_key, cur.rp_before, NULL::bigint AS rp_revision
)
SELECT cur.rp_ord, changed.rp_ord IS NOT NULL, COALESCE(changed.rp_fence, cur.rp_fence), cur.rp_before, cur.rp_holder
FROM cur LEFT JOIN changed ON changed.rp_ord = cur.rp_ord

-- fail at a given time: claim.change_many
-- claim.change_many
WITH wanted AS (
    SELECT w.*
    FROM unnest($1::text[],
      $2::bigint[],
      $3::float8[]) WITH ORDINALITY AS w (rp_wanted_0, rp_fence_wanted, rp_delay, rp_ord)
), cur AS MATERIALIZED (
    SELECT w.rp_ord, t."job_id" AS rp_key_0, t."status"::text AS rp_before, t."fence" AS rp_fence, t."claimed_by"::text AS rp_holder,
           (t."fence" = w.rp_fence_wanted AND t."status" IN ('RUNNING')) IS TRUE AS rp_mine, w.rp_delay
    FROM "jobs" AS t
    JOIN wanted AS w ON t."job_id" = w.rp_wanted_0
    ORDER BY t."job_id"
    FOR NO KEY UPDATE OF t
), changed AS (
    UPDATE "jobs" AS t
    SET "claimed_by" = NULL,
      "claimed_until" = NULL,
      "fence" = GREATEST(COALESCE(t."fence", 0) + 1, (SELECT (extract(epoch FROM $4::timestamptz) * 1000000)::bigint)),
      "status" = 'QUEUED',
      "not_before" = $4::timestamptz + make_interval(secs => cur.rp_delay::float8)
    FROM cur
    WHERE t."job_id" = cur.rp_key_0
      AND cur.rp_mine
    RETURNING cur.rp_ord, t."fence" AS rp_fence, NULL::text AS rp_key, cur.rp_before, NULL::bigint AS rp_revision
)
SELECT cur.rp_ord, changed.rp_ord IS NOT NULL, COALESCE(changed.rp_fence, cur.rp_fence), cur.rp_before, cur.rp_holder
FROM cur LEFT JOIN changed ON changed.rp_ord = cur.rp_ord

-- finish: move.fast without history
-- move.fast without history
UPDATE "jobs" AS t
SET "status" = 'DONE',
      "claimed_by" = NULL,
      "claimed_until" = NULL,
      "result" = $1
WHERE t."job_id" = $2
  AND t."status" IN ('RUNNING')
  AND t."fence" = $3
RETURNING 'RUNNING', NULL::bigint

-- finish, again: move.fast without history, move.one
-- move.one
WITH cur AS MATERIALIZED (
    SELECT t."job_id" AS rp_key_0,
           t."status"::text AS rp_before,
           NULL::bigint AS rp_revision,
           t."fence" AS rp_fence,
           NULL::text AS rp_key,
           CASE WHEN t."fence" = $1 THEN 0 ELSE 1 END AS rp_unmet
    FROM "jobs" AS t
    WHERE t."job_id" = $2
    FOR NO KEY UPDATE
), changed AS (
    UPDATE "jobs" AS t
    SET "status" = 'DONE',
      "claimed_by" = NULL,
      "claimed_until" = NULL,
      "result" = $3
    FROM cur
    WHERE t."job_id" = cur.rp_key_0
      AND cur.rp_before IN ('RUNNING')
      AND cur.rp_unmet = 0
    RETURNING TRUE AS rp_won, NULL::bigint AS rp_revision
)
SELECT cur.rp_before, cur.rp_revision, cur.rp_fence, cur.rp_unmet, cur.rp_key,
       changed.rp_won, changed.rp_revision
FROM cur LEFT JOIN changed ON TRUE

-- finish many of several claims: move.fast_many
-- move.fast_many
WITH changed AS (
    UPDATE "jobs" AS t
    SET "status" = 'DONE',
      "claimed_by" = NULL,
      "claimed_until" = NULL
    FROM unnest($1::text[],
      $2::bigint[]) WITH ORDINALITY AS w (rp_wanted_0, rp_fence_wanted, rp_ord)
    WHERE t."job_id" = w.rp_wanted_0
      AND t."status" IN ('RUNNING')
      AND t."fence" = w.rp_fence_wanted
    RETURNING w.rp_ord, 'RUNNING' AS rp_before, NULL::bigint AS rp_revision, NULL::text AS rp_key
)
SELECT array_agg(rp_ord), NULL, NULL
FROM changed

-- finish many of one claim: move.fast_same
-- move.fast_same
WITH wanted AS (
    SELECT $1::text[] AS rp_keys
), changed AS (
    UPDATE "jobs" AS t
    SET "status" = 'DONE',
      "claimed_by" = NULL,
      "claimed_until" = NULL
    WHERE t."job_id" = ANY ((SELECT rp_keys FROM wanted)::text[])
      AND t."status" IN ('RUNNING')
      AND t."fence" = $2
    RETURNING t."job_id" AS rp_key
), told AS (
    SELECT array_agg(rp_key) AS rp_moved
    FROM changed
)
SELECT CASE
    WHEN cardinality(rp_moved) = cardinality(rp_keys) THEN NULL
    ELSE ARRAY (SELECT array_position(rp_keys, rp_key) FROM unnest(rp_moved) AS rp_key)
END
FROM told, wanted

-- finish many with columns: move.fast_many
-- move.fast_many
WITH changed AS (
    UPDATE "jobs" AS t
    SET "status" = 'DONE',
      "claimed_by" = NULL,
      "claimed_until" = NULL,
      "result" = w.rp_set_0
    FROM unnest($1::text[],
      $2::text[],
      $3::bigint[]) WITH ORDINALITY AS w (rp_wanted_0, rp_set_0, rp_fence_wanted, rp_ord)
    WHERE t."job_id" = w.rp_wanted_0
      AND t."status" IN ('RUNNING')
      AND t."fence" = w.rp_fence_wanted
    RETURNING w.rp_ord, 'RUNNING' AS rp_before, NULL::bigint AS rp_revision, NULL::text AS rp_key
)
SELECT array_agg(rp_ord), NULL, NULL
FROM changed

-- claim, with rows out of attempts: claim.acquire, claim.dead_letter
-- claim.dead_letter
WITH cur AS MATERIALIZED (
    SELECT t."job_id" AS rp_key_0, t."status"::text AS rp_before
    FROM "jobs" AS t
    WHERE t."status" IN ('QUEUED', 'RUNNING')
      AND (t."claimed_until" IS NULL OR t."claimed_until" <= $1::timestamptz OR (t."claimed_until" > (SELECT $1::timestamptz + make_interval(secs => $2::float8) + make_interval(secs => $2::float8)) AND t."fence" > (SELECT (extract(epoch FROM $1::timestamptz) * 1000000)::bigint)))
      AND (t."not_before" IS NULL OR t."not_before" <= $1::timestamptz)
      AND COALESCE(t."attempts", 0) >= 3
    ORDER BY t."made_at"
    LIMIT $3
    FOR NO KEY UPDATE OF t SKIP LOCKED
), changed AS (
    UPDATE "jobs" AS t
    SET "status" = 'DEAD',
      "claimed_by" = NULL,
      "claimed_until" = NULL
    FROM cur
    WHERE t."job_id" = cur.rp_key_0
      AND (t."claimed_until" IS NULL OR t."claimed_until" <= $1::timestamptz OR (t."claimed_until" > (SELECT $1::timestamptz + make_interval(secs => $2::float8) + make_interval(secs => $2::float8)) AND t."fence" > (SELECT (extract(epoch FROM $1::timestamptz) * 1000000)::bigint)))
    RETURNING t."attempts" AS rp_attempts, cur.rp_before, NULL::text AS rp_key, NULL::bigint AS rp_revision, t."job_id" AS rp_key_0
)
SELECT rp_attempts, rp_key_0
FROM changed

-- move of a row by key: move.fast without history
-- move.fast without history
UPDATE "jobs" AS t
SET "status" = 'DONE',
      "claimed_by" = NULL,
      "claimed_until" = NULL,
      "fence" = GREATEST(COALESCE(t."fence", 0) + 1, (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint))
WHERE t."job_id" = $1
  AND t."status" IN ('RUNNING')
RETURNING 'RUNNING', NULL::bigint, CAST(old."claimed_by" AS text) AS rp_fenced_off

-- move of a row by key that ends its claim: move.fast without history
-- move.fast without history
UPDATE "jobs" AS t
SET "status" = 'DEAD',
      "claimed_by" = NULL,
      "claimed_until" = NULL,
      "fence" = GREATEST(COALESCE(t."fence", 0) + 1, (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint))
WHERE t."job_id" = $1
  AND t."status" IN ('QUEUED', 'RUNNING')
RETURNING old."status"::text, NULL::bigint, CAST(old."claimed_by" AS text) AS rp_fenced_off, t."result"

-- move_many of rows by key: move.many
-- move.many
WITH wanted AS (
    SELECT w.*
    FROM unnest($1::text[]) WITH ORDINALITY AS w (rp_wanted_0, rp_ord)
), cur AS MATERIALIZED (
    SELECT w.*,
           t."job_id" AS rp_key_0,
           t."status"::text AS rp_before,
           NULL::bigint AS rp_revision,
           NULL::bigint AS rp_fence,
           NULL::text AS rp_key,
           0 AS rp_unmet,
           CAST(t."claimed_by" AS text) AS rp_fenced_off
    FROM "jobs" AS t
    JOIN wanted AS w ON t."job_id" = w.rp_wanted_0
    ORDER BY t."job_id"
    FOR NO KEY UPDATE OF t
), changed AS (
    UPDATE "jobs" AS t
    SET "status" = 'DEAD',
      "claimed_by" = NULL,
      "claimed_until" = NULL,
      "fence" = GREATEST(COALESCE(t."fence", 0) + 1, (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint))
    FROM cur
    WHERE t."job_id" = cur.rp_key_0
      AND cur.rp_before IN ('QUEUED', 'RUNNING')
      AND cur.rp_unmet = 0
    RETURNING TRUE AS rp_won, cur.rp_ord, NULL::bigint AS rp_revision
)
SELECT cur.rp_ord, cur.rp_before, cur.rp_revision, cur.rp_fence, cur.rp_unmet, cur.rp_key,
       changed.rp_won, changed.rp_revision, cur.rp_fenced_off
FROM cur LEFT JOIN changed ON changed.rp_ord = cur.rp_ord

-- claims: claim.list
-- claim.list
SELECT t."claimed_until" AS rp_until, t."claimed_until" <= statement_timestamp() AS rp_stale, t."status"::text, t."claimed_by", t."fence", t."attempts", t."job_id"
FROM "jobs" AS t
WHERE t."status" IN ('QUEUED', 'RUNNING')
  AND t."claimed_until" IS NOT NULL
ORDER BY rp_until
LIMIT $1

-- add_waiting: claim.add
-- claim.add
INSERT INTO "jobs" ("job_id", "status")
VALUES ($1, 'QUEUED')
ON CONFLICT DO NOTHING
