-- claim send: table.kind, claim.acquire
-- table.kind
SELECT relkind = 'p' OR relhassubclass OR relkind NOT IN ('r', 'p'), reltuples >= 1000
FROM pg_class
WHERE oid = '"podcasts"'::regclass

-- claim.acquire
WITH cur AS MATERIALIZED (
    SELECT t.ctid AS rp_place
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
    WHERE t.ctid = ANY (ARRAY(SELECT rp_place FROM cur))
      AND (t."sending_at" + make_interval(secs => $1::float8) IS NULL OR t."sending_at" + make_interval(secs => $1::float8) <= $2::timestamptz OR t."sending_at" + make_interval(secs => $1::float8) > (SELECT $2::timestamptz + make_interval(secs => $1::float8) + make_interval(secs => $1::float8)))
    RETURNING t."sending_at" AS rp_fence, t."tries" AS rp_attempts, old."status"::text AS rp_before, NULL::text AS rp_key,
              NULL::bigint AS rp_revision, t."id" AS rp_key_0, t."id" AS rp_order_0
)
SELECT rp_fence, rp_attempts, rp_before, rp_key_0
FROM changed
ORDER BY rp_order_0

-- claim send by the store's clock: claim.acquire
-- claim.acquire
WITH cur AS MATERIALIZED (
    SELECT t.ctid AS rp_place
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
    WHERE t.ctid = ANY (ARRAY(SELECT rp_place FROM cur))
      AND (t."sending_at" + make_interval(secs => $1::float8) IS NULL OR t."sending_at" + make_interval(secs => $1::float8) <= statement_timestamp() OR t."sending_at" + make_interval(secs => $1::float8) > (SELECT statement_timestamp() + make_interval(secs => $1::float8) + make_interval(secs => $1::float8)))
    RETURNING t."sending_at" AS rp_fence, t."tries" AS rp_attempts, old."status"::text AS rp_before, NULL::text AS rp_key,
              NULL::bigint AS rp_revision, t."id" AS rp_key_0, t."id" AS rp_order_0
)
SELECT rp_fence, rp_attempts, rp_before, rp_key_0
FROM changed
ORDER BY rp_order_0

-- claim_one send: claim.one
-- claim.one
WITH cur AS MATERIALIZED (
    SELECT t."id" AS rp_key_0, t."status"::text AS rp_before, CASE WHEN t."status" IN ('NEW', 'BUSY') THEN 0 ELSE 1 END
         + CASE WHEN (t."sending_at" + make_interval(secs => $1::float8) IS NULL OR t."sending_at" + make_interval(secs => $1::float8) <= $2::timestamptz OR t."sending_at" + make_interval(secs => $1::float8) > (SELECT $2::timestamptz + make_interval(secs => $1::float8) + make_interval(secs => $1::float8))) THEN 0 ELSE 2 END
         + CASE WHEN COALESCE(t."tries", 0) < 5 THEN 0 ELSE 8 END AS rp_unmet, NULL AS rp_holder
    FROM "podcasts" AS t
    WHERE t."id" = $3
    FOR NO KEY UPDATE OF t
), changed AS (
    UPDATE "podcasts" AS t
    SET "status" = 'BUSY',
      "sending_at" = CASE WHEN t."sending_at" + make_interval(secs => $1::float8) > (SELECT $2::timestamptz + make_interval(secs => $1::float8) + make_interval(secs => $1::float8)) THEN $2::timestamptz ELSE GREATEST($2::timestamptz, t."sending_at" + INTERVAL '1 microsecond') END,
      "tries" = COALESCE(t."tries", 0) + 1
    FROM cur
    WHERE t."id" = cur.rp_key_0
      AND cur.rp_unmet = 0
    RETURNING t."sending_at" AS rp_fence, t."tries" AS rp_attempts, cur.rp_before, NULL::text AS rp_key,
              NULL::bigint AS rp_revision
)
SELECT cur.rp_before, cur.rp_unmet, cur.rp_holder, changed.rp_fence, changed.rp_attempts
FROM cur LEFT JOIN changed ON TRUE

-- renew send: table.columns, claim.change_many
-- table.columns
SELECT attname::text, format_type(atttypid, atttypmod)
FROM pg_attribute
WHERE attrelid = '"podcasts"'::regclass
  AND attnum > 0
  AND NOT attisdropped
ORDER BY attnum

-- claim.change_many
WITH wanted AS (
    SELECT w.*
    FROM unnest($1::bigint[],
      $2::timestamp with time zone[]) WITH ORDINALITY AS w (rp_wanted_0, rp_fence_wanted, rp_ord)
), cur AS MATERIALIZED (
    SELECT w.rp_ord, t."id" AS rp_key_0, t."status"::text AS rp_before, t."sending_at" AS rp_fence, NULL::text AS rp_holder,
           (t."sending_at" = w.rp_fence_wanted AND t."status" IN ('BUSY')) IS TRUE AS rp_mine
    FROM "podcasts" AS t
    JOIN wanted AS w ON t."id" = w.rp_wanted_0
    ORDER BY t."id"
    FOR NO KEY UPDATE OF t
), changed AS (
    UPDATE "podcasts" AS t
    SET "sending_at" = CASE WHEN t."sending_at" + make_interval(secs => $3::float8) > (SELECT $4::timestamptz + make_interval(secs => $3::float8) + make_interval(secs => $3::float8)) THEN $4::timestamptz ELSE GREATEST($4::timestamptz, t."sending_at" + INTERVAL '1 microsecond') END
    FROM cur
    WHERE t."id" = cur.rp_key_0
      AND cur.rp_mine
    RETURNING cur.rp_ord, t."sending_at" AS rp_fence, NULL::text AS rp_key, cur.rp_before, NULL::bigint AS rp_revision
)
SELECT cur.rp_ord, changed.rp_ord IS NOT NULL, COALESCE(changed.rp_fence, cur.rp_fence), cur.rp_before, cur.rp_holder
FROM cur LEFT JOIN changed ON changed.rp_ord = cur.rp_ord

-- fail send: claim.change_many
-- claim.change_many
WITH wanted AS (
    SELECT w.*
    FROM unnest($1::bigint[],
      $2::timestamp with time zone[]) WITH ORDINALITY AS w (rp_wanted_0, rp_fence_wanted, rp_ord)
), cur AS MATERIALIZED (
    SELECT w.rp_ord, t."id" AS rp_key_0, t."status"::text AS rp_before, t."sending_at" AS rp_fence, NULL::text AS rp_holder,
           (t."sending_at" = w.rp_fence_wanted AND t."status" IN ('BUSY')) IS TRUE AS rp_mine
    FROM "podcasts" AS t
    JOIN wanted AS w ON t."id" = w.rp_wanted_0
    ORDER BY t."id"
    FOR NO KEY UPDATE OF t
), changed AS (
    UPDATE "podcasts" AS t
    SET "sending_at" = NULL,
      "status" = 'NEW'
    FROM cur
    WHERE t."id" = cur.rp_key_0
      AND cur.rp_mine
    RETURNING cur.rp_ord, t."sending_at" AS rp_fence, NULL::text AS rp_key, cur.rp_before, NULL::bigint AS rp_revision
)
SELECT cur.rp_ord, changed.rp_ord IS NOT NULL, COALESCE(changed.rp_fence, cur.rp_fence), cur.rp_before, cur.rp_holder
FROM cur LEFT JOIN changed ON changed.rp_ord = cur.rp_ord

-- release send: claim.change_many
-- claim.change_many
WITH wanted AS (
    SELECT w.*
    FROM unnest($1::bigint[],
      $2::timestamp with time zone[]) WITH ORDINALITY AS w (rp_wanted_0, rp_fence_wanted, rp_ord)
), cur AS MATERIALIZED (
    SELECT w.rp_ord, t."id" AS rp_key_0, t."status"::text AS rp_before, t."sending_at" AS rp_fence, NULL::text AS rp_holder,
           (t."sending_at" = w.rp_fence_wanted AND t."status" IN ('BUSY')) IS TRUE AS rp_mine
    FROM "podcasts" AS t
    JOIN wanted AS w ON t."id" = w.rp_wanted_0
    ORDER BY t."id"
    FOR NO KEY UPDATE OF t
), changed AS (
    UPDATE "podcasts" AS t
    SET "sending_at" = NULL,
      "status" = 'NEW',
      "tries" = CASE WHEN t."tries" > 0 THEN t."tries" - 1 ELSE 0 END
    FROM cur
    WHERE t."id" = cur.rp_key_0
      AND cur.rp_mine
    RETURNING cur.rp_ord, t."sending_at" AS rp_fence, NULL::text AS rp_key, cur.rp_before, NULL::bigint AS rp_revision
)
SELECT cur.rp_ord, changed.rp_ord IS NOT NULL, COALESCE(changed.rp_fence, cur.rp_fence), cur.rp_before, cur.rp_holder
FROM cur LEFT JOIN changed ON changed.rp_ord = cur.rp_ord

-- ready, held by send: move.fast without history, move.one
-- move.fast without history
UPDATE "podcasts" AS t
SET "status" = 'READY',
      "sending_at" = NULL,
      "summary" = $1
WHERE t."id" = $2
  AND t."status" IN ('BUSY', 'NEW')
  AND t."sending_at" = $3
RETURNING old."status"::text, NULL::bigint

-- move.one
WITH cur AS MATERIALIZED (
    SELECT t."id" AS rp_key_0,
           t."status"::text AS rp_before,
           NULL::bigint AS rp_revision,
           t."sending_at" AS rp_fence,
           NULL::text AS rp_key,
           CASE WHEN t."sending_at" = $1 THEN 0 ELSE 1 END AS rp_unmet
    FROM "podcasts" AS t
    WHERE t."id" = $2
    FOR NO KEY UPDATE
), changed AS (
    UPDATE "podcasts" AS t
    SET "status" = 'READY',
      "sending_at" = NULL,
      "summary" = $3
    FROM cur
    WHERE t."id" = cur.rp_key_0
      AND cur.rp_before IN ('BUSY', 'NEW')
      AND cur.rp_unmet = 0
    RETURNING TRUE AS rp_won, NULL::bigint AS rp_revision
)
SELECT cur.rp_before, cur.rp_revision, cur.rp_fence, cur.rp_unmet, cur.rp_key,
       changed.rp_won, changed.rp_revision
FROM cur LEFT JOIN changed ON TRUE

-- claim describe: claim.acquire
-- claim.acquire
WITH cur AS MATERIALIZED (
    SELECT t.ctid AS rp_place
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
    WHERE t.ctid = ANY (ARRAY(SELECT rp_place FROM cur))
      AND (to_timestamp(substring(t."ai_error" FROM '^PROCESSING:[^:]+:[^:]+:([0-9]{1,12}([.][0-9]{1,9})?)$')::float8) + make_interval(secs => $1::float8) IS NULL OR to_timestamp(substring(t."ai_error" FROM '^PROCESSING:[^:]+:[^:]+:([0-9]{1,12}([.][0-9]{1,9})?)$')::float8) + make_interval(secs => $1::float8) <= $2::timestamptz OR to_timestamp(substring(t."ai_error" FROM '^PROCESSING:[^:]+:[^:]+:([0-9]{1,12}([.][0-9]{1,9})?)$')::float8) + make_interval(secs => $1::float8) > (SELECT $2::timestamptz + make_interval(secs => $1::float8) + make_interval(secs => $1::float8)))
    RETURNING t."ai_error" AS rp_fence, NULL AS rp_attempts, old."status"::text AS rp_before, NULL::text AS rp_key,
              NULL::bigint AS rp_revision, t."id" AS rp_key_0, t."id" AS rp_order_0
)
SELECT rp_fence, rp_attempts, rp_before, rp_key_0
FROM changed
ORDER BY rp_order_0

-- claim describe by the store's clock: claim.acquire
-- claim.acquire
WITH cur AS MATERIALIZED (
    SELECT t.ctid AS rp_place
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
    WHERE t.ctid = ANY (ARRAY(SELECT rp_place FROM cur))
      AND (to_timestamp(substring(t."ai_error" FROM '^PROCESSING:[^:]+:[^:]+:([0-9]{1,12}([.][0-9]{1,9})?)$')::float8) + make_interval(secs => $1::float8) IS NULL OR to_timestamp(substring(t."ai_error" FROM '^PROCESSING:[^:]+:[^:]+:([0-9]{1,12}([.][0-9]{1,9})?)$')::float8) + make_interval(secs => $1::float8) <= statement_timestamp() OR to_timestamp(substring(t."ai_error" FROM '^PROCESSING:[^:]+:[^:]+:([0-9]{1,12}([.][0-9]{1,9})?)$')::float8) + make_interval(secs => $1::float8) > (SELECT statement_timestamp() + make_interval(secs => $1::float8) + make_interval(secs => $1::float8)))
    RETURNING t."ai_error" AS rp_fence, NULL AS rp_attempts, old."status"::text AS rp_before, NULL::text AS rp_key,
              NULL::bigint AS rp_revision, t."id" AS rp_key_0, t."id" AS rp_order_0
)
SELECT rp_fence, rp_attempts, rp_before, rp_key_0
FROM changed
ORDER BY rp_order_0

-- claim_one describe: claim.one
-- claim.one
WITH cur AS MATERIALIZED (
    SELECT t."id" AS rp_key_0, t."status"::text AS rp_before, CASE WHEN t."status" IN ('NEW', 'BUSY') THEN 0 ELSE 1 END
         + CASE WHEN (to_timestamp(substring(t."ai_error" FROM '^PROCESSING:[^:]+:[^:]+:([0-9]{1,12}([.][0-9]{1,9})?)$')::float8) + make_interval(secs => $1::float8) IS NULL OR to_timestamp(substring(t."ai_error" FROM '^PROCESSING:[^:]+:[^:]+:([0-9]{1,12}([.][0-9]{1,9})?)$')::float8) + make_interval(secs => $1::float8) <= $2::timestamptz OR to_timestamp(substring(t."ai_error" FROM '^PROCESSING:[^:]+:[^:]+:([0-9]{1,12}([.][0-9]{1,9})?)$')::float8) + make_interval(secs => $1::float8) > (SELECT $2::timestamptz + make_interval(secs => $1::float8) + make_interval(secs => $1::float8))) THEN 0 ELSE 2 END AS rp_unmet, NULL AS rp_holder
    FROM "podcasts" AS t
    WHERE t."id" = $3
    FOR NO KEY UPDATE OF t
), changed AS (
    UPDATE "podcasts" AS t
    SET "status" = 'BUSY',
      "ai_error" = 'PROCESSING:AI_DESC:' || $4 || ':' || extract(epoch FROM $2::timestamptz)::numeric(20, 6)::text
    FROM cur
    WHERE t."id" = cur.rp_key_0
      AND cur.rp_unmet = 0
    RETURNING t."ai_error" AS rp_fence, NULL AS rp_attempts, cur.rp_before, NULL::text AS rp_key,
              NULL::bigint AS rp_revision
)
SELECT cur.rp_before, cur.rp_unmet, cur.rp_holder, changed.rp_fence, changed.rp_attempts
FROM cur LEFT JOIN changed ON TRUE

-- renew describe: claim.change_many
-- claim.change_many
WITH wanted AS (
    SELECT w.*
    FROM unnest($1::bigint[],
      $2::text[]) WITH ORDINALITY AS w (rp_wanted_0, rp_fence_wanted, rp_ord)
), cur AS MATERIALIZED (
    SELECT w.rp_ord, t."id" AS rp_key_0, t."status"::text AS rp_before, t."ai_error" AS rp_fence, NULL::text AS rp_holder,
           (t."ai_error" = w.rp_fence_wanted AND t."status" IN ('BUSY')) IS TRUE AS rp_mine
    FROM "podcasts" AS t
    JOIN wanted AS w ON t."id" = w.rp_wanted_0
    ORDER BY t."id"
    FOR NO KEY UPDATE OF t
), changed AS (
    UPDATE "podcasts" AS t
    SET "ai_error" = 'PROCESSING:AI_DESC:' || $3 || ':' || extract(epoch FROM $4::timestamptz)::numeric(20, 6)::text
    FROM cur
    WHERE t."id" = cur.rp_key_0
      AND cur.rp_mine
    RETURNING cur.rp_ord, t."ai_error" AS rp_fence, NULL::text AS rp_key, cur.rp_before, NULL::bigint AS rp_revision
)
SELECT cur.rp_ord, changed.rp_ord IS NOT NULL, COALESCE(changed.rp_fence, cur.rp_fence), cur.rp_before, cur.rp_holder
FROM cur LEFT JOIN changed ON changed.rp_ord = cur.rp_ord

-- fail describe: claim.change_many
-- claim.change_many
WITH wanted AS (
    SELECT w.*
    FROM unnest($1::bigint[],
      $2::text[]) WITH ORDINALITY AS w (rp_wanted_0, rp_fence_wanted, rp_ord)
), cur AS MATERIALIZED (
    SELECT w.rp_ord, t."id" AS rp_key_0, t."status"::text AS rp_before, t."ai_error" AS rp_fence, NULL::text AS rp_holder,
           (t."ai_error" = w.rp_fence_wanted AND t."status" IN ('BUSY')) IS TRUE AS rp_mine
    FROM "podcasts" AS t
    JOIN wanted AS w ON t."id" = w.rp_wanted_0
    ORDER BY t."id"
    FOR NO KEY UPDATE OF t
), changed AS (
    UPDATE "podcasts" AS t
    SET "ai_error" = NULL,
      "status" = 'NEW'
    FROM cur
    WHERE t."id" = cur.rp_key_0
      AND cur.rp_mine
    RETURNING cur.rp_ord, t."ai_error" AS rp_fence, NULL::text AS rp_key, cur.rp_before, NULL::bigint AS rp_revision
)
SELECT cur.rp_ord, changed.rp_ord IS NOT NULL, COALESCE(changed.rp_fence, cur.rp_fence), cur.rp_before, cur.rp_holder
FROM cur LEFT JOIN changed ON changed.rp_ord = cur.rp_ord

-- release describe: claim.change_many
-- ready, held by describe: move.fast without history, move.one
-- move.fast without history
UPDATE "podcasts" AS t
SET "status" = 'READY',
      "ai_error" = NULL,
      "summary" = $1
WHERE t."id" = $2
  AND t."status" IN ('BUSY', 'NEW')
  AND t."ai_error" = $3
RETURNING old."status"::text, NULL::bigint

-- move.one
WITH cur AS MATERIALIZED (
    SELECT t."id" AS rp_key_0,
           t."status"::text AS rp_before,
           NULL::bigint AS rp_revision,
           t."ai_error" AS rp_fence,
           NULL::text AS rp_key,
           CASE WHEN t."ai_error" = $1 THEN 0 ELSE 1 END AS rp_unmet
    FROM "podcasts" AS t
    WHERE t."id" = $2
    FOR NO KEY UPDATE
), changed AS (
    UPDATE "podcasts" AS t
    SET "status" = 'READY',
      "ai_error" = NULL,
      "summary" = $3
    FROM cur
    WHERE t."id" = cur.rp_key_0
      AND cur.rp_before IN ('BUSY', 'NEW')
      AND cur.rp_unmet = 0
    RETURNING TRUE AS rp_won, NULL::bigint AS rp_revision
)
SELECT cur.rp_before, cur.rp_revision, cur.rp_fence, cur.rp_unmet, cur.rp_key,
       changed.rp_won, changed.rp_revision
FROM cur LEFT JOIN changed ON TRUE

-- claim vet: claim.acquire
-- claim.acquire
WITH cur AS MATERIALIZED (
    SELECT t.ctid AS rp_place
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
    WHERE t.ctid = ANY (ARRAY(SELECT rp_place FROM cur))
      AND (t."vetted_until" IS NULL OR t."vetted_until" <= $1::timestamptz OR (t."vetted_until" > (SELECT $1::timestamptz + make_interval(secs => $2::float8) + make_interval(secs => $2::float8)) AND t."vet_fence" > (SELECT (extract(epoch FROM $1::timestamptz) * 1000000)::bigint)))
    RETURNING t."vet_fence" AS rp_fence, NULL AS rp_attempts, old."status"::text AS rp_before, NULL::text AS rp_key,
              NULL::bigint AS rp_revision, t."id" AS rp_key_0, t."id" AS rp_order_0
)
SELECT rp_fence, rp_attempts, rp_before, rp_key_0
FROM changed
ORDER BY rp_order_0

-- claim vet by the store's clock: claim.acquire
-- claim.acquire
WITH cur AS MATERIALIZED (
    SELECT t.ctid AS rp_place
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
    WHERE t.ctid = ANY (ARRAY(SELECT rp_place FROM cur))
      AND (t."vetted_until" IS NULL OR t."vetted_until" <= statement_timestamp() OR (t."vetted_until" > (SELECT statement_timestamp() + make_interval(secs => $1::float8) + make_interval(secs => $1::float8)) AND t."vet_fence" > (SELECT (extract(epoch FROM statement_timestamp()) * 1000000)::bigint)))
    RETURNING t."vet_fence" AS rp_fence, NULL AS rp_attempts, old."status"::text AS rp_before, NULL::text AS rp_key,
              NULL::bigint AS rp_revision, t."id" AS rp_key_0, t."id" AS rp_order_0
)
SELECT rp_fence, rp_attempts, rp_before, rp_key_0
FROM changed
ORDER BY rp_order_0

-- claim_one vet: claim.one
-- claim.one
WITH cur AS MATERIALIZED (
    SELECT t."id" AS rp_key_0, t."status"::text AS rp_before, CASE WHEN t."status" IN ('NEW') THEN 0 ELSE 1 END
         + CASE WHEN (t."vetted_until" IS NULL OR t."vetted_until" <= $1::timestamptz OR (t."vetted_until" > (SELECT $1::timestamptz + make_interval(secs => $2::float8) + make_interval(secs => $2::float8)) AND t."vet_fence" > (SELECT (extract(epoch FROM $1::timestamptz) * 1000000)::bigint))) THEN 0 ELSE 2 END AS rp_unmet, t."vetted_by" AS rp_holder
    FROM "podcasts" AS t
    WHERE t."id" = $3
    FOR NO KEY UPDATE OF t
), changed AS (
    UPDATE "podcasts" AS t
    SET "vetted_by" = $4,
      "vetted_until" = (SELECT $1::timestamptz + make_interval(secs => $2::float8)),
      "vet_fence" = GREATEST(COALESCE(t."vet_fence", 0) + 1, (SELECT (extract(epoch FROM $1::timestamptz) * 1000000)::bigint))
    FROM cur
    WHERE t."id" = cur.rp_key_0
      AND cur.rp_unmet = 0
    RETURNING t."vet_fence" AS rp_fence, NULL AS rp_attempts, cur.rp_before, NULL::text AS rp_key,
              NULL::bigint AS rp_revision
)
SELECT cur.rp_before, cur.rp_unmet, cur.rp_holder, changed.rp_fence, changed.rp_attempts
FROM cur LEFT JOIN changed ON TRUE

-- renew vet: claim.change_many
-- claim.change_many
WITH wanted AS (
    SELECT w.*
    FROM unnest($1::bigint[],
      $2::bigint[]) WITH ORDINALITY AS w (rp_wanted_0, rp_fence_wanted, rp_ord)
), cur AS MATERIALIZED (
    SELECT w.rp_ord, t."id" AS rp_key_0, t."status"::text AS rp_before, t."vet_fence" AS rp_fence, t."vetted_by"::text AS rp_holder,
           (t."vet_fence" = w.rp_fence_wanted AND t."status" IN ('NEW')) IS TRUE AS rp_mine
    FROM "podcasts" AS t
    JOIN wanted AS w ON t."id" = w.rp_wanted_0
    ORDER BY t."id"
    FOR NO KEY UPDATE OF t
), changed AS (
    UPDATE "podcasts" AS t
    SET "vetted_until" = (SELECT $3::timestamptz + make_interval(secs => $4::float8))
    FROM cur
    WHERE t."id" = cur.rp_key_0
      AND cur.rp_mine
    RETURNING cur.rp_ord, t."vet_fence" AS rp_fence, NULL::text AS rp_key, cur.rp_before, NULL::bigint AS rp_revision
)
SELECT cur.rp_ord, changed.rp_ord IS NOT NULL, COALESCE(changed.rp_fence, cur.rp_fence), cur.rp_before, cur.rp_holder
FROM cur LEFT JOIN changed ON changed.rp_ord = cur.rp_ord

-- fail vet: claim.change_many
-- claim.change_many
WITH wanted AS (
    SELECT w.*
    FROM unnest($1::bigint[],
      $2::bigint[]) WITH ORDINALITY AS w (rp_wanted_0, rp_fence_wanted, rp_ord)
), cur AS MATERIALIZED (
    SELECT w.rp_ord, t."id" AS rp_key_0, t."status"::text AS rp_before, t."vet_fence" AS rp_fence, t."vetted_by"::text AS rp_holder,
           (t."vet_fence" = w.rp_fence_wanted AND t."status" IN ('NEW')) IS TRUE AS rp_mine
    FROM "podcasts" AS t
    JOIN wanted AS w ON t."id" = w.rp_wanted_0
    ORDER BY t."id"
    FOR NO KEY UPDATE OF t
), changed AS (
    UPDATE "podcasts" AS t
    SET "vetted_by" = NULL,
      "vetted_until" = NULL,
      "vet_fence" = GREATEST(COALESCE(t."vet_fence", 0) + 1, (SELECT (extract(epoch FROM $3::timestamptz) * 1000000)::bigint))
    FROM cur
    WHERE t."id" = cur.rp_key_0
      AND cur.rp_mine
    RETURNING cur.rp_ord, t."vet_fence" AS rp_fence, NULL::text AS rp_key, cur.rp_before, NULL::bigint AS rp_revision
)
SELECT cur.rp_ord, changed.rp_ord IS NOT NULL, COALESCE(changed.rp_fence, cur.rp_fence), cur.rp_before, cur.rp_holder
FROM cur LEFT JOIN changed ON changed.rp_ord = cur.rp_ord

-- release vet: claim.change_many
-- claim.change_many
WITH wanted AS (
    SELECT w.*
    FROM unnest($1::bigint[],
      $2::bigint[]) WITH ORDINALITY AS w (rp_wanted_0, rp_fence_wanted, rp_ord)
), cur AS MATERIALIZED (
    SELECT w.rp_ord, t."id" AS rp_key_0, t."status"::text AS rp_before, t."vet_fence" AS rp_fence, t."vetted_by"::text AS rp_holder,
           (t."vet_fence" = w.rp_fence_wanted AND t."status" IN ('NEW')) IS TRUE AS rp_mine
    FROM "podcasts" AS t
    JOIN wanted AS w ON t."id" = w.rp_wanted_0
    ORDER BY t."id"
    FOR NO KEY UPDATE OF t
), changed AS (
    UPDATE "podcasts" AS t
    SET "vetted_by" = NULL,
      "vetted_until" = NULL,
      "vet_fence" = GREATEST(COALESCE(t."vet_fence", 0) + 1, (SELECT (extract(epoch FROM statement_timestamp()) * 1000000)::bigint))
    FROM cur
    WHERE t."id" = cur.rp_key_0
      AND cur.rp_mine
    RETURNING cur.rp_ord, t."vet_fence" AS rp_fence, NULL::text AS rp_key, cur.rp_before, NULL::bigint AS rp_revision
)
SELECT cur.rp_ord, changed.rp_ord IS NOT NULL, COALESCE(changed.rp_fence, cur.rp_fence), cur.rp_before, cur.rp_holder
FROM cur LEFT JOIN changed ON changed.rp_ord = cur.rp_ord

-- ready, held by vet: move.fast without history, move.one
-- move.fast without history
UPDATE "podcasts" AS t
SET "status" = 'READY',
      "vetted_by" = NULL,
      "vetted_until" = NULL,
      "summary" = $1
WHERE t."id" = $2
  AND t."status" IN ('BUSY', 'NEW')
  AND t."vet_fence" = $3
RETURNING old."status"::text, NULL::bigint

-- move.one
WITH cur AS MATERIALIZED (
    SELECT t."id" AS rp_key_0,
           t."status"::text AS rp_before,
           NULL::bigint AS rp_revision,
           t."vet_fence" AS rp_fence,
           NULL::text AS rp_key,
           CASE WHEN t."vet_fence" = $1 THEN 0 ELSE 1 END AS rp_unmet
    FROM "podcasts" AS t
    WHERE t."id" = $2
    FOR NO KEY UPDATE
), changed AS (
    UPDATE "podcasts" AS t
    SET "status" = 'READY',
      "vetted_by" = NULL,
      "vetted_until" = NULL,
      "summary" = $3
    FROM cur
    WHERE t."id" = cur.rp_key_0
      AND cur.rp_before IN ('BUSY', 'NEW')
      AND cur.rp_unmet = 0
    RETURNING TRUE AS rp_won, NULL::bigint AS rp_revision
)
SELECT cur.rp_before, cur.rp_revision, cur.rp_fence, cur.rp_unmet, cur.rp_key,
       changed.rp_won, changed.rp_revision
FROM cur LEFT JOIN changed ON TRUE

-- ready by key: move.fast without history
-- move.fast without history
UPDATE "podcasts" AS t
SET "status" = 'READY',
      "sending_at" = NULL,
      "ai_error" = CASE WHEN substr(t."ai_error", 1, 19) = 'PROCESSING:AI_DESC:' THEN NULL ELSE t."ai_error" END,
      "vetted_by" = NULL,
      "vetted_until" = NULL,
      "vet_fence" = GREATEST(COALESCE(t."vet_fence", 0) + 1, (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)),
      "summary" = $1
WHERE t."id" = $2
  AND t."status" IN ('BUSY', 'NEW')
RETURNING old."status"::text, NULL::bigint, COALESCE(CAST(old."sending_at" AS text), CASE WHEN substr(old."ai_error", 1, 19) = 'PROCESSING:AI_DESC:' THEN old."ai_error" END, CAST(old."vetted_by" AS text)) AS rp_fenced_off

-- ready many by key: move.many
-- move.many
WITH wanted AS (
    SELECT w.*
    FROM unnest($1::bigint[]) WITH ORDINALITY AS w (rp_wanted_0, rp_ord)
), cur AS MATERIALIZED (
    SELECT w.*,
           t."id" AS rp_key_0,
           t."status"::text AS rp_before,
           NULL::bigint AS rp_revision,
           NULL::bigint AS rp_fence,
           NULL::text AS rp_key,
           0 AS rp_unmet,
           COALESCE(CAST(t."sending_at" AS text), CASE WHEN substr(t."ai_error", 1, 19) = 'PROCESSING:AI_DESC:' THEN t."ai_error" END, CAST(t."vetted_by" AS text)) AS rp_fenced_off
    FROM "podcasts" AS t
    JOIN wanted AS w ON t."id" = w.rp_wanted_0
    ORDER BY t."id"
    FOR NO KEY UPDATE OF t
), changed AS (
    UPDATE "podcasts" AS t
    SET "status" = 'READY',
      "sending_at" = NULL,
      "ai_error" = CASE WHEN substr(t."ai_error", 1, 19) = 'PROCESSING:AI_DESC:' THEN NULL ELSE t."ai_error" END,
      "vetted_by" = NULL,
      "vetted_until" = NULL,
      "vet_fence" = GREATEST(COALESCE(t."vet_fence", 0) + 1, (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint))
    FROM cur
    WHERE t."id" = cur.rp_key_0
      AND cur.rp_before IN ('BUSY', 'NEW')
      AND cur.rp_unmet = 0
    RETURNING TRUE AS rp_won, cur.rp_ord, NULL::bigint AS rp_revision
)
SELECT cur.rp_ord, cur.rp_before, cur.rp_revision, cur.rp_fence, cur.rp_unmet, cur.rp_key,
       changed.rp_won, changed.rp_revision, cur.rp_fenced_off
FROM cur LEFT JOIN changed ON changed.rp_ord = cur.rp_ord

-- claims of a marker: claim.list
-- claim.list
SELECT to_timestamp(substring(t."ai_error" FROM '^PROCESSING:[^:]+:[^:]+:([0-9]{1,12}([.][0-9]{1,9})?)$')::float8) + make_interval(secs => $1::float8) AS rp_until, to_timestamp(substring(t."ai_error" FROM '^PROCESSING:[^:]+:[^:]+:([0-9]{1,12}([.][0-9]{1,9})?)$')::float8) + make_interval(secs => $1::float8) <= statement_timestamp() AS rp_stale, t."status"::text, NULL, t."ai_error", NULL, t."id"
FROM "podcasts" AS t
WHERE t."status" IN ('NEW', 'BUSY')
  AND to_timestamp(substring(t."ai_error" FROM '^PROCESSING:[^:]+:[^:]+:([0-9]{1,12}([.][0-9]{1,9})?)$')::float8) + make_interval(secs => $1::float8) IS NOT NULL
ORDER BY rp_until
LIMIT $2
