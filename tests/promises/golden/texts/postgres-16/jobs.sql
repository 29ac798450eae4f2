-- offer: claim.offer
-- claim: table.kind, claim.acquire
-- claim.acquire
WITH cur AS MATERIALIZED (
    SELECT t."job_id" AS rp_key_0, t."status"::text AS rp_before
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
    FROM cur
    WHERE t."job_id" = cur.rp_key_0
      AND (t."claimed_until" IS NULL OR t."claimed_until" <= $1::timestamptz OR (t."claimed_until" > (SELECT $1::timestamptz + make_interval(secs => $2::float8) + make_interval(secs => $2::float8)) AND t."fence" > (SELECT (extract(epoch FROM $1::timestamptz) * 1000000)::bigint)))
    RETURNING t."fence" AS rp_fence, t."attempts" AS rp_attempts, cur.rp_before, NULL::text AS rp_key,
              NULL::bigint AS rp_revision, t."job_id" AS rp_key_0, t."made_at" AS rp_order_0
)
SELECT rp_fence, rp_attempts, rp_before, rp_key_0
FROM changed
ORDER BY rp_order_0

-- claim by the store's clock, returning: claim.acquire
-- claim.acquire
WITH cur AS MATERIALIZED (
    SELECT t."job_id" AS rp_key_0, t."status"::text AS rp_before
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
    FROM cur
    WHERE t."job_id" = cur.rp_key_0
      AND (t."claimed_until" IS NULL OR t."claimed_until" <= statement_timestamp() OR (t."claimed_until" > (SELECT statement_timestamp() + make_interval(secs => $1::float8) + make_interval(secs => $1::float8)) AND t."fence" > (SELECT (extract(epoch FROM statement_timestamp()) * 1000000)::bigint)))
    RETURNING t."fence" AS rp_fence, t."attempts" AS rp_attempts, cur.rp_before, NULL::text AS rp_key,
              NULL::bigint AS rp_revision, t."job_id" AS rp_key_0, t."made_at" AS rp_order_0, t."made_at"
)
SELECT rp_fence, rp_attempts, rp_before, rp_key_0, changed."made_at"
FROM changed
ORDER BY rp_order_0

-- claim with a guard and another lease: claim.acquire
-- claim.acquire
WITH cur AS MATERIALIZED (
    SELECT t."job_id" AS rp_key_0, t."status"::text AS rp_before
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
    FROM cur
    WHERE t."job_id" = cur.rp_key_0
      AND (t."claimed_until" IS NULL OR t."claimed_until" <= statement_timestamp() OR (t."claimed_until" > (SELECT statement_timestamp() + make_interval(secs => $1::float8) + make_interval(secs => $1::float8)) AND t."fence" > (SELECT (extract(epoch FROM statement_timestamp()) * 1000000)::bigint)))
    RETURNING t."fence" AS rp_fence, t."attempts" AS rp_attempts, cur.rp_before, NULL::text AS rp_key,
              NULL::bigint AS rp_revision, t."job_id" AS rp_key_0, t."made_at" AS rp_order_0
)
SELECT rp_fence, rp_attempts, rp_before, rp_key_0
FROM changed
ORDER BY rp_order_0

-- claim_one, won: claim.one
-- claim_one, taken: claim.one
-- claim_one, missing: claim.one
-- renew: table.columns, claim.change_many
-- renew at a given time: claim.change_many
-- release: claim.change_many
-- release, lost: claim.change_many
-- fail: claim.change_many
-- fail at a given time: claim.change_many
-- finish: move.fast without history
-- finish, again: move.fast without history, move.one
-- finish many of several claims: move.fast_many
-- finish many of one claim: move.fast_same
-- finish many with columns: move.fast_many
-- claim, with rows out of attempts: claim.acquire, claim.dead_letter
-- move of a row by key: move.one
-- move.one
WITH cur AS MATERIALIZED (
    SELECT t."job_id" AS rp_key_0,
           t."status"::text AS rp_before,
           NULL::bigint AS rp_revision,
           NULL::bigint AS rp_fence,
           NULL::text AS rp_key,
           0 AS rp_unmet,
           CAST(t."claimed_by" AS text) AS rp_fenced_off
    FROM "jobs" AS t
    WHERE t."job_id" = $1
    FOR NO KEY UPDATE
), changed AS (
    UPDATE "jobs" AS t
    SET "status" = 'DONE',
      "claimed_by" = NULL,
      "claimed_until" = NULL,
      "fence" = GREATEST(COALESCE(t."fence", 0) + 1, (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint))
    FROM cur
    WHERE t."job_id" = cur.rp_key_0
      AND cur.rp_before IN ('RUNNING')
      AND cur.rp_unmet = 0
    RETURNING TRUE AS rp_won, NULL::bigint AS rp_revision
)
SELECT cur.rp_before, cur.rp_revision, cur.rp_fence, cur.rp_unmet, cur.rp_key,
       changed.rp_won, changed.rp_revision, cur.rp_fenced_off
FROM cur LEFT JOIN changed ON TRUE

-- move of a row by key that ends its claim: move.one
-- move.one
WITH cur AS MATERIALIZED (
    SELECT t."job_id" AS rp_key_0,
           t."status"::text AS rp_before,
           NULL::bigint AS rp_revision,
           NULL::bigint AS rp_fence,
           NULL::text AS rp_key,
           0 AS rp_unmet,
           CAST(t."claimed_by" AS text) AS rp_fenced_off
    FROM "jobs" AS t
    WHERE t."job_id" = $1
    FOR NO KEY UPDATE
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
    RETURNING TRUE AS rp_won, NULL::bigint AS rp_revision, t."result"
)
SELECT cur.rp_before, cur.rp_revision, cur.rp_fence, cur.rp_unmet, cur.rp_key,
       changed.rp_won, changed.rp_revision, cur.rp_fenced_off, changed."result"
FROM cur LEFT JOIN changed ON TRUE

-- move_many of rows by key: move.many
-- claims: claim.list
-- add_waiting: claim.add
