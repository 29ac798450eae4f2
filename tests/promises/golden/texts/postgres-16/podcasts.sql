-- claim send: table.kind, claim.acquire
-- claim.acquire
WITH cur AS MATERIALIZED (
    SELECT t."id" AS rp_key_0, t."status"::text AS rp_before
    FROM "podcasts" AS t
    WHERE t."status" IN ('NEW', 'BUSY')
      AND (t."sending_at" + make_interval(secs => $1::float8) IS NULL OR t."sending_at" + make_interval(secs => $1::float8) <= $2::timestamptz OR t."sending_at" + make_interval(secs => $1::float8) > (SELECT $2::timestamptz + make_interval(secs => $1::float8) + make_interval(secs => $1::float8)))
      AND COALESCE(t."tries", 0) < 5
    ORDER BY t."id"
    LIMIT $3
    FOR NO KEY UPDATE OF t SKIP LOCKED
), changed AS (
    UPDATE "podcasts" AS t
    SET "status" = 'BUSY',
      "sending_at" = CASE WHEN t."sending_at" + make_interval(secs => $1::float8) > (SELECT $2::timestamptz + make_interval(secs => $1::float8) + make_interval(secs => $1::float8)) THEN $2::timestamptz ELSE GREATEST($2::timestamptz, t."sending_at" + INTERVAL '1 microsecond') END,
      "tries" = COALESCE(t."tries", 0) + 1
    FROM cur
    WHERE t."id" = cur.rp_key_0
      AND (t."sending_at" + make_interval(secs => $1::float8) IS NULL OR t."sending_at" + make_interval(secs => $1::float8) <= $2::timestamptz OR t."sending_at" + make_interval(secs => $1::float8) > (SELECT $2::timestamptz + make_interval(secs => $1::float8) + make_interval(secs => $1::float8)))
    RETURNING t."sending_at" AS rp_fence, t."tries" AS rp_attempts, cur.rp_before, NULL::text AS rp_key,
              NULL::bigint AS rp_revision, t."id" AS rp_key_0, t."id" AS rp_order_0
)
SELECT rp_fence, rp_attempts, rp_before, rp_key_0
FROM changed
ORDER BY rp_order_0

-- claim send by the store's clock: claim.acquire
-- claim.acquire
WITH cur AS MATERIALIZED (
    SELECT t."id" AS rp_key_0, t."status"::text AS rp_before
    FROM "podcasts" AS t
    WHERE t."status" IN ('NEW', 'BUSY')
      AND (t."sending_at" + make_interval(secs => $1::float8) IS NULL OR t."sending_at" + make_interval(secs => $1::float8) <= statement_timestamp() OR t."sending_at" + make_interval(secs => $1::float8) > (SELECT statement_timestamp() + make_interval(secs => $1::float8) + make_interval(secs => $1::float8)))
      AND COALESCE(t."tries", 0) < 5
    ORDER BY t."id"
    LIMIT $2
    FOR NO KEY UPDATE OF t SKIP LOCKED
), changed AS (
    UPDATE "podcasts" AS t
    SET "status" = 'BUSY',
      "sending_at" = CASE WHEN t."sending_at" + make_interval(secs => $1::float8) > (SELECT statement_timestamp() + make_interval(secs => $1::float8) + make_interval(secs => $1::float8)) THEN statement_timestamp() ELSE GREATEST(statement_timestamp(), t."sending_at" + INTERVAL '1 microsecond') END,
      "tries" = COALESCE(t."tries", 0) + 1
    FROM cur
    WHERE t."id" = cur.rp_key_0
      AND (t."sending_at" + make_interval(secs => $1::float8) IS NULL OR t."sending_at" + make_interval(secs => $1::float8) <= statement_timestamp() OR t."sending_at" + make_interval(secs => $1::float8) > (SELECT statement_timestamp() + make_interval(secs => $1::float8) + make_interval(secs => $1::float8)))
    RETURNING t."sending_at" AS rp_fence, t."tries" AS rp_attempts, cur.rp_before, NULL::text AS rp_key,
              NULL::bigint AS rp_revision, t."id" AS rp_key_0, t."id" AS rp_order_0
)
SELECT rp_fence, rp_attempts, rp_before, rp_key_0
FROM changed
ORDER BY rp_order_0

-- claim_one send: claim.one
-- renew send: table.columns, claim.change_many
-- fail send: claim.change_many
-- release send: claim.change_many
-- ready, held by send: move.one
-- claim describe: claim.acquire
-- claim.acquire
WITH cur AS MATERIALIZED (
    SELECT t."id" AS rp_key_0, t."status"::text AS rp_before
    FROM "podcasts" AS t
    WHERE t."status" IN ('NEW', 'BUSY')
      AND (to_timestamp(substring(t."ai_error" FROM '^PROCESSING:[^:]+:[^:]+:([0-9]{1,12}([.][0-9]{1,9})?)$')::float8) + make_interval(secs => $1::float8) IS NULL OR to_timestamp(substring(t."ai_error" FROM '^PROCESSING:[^:]+:[^:]+:([0-9]{1,12}([.][0-9]{1,9})?)$')::float8) + make_interval(secs => $1::float8) <= $2::timestamptz OR to_timestamp(substring(t."ai_error" FROM '^PROCESSING:[^:]+:[^:]+:([0-9]{1,12}([.][0-9]{1,9})?)$')::float8) + make_interval(secs => $1::float8) > (SELECT $2::timestamptz + make_interval(secs => $1::float8) + make_interval(secs => $1::float8)))
    ORDER BY t."id"
    LIMIT $3
    FOR NO KEY UPDATE OF t SKIP LOCKED
), changed AS (
    UPDATE "podcasts" AS t
    SET "status" = 'BUSY',
      "ai_error" = 'PROCESSING:AI_DESC:' || $4 || ':' || extract(epoch FROM $2::timestamptz)::numeric(20, 6)::text
    FROM cur
    WHERE t."id" = cur.rp_key_0
      AND (to_timestamp(substring(t."ai_error" FROM '^PROCESSING:[^:]+:[^:]+:([0-9]{1,12}([.][0-9]{1,9})?)$')::float8) + make_interval(secs => $1::float8) IS NULL OR to_timestamp(substring(t."ai_error" FROM '^PROCESSING:[^:]+:[^:]+:([0-9]{1,12}([.][0-9]{1,9})?)$')::float8) + make_interval(secs => $1::float8) <= $2::timestamptz OR to_timestamp(substring(t."ai_error" FROM '^PROCESSING:[^:]+:[^:]+:([0-9]{1,12}([.][0-9]{1,9})?)$')::float8) + make_interval(secs => $1::float8) > (SELECT $2::timestamptz + make_interval(secs => $1::float8) + make_interval(secs => $1::float8)))
    RETURNING t."ai_error" AS rp_fence, NULL AS rp_attempts, cur.rp_before, NULL::text AS rp_key,
              NULL::bigint AS rp_revision, t."id" AS rp_key_0, t."id" AS rp_order_0
)
SELECT rp_fence, rp_attempts, rp_before, rp_key_0
FROM changed
ORDER BY rp_order_0

-- claim describe by the store's clock: claim.acquire
-- claim.acquire
WITH cur AS MATERIALIZED (
    SELECT t."id" AS rp_key_0, t."status"::text AS rp_before
    FROM "podcasts" AS t
    WHERE t."status" IN ('NEW', 'BUSY')
      AND (to_timestamp(substring(t."ai_error" FROM '^PROCESSING:[^:]+:[^:]+:([0-9]{1,12}([.][0-9]{1,9})?)$')::float8) + make_interval(secs => $1::float8) IS NULL OR to_timestamp(substring(t."ai_error" FROM '^PROCESSING:[^:]+:[^:]+:([0-9]{1,12}([.][0-9]{1,9})?)$')::float8) + make_interval(secs => $1::float8) <= statement_timestamp() OR to_timestamp(substring(t."ai_error" FROM '^PROCESSING:[^:]+:[^:]+:([0-9]{1,12}([.][0-9]{1,9})?)$')::float8) + make_interval(secs => $1::float8) > (SELECT statement_timestamp() + make_interval(secs => $1::float8) + make_interval(secs => $1::float8)))
    ORDER BY t."id"
    LIMIT $2
    FOR NO KEY UPDATE OF t SKIP LOCKED
), changed AS (
    UPDATE "podcasts" AS t
    SET "status" = 'BUSY',
      "ai_error" = 'PROCESSING:AI_DESC:' || $3 || ':' || extract(epoch FROM statement_timestamp())::numeric(20, 6)::text
    FROM cur
    WHERE t."id" = cur.rp_key_0
      AND (to_timestamp(substring(t."ai_error" FROM '^PROCESSING:[^:]+:[^:]+:([0-9]{1,12}([.][0-9]{1,9})?)$')::float8) + make_interval(secs => $1::float8) IS NULL OR to_timestamp(substring(t."ai_error" FROM '^PROCESSING:[^:]+:[^:]+:([0-9]{1,12}([.][0-9]{1,9})?)$')::float8) + make_interval(secs => $1::float8) <= statement_timestamp() OR to_timestamp(substring(t."ai_error" FROM '^PROCESSING:[^:]+:[^:]+:([0-9]{1,12}([.][0-9]{1,9})?)$')::float8) + make_interval(secs => $1::float8) > (SELECT statement_timestamp() + make_interval(secs => $1::float8) + make_interval(secs => $1::float8)))
    RETURNING t."ai_error" AS rp_fence, NULL AS rp_attempts, cur.rp_before, NULL::text AS rp_key,
              NULL::bigint AS rp_revision, t."id" AS rp_key_0, t."id" AS rp_order_0
)
SELECT rp_fence, rp_attempts, rp_before, rp_key_0
FROM changed
ORDER BY rp_order_0

-- claim_one describe: claim.one
-- renew describe: claim.change_many
-- fail describe: claim.change_many
-- release describe: claim.change_many
-- ready, held by describe: move.one
-- claim vet: claim.acquire
-- claim.acquire
WITH cur AS MATERIALIZED (
    SELECT t."id" AS rp_key_0, t."status"::text AS rp_before
    FROM "podcasts" AS t
    WHERE t."status" IN ('NEW')
      AND (t."vetted_until" IS NULL OR t."vetted_until" <= $1::timestamptz OR (t."vetted_until" > (SELECT $1::timestamptz + make_interval(secs => $2::float8) + make_interval(secs => $2::float8)) AND t."vet_fence" > (SELECT (extract(epoch FROM $1::timestamptz) * 1000000)::bigint)))
    ORDER BY t."id"
    LIMIT $3
    FOR NO KEY UPDATE OF t SKIP LOCKED
), changed AS (
    UPDATE "podcasts" AS t
    SET "vetted_by" = $4,
      "vetted_until" = (SELECT $1::timestamptz + make_interval(secs => $2::float8)),
      "vet_fence" = GREATEST(COALESCE(t."vet_fence", 0) + 1, (SELECT (extract(epoch FROM $1::timestamptz) * 1000000)::bigint))
    FROM cur
    WHERE t."id" = cur.rp_key_0
      AND (t."vetted_until" IS NULL OR t."vetted_until" <= $1::timestamptz OR (t."vetted_until" > (SELECT $1::timestamptz + make_interval(secs => $2::float8) + make_interval(secs => $2::float8)) AND t."vet_fence" > (SELECT (extract(epoch FROM $1::timestamptz) * 1000000)::bigint)))
    RETURNING t."vet_fence" AS rp_fence, NULL AS rp_attempts, cur.rp_before, NULL::text AS rp_key,
              NULL::bigint AS rp_revision, t."id" AS rp_key_0, t."id" AS rp_order_0
)
SELECT rp_fence, rp_attempts, rp_before, rp_key_0
FROM changed
ORDER BY rp_order_0

-- claim vet by the store's clock: claim.acquire
-- claim.acquire
WITH cur AS MATERIALIZED (
    SELECT t."id" AS rp_key_0, t."status"::text AS rp_before
    FROM "podcasts" AS t
    WHERE t."status" IN ('NEW')
      AND (t."vetted_until" IS NULL OR t."vetted_until" <= statement_timestamp() OR (t."vetted_until" > (SELECT statement_timestamp() + make_interval(secs => $1::float8) + make_interval(secs => $1::float8)) AND t."vet_fence" > (SELECT (extract(epoch FROM statement_timestamp()) * 1000000)::bigint)))
    ORDER BY t."id"
    LIMIT $2
    FOR NO KEY UPDATE OF t SKIP LOCKED
), changed AS (
    UPDATE "podcasts" AS t
    SET "vetted_by" = $3,
      "vetted_until" = (SELECT statement_timestamp() + make_interval(secs => $1::float8)),
      "vet_fence" = GREATEST(COALESCE(t."vet_fence", 0) + 1, (SELECT (extract(epoch FROM statement_timestamp()) * 1000000)::bigint))
    FROM cur
    WHERE t."id" = cur.rp_key_0
      AND (t."vetted_until" IS NULL OR t."vetted_until" <= statement_timestamp() OR (t."vetted_until" > (SELECT statement_timestamp() + make_interval(secs => $1::float8) + make_interval(secs => $1::float8)) AND t."vet_fence" > (SELECT (extract(epoch FROM statement_timestamp()) * 1000000)::bigint)))
    RETURNING t."vet_fence" AS rp_fence, NULL AS rp_attempts, cur.rp_before, NULL::text AS rp_key,
              NULL::bigint AS rp_revision, t."id" AS rp_key_0, t."id" AS rp_order_0
)
SELECT rp_fence, rp_attempts, rp_before, rp_key_0
FROM changed
ORDER BY rp_order_0

-- claim_one vet: claim.one
-- renew vet: claim.change_many
-- fail vet: claim.change_many
-- release vet: claim.change_many
-- ready, held by vet: move.one
-- ready by key: move.one
-- move.one
WITH cur AS MATERIALIZED (
    SELECT t."id" AS rp_key_0,
           t."status"::text AS rp_before,
           NULL::bigint AS rp_revision,
           NULL::bigint AS rp_fence,
           NULL::text AS rp_key,
           0 AS rp_unmet,
           COALESCE(CAST(t."sending_at" AS text), CASE WHEN substr(t."ai_error", 1, 19) = 'PROCESSING:AI_DESC:' THEN t."ai_error" END, CAST(t."vetted_by" AS text)) AS rp_fenced_off
    FROM "podcasts" AS t
    WHERE t."id" = $1
    FOR NO KEY UPDATE
), changed AS (
    UPDATE "podcasts" AS t
    SET "status" = 'READY',
      "sending_at" = NULL,
      "ai_error" = CASE WHEN substr(t."ai_error", 1, 19) = 'PROCESSING:AI_DESC:' THEN NULL ELSE t."ai_error" END,
      "vetted_by" = NULL,
      "vetted_until" = NULL,
      "vet_fence" = GREATEST(COALESCE(t."vet_fence", 0) + 1, (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)),
      "summary" = $2
    FROM cur
    WHERE t."id" = cur.rp_key_0
      AND cur.rp_before IN ('BUSY', 'NEW')
      AND cur.rp_unmet = 0
    RETURNING TRUE AS rp_won, NULL::bigint AS rp_revision
)
SELECT cur.rp_before, cur.rp_revision, cur.rp_fence, cur.rp_unmet, cur.rp_key,
       changed.rp_won, changed.rp_revision, cur.rp_fenced_off
FROM cur LEFT JOIN changed ON TRUE

-- ready many by key: move.many
-- claims of a marker: claim.list
