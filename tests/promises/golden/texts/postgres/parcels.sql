-- claim: table.kind, claim.acquire
-- table.kind
SELECT relkind = 'p' OR relhassubclass OR relkind NOT IN ('r', 'p'), reltuples >= 1000
FROM pg_class
WHERE oid = '"shop"."parcels"'::regclass

-- claim.acquire
WITH cur AS MATERIALIZED (
    SELECT t.ctid AS rp_place
    FROM "shop"."parcels" AS t
    WHERE t."stage" IN ('NEW', 'BUSY')
      AND (t."claimed_until" IS NULL OR t."claimed_until" <= $1::timestamptz OR (t."claimed_until" > (SELECT $1::timestamptz + make_interval(secs => $2::float8) + make_interval(secs => $2::float8)) AND t."fence" > (SELECT (extract(epoch FROM $1::timestamptz) * 1000000)::bigint)))
      AND (t."rests_until" IS NULL OR t."rests_until" <= $1::timestamptz)
      AND t."shop" = $3
      AND t."weight" is not null
      AND t."lane" <> $4
      AND t."weight" < $5
      AND NOT EXISTS (SELECT 1 FROM "shop"."parcels" AS e WHERE e."lane" = t."lane" AND e."stage" IN ('NEW', 'BUSY') AND e."shop" = t."shop" AND (e."due", e."weight", e."depot", e."number") < (t."due", t."weight", t."depot", t."number")) AND
      (t."due" IS NOT NULL OR NOT EXISTS (SELECT 1 FROM "shop"."parcels" AS e WHERE e."lane" = t."lane" AND e."stage" IN ('NEW', 'BUSY') AND e."shop" = t."shop" AND (e."due" IS NOT NULL OR (e."weight", e."depot", e."number") < (t."weight", t."depot", t."number")))) AND
      (t."weight" IS NOT NULL OR NOT EXISTS (SELECT 1 FROM "shop"."parcels" AS e WHERE e."lane" = t."lane" AND e."stage" IN ('NEW', 'BUSY') AND e."shop" = t."shop" AND e."due" IS NOT DISTINCT FROM t."due" AND (e."weight" IS NOT NULL OR (e."depot", e."number") < (t."depot", t."number"))))
      AND COALESCE(t."tries", 0) < 4
    ORDER BY t."due", t."weight"
    LIMIT $6
    FOR NO KEY UPDATE OF t SKIP LOCKED
), changed AS (
    UPDATE "shop"."parcels" AS t
    SET "stage" = 'BUSY',
      "started_at" = $1::timestamptz,
      "rev" = COALESCE(t."rev", 0) + 1,
      "claimed_by" = $7,
      "claimed_until" = (SELECT $1::timestamptz + make_interval(secs => $2::float8)),
      "fence" = GREATEST(COALESCE(t."fence", 0) + 1, (SELECT (extract(epoch FROM $1::timestamptz) * 1000000)::bigint)),
      "tries" = COALESCE(t."tries", 0) + 1
    WHERE t.ctid = ANY (ARRAY(SELECT rp_place FROM cur))
      AND (t."claimed_until" IS NULL OR t."claimed_until" <= $1::timestamptz OR (t."claimed_until" > (SELECT $1::timestamptz + make_interval(secs => $2::float8) + make_interval(secs => $2::float8)) AND t."fence" > (SELECT (extract(epoch FROM $1::timestamptz) * 1000000)::bigint)))
    RETURNING t."fence" AS rp_fence, t."tries" AS rp_attempts, old."stage"::text AS rp_before, replace(replace(t."shop"::text, '%', '%25'), ':', '%3A') || ':' || replace(replace(t."depot"::text, '%', '%25'), ':', '%3A') || ':' || replace(replace(t."number"::text, '%', '%25'), ':', '%3A') AS rp_key,
              t."rev" AS rp_revision, t."shop" AS rp_key_0, t."depot" AS rp_key_1, t."number" AS rp_key_2, t."due" AS rp_order_0, t."weight" AS rp_order_1, t."weight"
)
, noted AS (
    INSERT INTO "shop"."parcel_history" (lifecycle, key, move, outcome, before, after, revision, actor, reason, at)
    SELECT 'Parcel', rp_key, 'start', CASE WHEN rp_before = 'BUSY' THEN 'claimed' ELSE 'moved' END, rp_before, 'BUSY', rp_revision, $7::text, NULL::text, $1::timestamptz
    FROM changed
)
SELECT rp_fence, rp_attempts, rp_before, rp_key_0, rp_key_1, rp_key_2, changed."weight"
FROM changed
ORDER BY rp_order_0, rp_order_1

-- claim by the store's clock: claim.acquire
-- claim.acquire
WITH cur AS MATERIALIZED (
    SELECT t.ctid AS rp_place
    FROM "shop"."parcels" AS t
    WHERE t."stage" IN ('NEW', 'BUSY')
      AND (t."claimed_until" IS NULL OR t."claimed_until" <= statement_timestamp() OR (t."claimed_until" > (SELECT statement_timestamp() + make_interval(secs => $1::float8) + make_interval(secs => $1::float8)) AND t."fence" > (SELECT (extract(epoch FROM statement_timestamp()) * 1000000)::bigint)))
      AND (t."rests_until" IS NULL OR t."rests_until" <= statement_timestamp())
      AND t."shop" = $2
      AND t."weight" is not null
      AND t."lane" <> $3
      AND t."weight" < $4
      AND NOT EXISTS (SELECT 1 FROM "shop"."parcels" AS e WHERE e."lane" = t."lane" AND e."stage" IN ('NEW', 'BUSY') AND e."shop" = t."shop" AND (e."due", e."weight", e."depot", e."number") < (t."due", t."weight", t."depot", t."number")) AND
      (t."due" IS NOT NULL OR NOT EXISTS (SELECT 1 FROM "shop"."parcels" AS e WHERE e."lane" = t."lane" AND e."stage" IN ('NEW', 'BUSY') AND e."shop" = t."shop" AND (e."due" IS NOT NULL OR (e."weight", e."depot", e."number") < (t."weight", t."depot", t."number")))) AND
      (t."weight" IS NOT NULL OR NOT EXISTS (SELECT 1 FROM "shop"."parcels" AS e WHERE e."lane" = t."lane" AND e."stage" IN ('NEW', 'BUSY') AND e."shop" = t."shop" AND e."due" IS NOT DISTINCT FROM t."due" AND (e."weight" IS NOT NULL OR (e."depot", e."number") < (t."depot", t."number"))))
      AND COALESCE(t."tries", 0) < 4
    ORDER BY t."due", t."weight"
    LIMIT $5
    FOR NO KEY UPDATE OF t SKIP LOCKED
), changed AS (
    UPDATE "shop"."parcels" AS t
    SET "stage" = 'BUSY',
      "started_at" = statement_timestamp(),
      "rev" = COALESCE(t."rev", 0) + 1,
      "claimed_by" = $6,
      "claimed_until" = (SELECT statement_timestamp() + make_interval(secs => $1::float8)),
      "fence" = GREATEST(COALESCE(t."fence", 0) + 1, (SELECT (extract(epoch FROM statement_timestamp()) * 1000000)::bigint)),
      "tries" = COALESCE(t."tries", 0) + 1
    WHERE t.ctid = ANY (ARRAY(SELECT rp_place FROM cur))
      AND (t."claimed_until" IS NULL OR t."claimed_until" <= statement_timestamp() OR (t."claimed_until" > (SELECT statement_timestamp() + make_interval(secs => $1::float8) + make_interval(secs => $1::float8)) AND t."fence" > (SELECT (extract(epoch FROM statement_timestamp()) * 1000000)::bigint)))
    RETURNING t."fence" AS rp_fence, t."tries" AS rp_attempts, old."stage"::text AS rp_before, replace(replace(t."shop"::text, '%', '%25'), ':', '%3A') || ':' || replace(replace(t."depot"::text, '%', '%25'), ':', '%3A') || ':' || replace(replace(t."number"::text, '%', '%25'), ':', '%3A') AS rp_key,
              t."rev" AS rp_revision, t."shop" AS rp_key_0, t."depot" AS rp_key_1, t."number" AS rp_key_2, t."due" AS rp_order_0, t."weight" AS rp_order_1
)
, noted AS (
    INSERT INTO "shop"."parcel_history" (lifecycle, key, move, outcome, before, after, revision, actor, reason, at)
    SELECT 'Parcel', rp_key, 'start', CASE WHEN rp_before = 'BUSY' THEN 'claimed' ELSE 'moved' END, rp_before, 'BUSY', rp_revision, $6::text, NULL::text, statement_timestamp()
    FROM changed
)
SELECT rp_fence, rp_attempts, rp_before, rp_key_0, rp_key_1, rp_key_2
FROM changed
ORDER BY rp_order_0, rp_order_1

-- claim_one: claim.one
-- claim.one
WITH cur AS MATERIALIZED (
    SELECT t."shop" AS rp_key_0, t."depot" AS rp_key_1, t."number" AS rp_key_2, t."stage"::text AS rp_before, CASE WHEN t."stage" IN ('NEW', 'BUSY') THEN 0 ELSE 1 END
         + CASE WHEN (t."claimed_until" IS NULL OR t."claimed_until" <= $1::timestamptz OR (t."claimed_until" > (SELECT $1::timestamptz + make_interval(secs => $2::float8) + make_interval(secs => $2::float8)) AND t."fence" > (SELECT (extract(epoch FROM $1::timestamptz) * 1000000)::bigint))) THEN 0 ELSE 2 END
         + CASE WHEN (t."rests_until" IS NULL OR t."rests_until" <= $1::timestamptz) THEN 0 ELSE 4 END
         + CASE WHEN COALESCE(t."tries", 0) < 4 THEN 0 ELSE 8 END
         + CASE WHEN t."weight" is not null THEN 0 ELSE 32 END
         + CASE WHEN t."lane" <> $3 THEN 0 ELSE 64 END
         + CASE WHEN t."weight" < $4 THEN 0 ELSE 128 END
         + CASE WHEN NOT EXISTS (SELECT 1 FROM "shop"."parcels" AS e WHERE e."lane" = t."lane" AND e."stage" IN ('NEW', 'BUSY') AND e."shop" = t."shop" AND (e."due", e."weight", e."depot", e."number") < (t."due", t."weight", t."depot", t."number")) AND
      (t."due" IS NOT NULL OR NOT EXISTS (SELECT 1 FROM "shop"."parcels" AS e WHERE e."lane" = t."lane" AND e."stage" IN ('NEW', 'BUSY') AND e."shop" = t."shop" AND (e."due" IS NOT NULL OR (e."weight", e."depot", e."number") < (t."weight", t."depot", t."number")))) AND
      (t."weight" IS NOT NULL OR NOT EXISTS (SELECT 1 FROM "shop"."parcels" AS e WHERE e."lane" = t."lane" AND e."stage" IN ('NEW', 'BUSY') AND e."shop" = t."shop" AND e."due" IS NOT DISTINCT FROM t."due" AND (e."weight" IS NOT NULL OR (e."depot", e."number") < (t."depot", t."number")))) THEN 0 ELSE 16 END AS rp_unmet, t."claimed_by" AS rp_holder
    FROM "shop"."parcels" AS t
    WHERE t."shop" = $5 AND
      t."depot" = $6 AND
      t."number" = $7
    FOR NO KEY UPDATE OF t
), changed AS (
    UPDATE "shop"."parcels" AS t
    SET "stage" = 'BUSY',
      "started_at" = $1::timestamptz,
      "rev" = COALESCE(t."rev", 0) + 1,
      "claimed_by" = $8,
      "claimed_until" = (SELECT $1::timestamptz + make_interval(secs => $2::float8)),
      "fence" = GREATEST(COALESCE(t."fence", 0) + 1, (SELECT (extract(epoch FROM $1::timestamptz) * 1000000)::bigint)),
      "tries" = COALESCE(t."tries", 0) + 1
    FROM cur
    WHERE t."shop" = cur.rp_key_0 AND t."depot" = cur.rp_key_1 AND t."number" = cur.rp_key_2
      AND cur.rp_unmet = 0
    RETURNING t."fence" AS rp_fence, t."tries" AS rp_attempts, cur.rp_before, replace(replace(t."shop"::text, '%', '%25'), ':', '%3A') || ':' || replace(replace(t."depot"::text, '%', '%25'), ':', '%3A') || ':' || replace(replace(t."number"::text, '%', '%25'), ':', '%3A') AS rp_key,
              t."rev" AS rp_revision
)
, noted AS (
    INSERT INTO "shop"."parcel_history" (lifecycle, key, move, outcome, before, after, revision, actor, reason, at)
    SELECT 'Parcel', rp_key, 'start', CASE WHEN rp_before = 'BUSY' THEN 'claimed' ELSE 'moved' END, rp_before, 'BUSY', rp_revision, $8::text, NULL::text, $1::timestamptz
    FROM changed
)
SELECT cur.rp_before, cur.rp_unmet, cur.rp_holder, changed.rp_fence, changed.rp_attempts
FROM cur LEFT JOIN changed ON TRUE

-- renew: table.columns, claim.change_many
-- table.columns
SELECT attname::text, format_type(atttypid, atttypmod)
FROM pg_attribute
WHERE attrelid = '"shop"."parcels"'::regclass
  AND attnum > 0
  AND NOT attisdropped
ORDER BY attnum

-- claim.change_many
WITH wanted AS (
    SELECT w.*
    FROM unnest($1::text[],
      $2::text[],
      $3::bigint[],
      $4::bigint[]) WITH ORDINALITY AS w (rp_wanted_0, rp_wanted_1, rp_wanted_2, rp_fence_wanted, rp_ord)
), cur AS MATERIALIZED (
    SELECT w.rp_ord, t."shop" AS rp_key_0, t."depot" AS rp_key_1, t."number" AS rp_key_2, t."stage"::text AS rp_before, t."fence" AS rp_fence, t."claimed_by"::text AS rp_holder,
           (t."fence" = w.rp_fence_wanted AND t."stage" IN ('BUSY')) IS TRUE AS rp_mine
    FROM "shop"."parcels" AS t
    JOIN wanted AS w ON t."shop" = w.rp_wanted_0 AND t."depot" = w.rp_wanted_1 AND t."number" = w.rp_wanted_2
    ORDER BY t."shop", t."depot", t."number"
    FOR NO KEY UPDATE OF t
), changed AS (
    UPDATE "shop"."parcels" AS t
    SET "claimed_until" = (SELECT $5::timestamptz + make_interval(secs => $6::float8))
    FROM cur
    WHERE t."shop" = cur.rp_key_0 AND t."depot" = cur.rp_key_1 AND t."number" = cur.rp_key_2
      AND cur.rp_mine
    RETURNING cur.rp_ord, t."fence" AS rp_fence, replace(replace(t."shop"::text, '%', '%25'), ':', '%3A') || ':' || replace(replace(t."depot"::text, '%', '%25'), ':', '%3A') || ':' || replace(replace(t."number"::text, '%', '%25'), ':', '%3A') AS rp_key, cur.rp_before, t."rev" AS rp_revision
)
SELECT cur.rp_ord, changed.rp_ord IS NOT NULL, COALESCE(changed.rp_fence, cur.rp_fence), cur.rp_before, cur.rp_holder
FROM cur LEFT JOIN changed ON changed.rp_ord = cur.rp_ord

-- release: claim.change_many
-- claim.change_many
WITH wanted AS (
    SELECT w.*
    FROM unnest($1::text[],
      $2::text[],
      $3::bigint[],
      $4::bigint[],
      $5::text[]) WITH ORDINALITY AS w (rp_wanted_0, rp_wanted_1, rp_wanted_2, rp_fence_wanted, rp_by, rp_ord)
), cur AS MATERIALIZED (
    SELECT w.rp_ord, t."shop" AS rp_key_0, t."depot" AS rp_key_1, t."number" AS rp_key_2, t."stage"::text AS rp_before, t."fence" AS rp_fence, t."claimed_by"::text AS rp_holder,
           (t."fence" = w.rp_fence_wanted AND t."stage" IN ('BUSY')) IS TRUE AS rp_mine, w.rp_by
    FROM "shop"."parcels" AS t
    JOIN wanted AS w ON t."shop" = w.rp_wanted_0 AND t."depot" = w.rp_wanted_1 AND t."number" = w.rp_wanted_2
    ORDER BY t."shop", t."depot", t."number"
    FOR NO KEY UPDATE OF t
), changed AS (
    UPDATE "shop"."parcels" AS t
    SET "claimed_by" = NULL,
      "claimed_until" = NULL,
      "fence" = GREATEST(COALESCE(t."fence", 0) + 1, (SELECT (extract(epoch FROM $6::timestamptz) * 1000000)::bigint)),
      "stage" = 'NEW',
      "returned_at" = $6::timestamptz,
      "rev" = COALESCE(t."rev", 0) + 1,
      "tries" = CASE WHEN t."tries" > 0 THEN t."tries" - 1 ELSE 0 END
    FROM cur
    WHERE t."shop" = cur.rp_key_0 AND t."depot" = cur.rp_key_1 AND t."number" = cur.rp_key_2
      AND cur.rp_mine
    RETURNING cur.rp_ord, t."fence" AS rp_fence, replace(replace(t."shop"::text, '%', '%25'), ':', '%3A') || ':' || replace(replace(t."depot"::text, '%', '%25'), ':', '%3A') || ':' || replace(replace(t."number"::text, '%', '%25'), ':', '%3A') AS rp_key, cur.rp_before, t."rev" AS rp_revision, cur.rp_by
)
, noted AS (
    INSERT INTO "shop"."parcel_history" (lifecycle, key, move, outcome, before, after, revision, actor, reason, at)
    SELECT 'Parcel', rp_key, 'back', 'moved', rp_before, 'NEW', rp_revision, rp_by::text, $7::text, $6::timestamptz
    FROM changed
)
SELECT cur.rp_ord, changed.rp_ord IS NOT NULL, COALESCE(changed.rp_fence, cur.rp_fence), cur.rp_before, cur.rp_holder
FROM cur LEFT JOIN changed ON changed.rp_ord = cur.rp_ord

-- fail: claim.change_many
-- claim.change_many
WITH wanted AS (
    SELECT w.*
    FROM unnest($1::text[],
      $2::text[],
      $3::bigint[],
      $4::bigint[],
      $5::float8[],
      $6::text[]) WITH ORDINALITY AS w (rp_wanted_0, rp_wanted_1, rp_wanted_2, rp_fence_wanted, rp_delay, rp_by, rp_ord)
), cur AS MATERIALIZED (
    SELECT w.rp_ord, t."shop" AS rp_key_0, t."depot" AS rp_key_1, t."number" AS rp_key_2, t."stage"::text AS rp_before, t."fence" AS rp_fence, t."claimed_by"::text AS rp_holder,
           (t."fence" = w.rp_fence_wanted AND t."stage" IN ('BUSY')) IS TRUE AS rp_mine, w.rp_delay, w.rp_by
    FROM "shop"."parcels" AS t
    JOIN wanted AS w ON t."shop" = w.rp_wanted_0 AND t."depot" = w.rp_wanted_1 AND t."number" = w.rp_wanted_2
    ORDER BY t."shop", t."depot", t."number"
    FOR NO KEY UPDATE OF t
), changed AS (
    UPDATE "shop"."parcels" AS t
    SET "claimed_by" = NULL,
      "claimed_until" = NULL,
      "fence" = GREATEST(COALESCE(t."fence", 0) + 1, (SELECT (extract(epoch FROM $7::timestamptz) * 1000000)::bigint)),
      "stage" = 'NEW',
      "returned_at" = $7::timestamptz,
      "rev" = COALESCE(t."rev", 0) + 1,
      "rests_until" = $7::timestamptz + make_interval(secs => cur.rp_delay::float8)
    FROM cur
    WHERE t."shop" = cur.rp_key_0 AND t."depot" = cur.rp_key_1 AND t."number" = cur.rp_key_2
      AND cur.rp_mine
    RETURNING cur.rp_ord, t."fence" AS rp_fence, replace(replace(t."shop"::text, '%', '%25'), ':', '%3A') || ':' || replace(replace(t."depot"::text, '%', '%25'), ':', '%3A') || ':' || replace(replace(t."number"::text, '%', '%25'), ':', '%3A') AS rp_key, cur.rp_before, t."rev" AS rp_revision, cur.rp_by
)
, noted AS (
    INSERT INTO "shop"."parcel_history" (lifecycle, key, move, outcome, before, after, revision, actor, reason, at)
    SELECT 'Parcel', rp_key, 'back', 'moved', rp_before, 'NEW', rp_revision, rp_by::text, $8::text, $7::timestamptz
    FROM changed
)
SELECT cur.rp_ord, changed.rp_ord IS NOT NULL, COALESCE(changed.rp_fence, cur.rp_fence), cur.rp_before, cur.rp_holder
FROM cur LEFT JOIN changed ON changed.rp_ord = cur.rp_ord

-- ready: move.fast, move.one, move.who
-- move.fast
WITH changed AS (
    UPDATE "shop"."parcels" AS t
    SET "stage" = 'READY',
      "rev" = COALESCE(t."rev", 0) + 1,
      "ready_at" = clock_timestamp(),
      "claimed_by" = NULL,
      "claimed_until" = NULL,
      "weight" = $1,
      "note" = $2
    WHERE t."shop" = $3 AND
      t."depot" = $4 AND
      t."number" = $5
      AND t."stage" IN ('BUSY', 'NEW')
      AND t."fence" = $6
    RETURNING old."stage"::text AS rp_before, t."rev" AS rp_revision, replace(replace(t."shop"::text, '%', '%25'), ':', '%3A') || ':' || replace(replace(t."depot"::text, '%', '%25'), ':', '%3A') || ':' || replace(replace(t."number"::text, '%', '%25'), ':', '%3A') AS rp_key, t."note"
), noted AS (
    INSERT INTO "shop"."parcel_history" (lifecycle, key, move, outcome, before, after, revision, actor, reason, call, at)
    SELECT 'Parcel', rp_key, 'ready', 'moved', rp_before, 'READY', rp_revision, $7::text, $8::text, $9::text, clock_timestamp()
    FROM changed
)
SELECT rp_before, rp_revision, changed."note"
FROM changed

-- move.one
WITH cur AS MATERIALIZED (
    SELECT t."shop" AS rp_key_0, t."depot" AS rp_key_1, t."number" AS rp_key_2,
           t."stage"::text AS rp_before,
           t."rev" AS rp_revision,
           t."fence" AS rp_fence,
           replace(replace(t."shop"::text, '%', '%25'), ':', '%3A') || ':' || replace(replace(t."depot"::text, '%', '%25'), ':', '%3A') || ':' || replace(replace(t."number"::text, '%', '%25'), ':', '%3A') AS rp_key,
           CASE WHEN t."fence" = $1 THEN 0 ELSE 1 END AS rp_unmet
    FROM "shop"."parcels" AS t
    WHERE t."shop" = $2 AND
      t."depot" = $3 AND
      t."number" = $4
    FOR NO KEY UPDATE
), changed AS (
    UPDATE "shop"."parcels" AS t
    SET "stage" = 'READY',
      "rev" = COALESCE(t."rev", 0) + 1,
      "ready_at" = clock_timestamp(),
      "claimed_by" = NULL,
      "claimed_until" = NULL,
      "weight" = $5,
      "note" = $6
    FROM cur
    WHERE t."shop" = cur.rp_key_0 AND t."depot" = cur.rp_key_1 AND t."number" = cur.rp_key_2
      AND cur.rp_before IN ('BUSY', 'NEW')
      AND cur.rp_unmet = 0
    RETURNING TRUE AS rp_won, t."rev" AS rp_revision, t."note"
), noted AS (
    INSERT INTO "shop"."parcel_history" (lifecycle, key, move, outcome, before, after, revision, actor, reason, call, at)
    SELECT 'Parcel', cur.rp_key, 'ready', CASE WHEN changed.rp_won THEN 'moved' WHEN cur.rp_unmet & 1 = 1 THEN 'lost' WHEN cur.rp_before = 'READY' AND cur.rp_unmet & ~0 = 0 THEN 'already' ELSE 'refused' END, cur.rp_before, 'READY',
           COALESCE(changed.rp_revision, cur.rp_revision), $7::text, $8::text, $9::text, clock_timestamp()
    FROM cur LEFT JOIN changed ON TRUE
)
SELECT cur.rp_before, cur.rp_revision, cur.rp_fence, cur.rp_unmet, cur.rp_key,
       changed.rp_won, changed.rp_revision, changed."note"
FROM cur LEFT JOIN changed ON TRUE

-- move.who
SELECT after, revision, actor
FROM "shop"."parcel_history"
WHERE lifecycle = 'Parcel'
  AND key = $1
  AND outcome = 'moved'
ORDER BY id DESC
LIMIT 1

-- ready many: move.fast_many
-- move.fast_many
WITH changed AS (
    UPDATE "shop"."parcels" AS t
    SET "stage" = 'READY',
      "rev" = COALESCE(t."rev", 0) + 1,
      "ready_at" = clock_timestamp(),
      "claimed_by" = NULL,
      "claimed_until" = NULL,
      "weight" = w.rp_set_0,
      "note" = w.rp_set_1
    FROM unnest($1::text[],
      $2::text[],
      $3::bigint[],
      $4::bigint[],
      $5::text[],
      $6::bigint[],
      $7::text[],
      $8::text[],
      $9::text[]) WITH ORDINALITY AS w (rp_wanted_0, rp_wanted_1, rp_wanted_2, rp_set_0, rp_set_1, rp_fence_wanted, rp_by, rp_reason, rp_call, rp_ord)
    WHERE t."shop" = w.rp_wanted_0 AND t."depot" = w.rp_wanted_1 AND t."number" = w.rp_wanted_2
      AND t."stage" IN ('BUSY', 'NEW')
      AND t."fence" = w.rp_fence_wanted
    RETURNING w.rp_ord, old."stage"::text AS rp_before, t."rev" AS rp_revision, replace(replace(t."shop"::text, '%', '%25'), ':', '%3A') || ':' || replace(replace(t."depot"::text, '%', '%25'), ':', '%3A') || ':' || replace(replace(t."number"::text, '%', '%25'), ':', '%3A') AS rp_key, w.rp_by, w.rp_reason, w.rp_call
)
, noted AS (
    INSERT INTO "shop"."parcel_history" (lifecycle, key, move, outcome, before, after, revision, actor, reason, call, at)
    SELECT 'Parcel', rp_key, 'ready', 'moved', rp_before, 'READY', rp_revision, rp_by, rp_reason, rp_call, clock_timestamp()
    FROM changed
)
SELECT array_agg(rp_ord), array_agg(rp_before), array_agg(rp_revision)
FROM changed

-- start by key: move.fast
-- move.fast
WITH changed AS (
    UPDATE "shop"."parcels" AS t
    SET "stage" = 'BUSY',
      "rev" = COALESCE(t."rev", 0) + 1,
      "started_at" = clock_timestamp()
    WHERE t."shop" = $1 AND
      t."depot" = $2 AND
      t."number" = $3
      AND t."stage" IN ('NEW')
      AND t."weight" < $4
    RETURNING 'NEW' AS rp_before, t."rev" AS rp_revision, replace(replace(t."shop"::text, '%', '%25'), ':', '%3A') || ':' || replace(replace(t."depot"::text, '%', '%25'), ':', '%3A') || ':' || replace(replace(t."number"::text, '%', '%25'), ':', '%3A') AS rp_key
), noted AS (
    INSERT INTO "shop"."parcel_history" (lifecycle, key, move, outcome, before, after, revision, actor, reason, call, at)
    SELECT 'Parcel', rp_key, 'start', 'moved', rp_before, 'BUSY', rp_revision, $5::text, $6::text, $7::text, clock_timestamp()
    FROM changed
)
SELECT rp_before, rp_revision
FROM changed

-- give up by key: move.fast, move.one, move.who
-- move.fast
WITH changed AS (
    UPDATE "shop"."parcels" AS t
    SET "stage" = 'GONE',
      "rev" = COALESCE(t."rev", 0) + 1,
      "gone_at" = clock_timestamp(),
      "claimed_by" = NULL,
      "claimed_until" = NULL,
      "fence" = GREATEST(COALESCE(t."fence", 0) + 1, (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint))
    WHERE t."shop" = $1 AND
      t."depot" = $2 AND
      t."number" = $3
      AND t."stage" IN ('NEW', 'BUSY')
      AND t."rev" = $4
    RETURNING old."stage"::text AS rp_before, t."rev" AS rp_revision, replace(replace(t."shop"::text, '%', '%25'), ':', '%3A') || ':' || replace(replace(t."depot"::text, '%', '%25'), ':', '%3A') || ':' || replace(replace(t."number"::text, '%', '%25'), ':', '%3A') AS rp_key, CAST(old."claimed_by" AS text) AS rp_fenced_off
), noted AS (
    INSERT INTO "shop"."parcel_history" (lifecycle, key, move, outcome, before, after, revision, actor, reason, call, at)
    SELECT 'Parcel', rp_key, 'give_up', 'moved', rp_before, 'GONE', rp_revision, $5::text, $6::text, $7::text, clock_timestamp()
    FROM changed
)
SELECT rp_before, rp_revision, changed.rp_fenced_off
FROM changed

-- move.one
WITH cur AS MATERIALIZED (
    SELECT t."shop" AS rp_key_0, t."depot" AS rp_key_1, t."number" AS rp_key_2,
           t."stage"::text AS rp_before,
           t."rev" AS rp_revision,
           NULL::bigint AS rp_fence,
           replace(replace(t."shop"::text, '%', '%25'), ':', '%3A') || ':' || replace(replace(t."depot"::text, '%', '%25'), ':', '%3A') || ':' || replace(replace(t."number"::text, '%', '%25'), ':', '%3A') AS rp_key,
           CASE WHEN t."rev" = $1 THEN 0 ELSE 2 END AS rp_unmet,
           CAST(t."claimed_by" AS text) AS rp_fenced_off
    FROM "shop"."parcels" AS t
    WHERE t."shop" = $2 AND
      t."depot" = $3 AND
      t."number" = $4
    FOR NO KEY UPDATE
), changed AS (
    UPDATE "shop"."parcels" AS t
    SET "stage" = 'GONE',
      "rev" = COALESCE(t."rev", 0) + 1,
      "gone_at" = clock_timestamp(),
      "claimed_by" = NULL,
      "claimed_until" = NULL,
      "fence" = GREATEST(COALESCE(t."fence", 0) + 1, (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint))
    FROM cur
    WHERE t."shop" = cur.rp_key_0 AND t."depot" = cur.rp_key_1 AND t."number" = cur.rp_key_2
      AND cur.rp_before IN ('NEW', 'BUSY')
      AND cur.rp_unmet = 0
    RETURNING TRUE AS rp_won, t."rev" AS rp_revision
), noted AS (
    INSERT INTO "shop"."parcel_history" (lifecycle, key, move, outcome, before, after, revision, actor, reason, call, at)
    SELECT 'Parcel', cur.rp_key, 'give_up', CASE WHEN changed.rp_won THEN 'moved' WHEN cur.rp_unmet & 1 = 1 THEN 'lost' WHEN cur.rp_before = 'GONE' AND cur.rp_unmet & ~0 = 0 THEN 'already' ELSE 'refused' END, cur.rp_before, 'GONE',
           COALESCE(changed.rp_revision, cur.rp_revision), $5::text, $6::text, $7::text, clock_timestamp()
    FROM cur LEFT JOIN changed ON TRUE
)
SELECT cur.rp_before, cur.rp_revision, cur.rp_fence, cur.rp_unmet, cur.rp_key,
       changed.rp_won, changed.rp_revision, cur.rp_fenced_off
FROM cur LEFT JOIN changed ON TRUE

-- give up many by key: move.many
-- move.many
WITH wanted AS (
    SELECT w.*
    FROM unnest($1::text[],
      $2::text[],
      $3::bigint[],
      $4::text[],
      $5::text[],
      $6::text[]) WITH ORDINALITY AS w (rp_wanted_0, rp_wanted_1, rp_wanted_2, rp_by, rp_reason, rp_call, rp_ord)
), cur AS MATERIALIZED (
    SELECT w.*,
           t."shop" AS rp_key_0, t."depot" AS rp_key_1, t."number" AS rp_key_2,
           t."stage"::text AS rp_before,
           t."rev" AS rp_revision,
           NULL::bigint AS rp_fence,
           replace(replace(t."shop"::text, '%', '%25'), ':', '%3A') || ':' || replace(replace(t."depot"::text, '%', '%25'), ':', '%3A') || ':' || replace(replace(t."number"::text, '%', '%25'), ':', '%3A') AS rp_key,
           0 AS rp_unmet,
           CAST(t."claimed_by" AS text) AS rp_fenced_off
    FROM "shop"."parcels" AS t
    JOIN wanted AS w ON t."shop" = w.rp_wanted_0 AND t."depot" = w.rp_wanted_1 AND t."number" = w.rp_wanted_2
    ORDER BY t."shop", t."depot", t."number"
    FOR NO KEY UPDATE OF t
), changed AS (
    UPDATE "shop"."parcels" AS t
    SET "stage" = 'GONE',
      "rev" = COALESCE(t."rev", 0) + 1,
      "gone_at" = clock_timestamp(),
      "claimed_by" = NULL,
      "claimed_until" = NULL,
      "fence" = GREATEST(COALESCE(t."fence", 0) + 1, (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint))
    FROM cur
    WHERE t."shop" = cur.rp_key_0 AND t."depot" = cur.rp_key_1 AND t."number" = cur.rp_key_2
      AND cur.rp_before IN ('NEW', 'BUSY')
      AND cur.rp_unmet = 0
    RETURNING TRUE AS rp_won, cur.rp_ord, t."rev" AS rp_revision
), noted AS (
    INSERT INTO "shop"."parcel_history" (lifecycle, key, move, outcome, before, after, revision, actor, reason, call, at)
    SELECT 'Parcel', cur.rp_key, 'give_up', CASE WHEN changed.rp_won THEN 'moved' WHEN cur.rp_unmet & 1 = 1 THEN 'lost' WHEN cur.rp_before = 'GONE' AND cur.rp_unmet & ~0 = 0 THEN 'already' ELSE 'refused' END, cur.rp_before, 'GONE',
           COALESCE(changed.rp_revision, cur.rp_revision), cur.rp_by::text, cur.rp_reason::text, cur.rp_call::text, clock_timestamp()
    FROM cur LEFT JOIN changed ON changed.rp_ord = cur.rp_ord
)
SELECT cur.rp_ord, cur.rp_before, cur.rp_revision, cur.rp_fence, cur.rp_unmet, cur.rp_key,
       changed.rp_won, changed.rp_revision, cur.rp_fenced_off
FROM cur LEFT JOIN changed ON changed.rp_ord = cur.rp_ord

-- give up what matches: move.matching
-- move.matching
WITH cur AS MATERIALIZED (
    SELECT t."shop" AS rp_key_0, t."depot" AS rp_key_1, t."number" AS rp_key_2,
           t."stage"::text AS rp_before,
           replace(replace(t."shop"::text, '%', '%25'), ':', '%3A') || ':' || replace(replace(t."depot"::text, '%', '%25'), ':', '%3A') || ':' || replace(replace(t."number"::text, '%', '%25'), ':', '%3A') AS rp_key,
           CAST(t."claimed_by" AS text) AS rp_fenced_off
    FROM "shop"."parcels" AS t
    WHERE t."stage" IN ('NEW', 'BUSY')
      AND t."shop" = $1
      AND t."weight" > $2
    ORDER BY t."shop", t."depot", t."number"
    LIMIT $3
    FOR NO KEY UPDATE OF t
), changed AS (
    UPDATE "shop"."parcels" AS t
    SET "stage" = 'GONE',
      "rev" = COALESCE(t."rev", 0) + 1,
      "gone_at" = clock_timestamp(),
      "claimed_by" = NULL,
      "claimed_until" = NULL,
      "fence" = GREATEST(COALESCE(t."fence", 0) + 1, (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint))
    FROM cur
    WHERE t."shop" = cur.rp_key_0 AND t."depot" = cur.rp_key_1 AND t."number" = cur.rp_key_2
      AND cur.rp_before IN ('NEW', 'BUSY')
    RETURNING TRUE AS rp_won, t."shop" AS rp_key_0, t."depot" AS rp_key_1, t."number" AS rp_key_2, t."rev" AS rp_revision
), noted AS (
    INSERT INTO "shop"."parcel_history" (lifecycle, key, move, outcome, before, after, revision, actor, reason, call, at)
    SELECT 'Parcel', cur.rp_key, 'give_up', 'moved', cur.rp_before, 'GONE',
           changed.rp_revision, $4::text, $5::text, $6::text, clock_timestamp()
    FROM cur JOIN changed ON changed.rp_key_0 = cur.rp_key_0 AND changed.rp_key_1 = cur.rp_key_1 AND changed.rp_key_2 = cur.rp_key_2
)
SELECT cur.rp_before, changed.rp_revision, changed.rp_key_0, changed.rp_key_1, changed.rp_key_2, cur.rp_fenced_off
FROM cur JOIN changed ON changed.rp_key_0 = cur.rp_key_0 AND changed.rp_key_1 = cur.rp_key_1 AND changed.rp_key_2 = cur.rp_key_2

-- dead-lettered: claim.acquire, claim.dead_letter, claim.acquire, claim.dead_letter, claim.acquire, claim.dead_letter, claim.acquire, claim.dead_letter, claim.acquire, claim.dead_letter, claim.acquire, claim.dead_letter
-- claim.acquire
WITH cur AS MATERIALIZED (
    SELECT t.ctid AS rp_place
    FROM "shop"."parcels" AS t
    WHERE t."stage" IN ('NEW', 'BUSY')
      AND (t."claimed_until" IS NULL OR t."claimed_until" <= $1::timestamptz OR (t."claimed_until" > (SELECT $1::timestamptz + make_interval(secs => $2::float8) + make_interval(secs => $2::float8)) AND t."fence" > (SELECT (extract(epoch FROM $1::timestamptz) * 1000000)::bigint)))
      AND (t."rests_until" IS NULL OR t."rests_until" <= $1::timestamptz)
      AND t."shop" = $3
      AND t."weight" is not null
      AND t."lane" <> $4
      AND t."weight" < $5
      AND NOT EXISTS (SELECT 1 FROM "shop"."parcels" AS e WHERE e."lane" = t."lane" AND e."stage" IN ('NEW', 'BUSY') AND e."shop" = t."shop" AND (e."due", e."weight", e."depot", e."number") < (t."due", t."weight", t."depot", t."number")) AND
      (t."due" IS NOT NULL OR NOT EXISTS (SELECT 1 FROM "shop"."parcels" AS e WHERE e."lane" = t."lane" AND e."stage" IN ('NEW', 'BUSY') AND e."shop" = t."shop" AND (e."due" IS NOT NULL OR (e."weight", e."depot", e."number") < (t."weight", t."depot", t."number")))) AND
      (t."weight" IS NOT NULL OR NOT EXISTS (SELECT 1 FROM "shop"."parcels" AS e WHERE e."lane" = t."lane" AND e."stage" IN ('NEW', 'BUSY') AND e."shop" = t."shop" AND e."due" IS NOT DISTINCT FROM t."due" AND (e."weight" IS NOT NULL OR (e."depot", e."number") < (t."depot", t."number"))))
      AND COALESCE(t."tries", 0) < 4
    ORDER BY t."due", t."weight"
    LIMIT $6
    FOR NO KEY UPDATE OF t SKIP LOCKED
), changed AS (
    UPDATE "shop"."parcels" AS t
    SET "stage" = 'BUSY',
      "started_at" = $1::timestamptz,
      "rev" = COALESCE(t."rev", 0) + 1,
      "claimed_by" = $7,
      "claimed_until" = (SELECT $1::timestamptz + make_interval(secs => $2::float8)),
      "fence" = GREATEST(COALESCE(t."fence", 0) + 1, (SELECT (extract(epoch FROM $1::timestamptz) * 1000000)::bigint)),
      "tries" = COALESCE(t."tries", 0) + 1
    WHERE t.ctid = ANY (ARRAY(SELECT rp_place FROM cur))
      AND (t."claimed_until" IS NULL OR t."claimed_until" <= $1::timestamptz OR (t."claimed_until" > (SELECT $1::timestamptz + make_interval(secs => $2::float8) + make_interval(secs => $2::float8)) AND t."fence" > (SELECT (extract(epoch FROM $1::timestamptz) * 1000000)::bigint)))
    RETURNING t."fence" AS rp_fence, t."tries" AS rp_attempts, old."stage"::text AS rp_before, replace(replace(t."shop"::text, '%', '%25'), ':', '%3A') || ':' || replace(replace(t."depot"::text, '%', '%25'), ':', '%3A') || ':' || replace(replace(t."number"::text, '%', '%25'), ':', '%3A') AS rp_key,
              t."rev" AS rp_revision, t."shop" AS rp_key_0, t."depot" AS rp_key_1, t."number" AS rp_key_2, t."due" AS rp_order_0, t."weight" AS rp_order_1
)
, noted AS (
    INSERT INTO "shop"."parcel_history" (lifecycle, key, move, outcome, before, after, revision, actor, reason, at)
    SELECT 'Parcel', rp_key, 'start', CASE WHEN rp_before = 'BUSY' THEN 'claimed' ELSE 'moved' END, rp_before, 'BUSY', rp_revision, $7::text, NULL::text, $1::timestamptz
    FROM changed
)
SELECT rp_fence, rp_attempts, rp_before, rp_key_0, rp_key_1, rp_key_2
FROM changed
ORDER BY rp_order_0, rp_order_1

-- claim.dead_letter
WITH cur AS MATERIALIZED (
    SELECT t."shop" AS rp_key_0, t."depot" AS rp_key_1, t."number" AS rp_key_2, t."stage"::text AS rp_before
    FROM "shop"."parcels" AS t
    WHERE t."stage" IN ('NEW', 'BUSY')
      AND (t."claimed_until" IS NULL OR t."claimed_until" <= $1::timestamptz OR (t."claimed_until" > (SELECT $1::timestamptz + make_interval(secs => $2::float8) + make_interval(secs => $2::float8)) AND t."fence" > (SELECT (extract(epoch FROM $1::timestamptz) * 1000000)::bigint)))
      AND (t."rests_until" IS NULL OR t."rests_until" <= $1::timestamptz)
      AND t."shop" = $3
      AND t."weight" is not null
      AND t."lane" <> $4
      AND t."weight" < $5
      AND NOT EXISTS (SELECT 1 FROM "shop"."parcels" AS e WHERE e."lane" = t."lane" AND e."stage" IN ('NEW', 'BUSY') AND e."shop" = t."shop" AND (e."due", e."weight", e."depot", e."number") < (t."due", t."weight", t."depot", t."number")) AND
      (t."due" IS NOT NULL OR NOT EXISTS (SELECT 1 FROM "shop"."parcels" AS e WHERE e."lane" = t."lane" AND e."stage" IN ('NEW', 'BUSY') AND e."shop" = t."shop" AND (e."due" IS NOT NULL OR (e."weight", e."depot", e."number") < (t."weight", t."depot", t."number")))) AND
      (t."weight" IS NOT NULL OR NOT EXISTS (SELECT 1 FROM "shop"."parcels" AS e WHERE e."lane" = t."lane" AND e."stage" IN ('NEW', 'BUSY') AND e."shop" = t."shop" AND e."due" IS NOT DISTINCT FROM t."due" AND (e."weight" IS NOT NULL OR (e."depot", e."number") < (t."depot", t."number"))))
      AND COALESCE(t."tries", 0) >= 4
    ORDER BY t."due", t."weight"
    LIMIT $6
    FOR NO KEY UPDATE OF t SKIP LOCKED
), changed AS (
    UPDATE "shop"."parcels" AS t
    SET "stage" = 'GONE',
      "claimed_by" = NULL,
      "claimed_until" = NULL,
      "gone_at" = $1::timestamptz,
      "rev" = COALESCE(t."rev", 0) + 1
    FROM cur
    WHERE t."shop" = cur.rp_key_0 AND t."depot" = cur.rp_key_1 AND t."number" = cur.rp_key_2
      AND (t."claimed_until" IS NULL OR t."claimed_until" <= $1::timestamptz OR (t."claimed_until" > (SELECT $1::timestamptz + make_interval(secs => $2::float8) + make_interval(secs => $2::float8)) AND t."fence" > (SELECT (extract(epoch FROM $1::timestamptz) * 1000000)::bigint)))
    RETURNING t."tries" AS rp_attempts, cur.rp_before, replace(replace(t."shop"::text, '%', '%25'), ':', '%3A') || ':' || replace(replace(t."depot"::text, '%', '%25'), ':', '%3A') || ':' || replace(replace(t."number"::text, '%', '%25'), ':', '%3A') AS rp_key, t."rev" AS rp_revision, t."shop" AS rp_key_0, t."depot" AS rp_key_1, t."number" AS rp_key_2
)
, noted AS (
    INSERT INTO "shop"."parcel_history" (lifecycle, key, move, outcome, before, after, revision, actor, reason, at)
    SELECT 'Parcel', rp_key, 'give_up', 'moved', rp_before, 'GONE', rp_revision, $7::text, NULL::text, $1::timestamptz
    FROM changed
)
SELECT rp_attempts, rp_key_0, rp_key_1, rp_key_2
FROM changed

-- claims: claim.list
-- claim.list
SELECT t."claimed_until" AS rp_until, t."claimed_until" <= statement_timestamp() AS rp_stale, t."stage"::text, t."claimed_by", t."fence", t."tries", t."shop", t."depot", t."number"
FROM "shop"."parcels" AS t
WHERE t."stage" IN ('NEW', 'BUSY')
  AND t."claimed_until" IS NOT NULL
  AND t."shop" = $1
ORDER BY rp_until
LIMIT $2

-- read: table.columns, move.read
-- move.read
SELECT t."shop", t."depot", t."number", t."stage", t."rev", t."weight", t."note", t."due", t."lane", t."tries", t."rests_until", t."started_at", t."returned_at", t."ready_at", t."gone_at", t."claimed_by", t."claimed_until", t."fence"
FROM "shop"."parcels" AS t
WHERE t."shop" = $1 AND
      t."depot" = $2 AND
      t."number" = $3

-- history: move.history
-- move.history
SELECT move, outcome, before, after, revision, actor, reason, call, at
FROM "shop"."parcel_history"
WHERE lifecycle = 'Parcel'
  AND key = $1
ORDER BY id DESC
LIMIT $2
