-- claim: table.kind, claim.acquire
-- claim.acquire
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
    FROM cur
    WHERE t."shop" = cur.rp_key_0 AND t."depot" = cur.rp_key_1 AND t."number" = cur.rp_key_2
      AND (t."claimed_until" IS NULL OR t."claimed_until" <= $1::timestamptz OR (t."claimed_until" > (SELECT $1::timestamptz + make_interval(secs => $2::float8) + make_interval(secs => $2::float8)) AND t."fence" > (SELECT (extract(epoch FROM $1::timestamptz) * 1000000)::bigint)))
    RETURNING t."fence" AS rp_fence, t."tries" AS rp_attempts, cur.rp_before, replace(replace(t."shop"::text, '%', '%25'), ':', '%3A') || ':' || replace(replace(t."depot"::text, '%', '%25'), ':', '%3A') || ':' || replace(replace(t."number"::text, '%', '%25'), ':', '%3A') AS rp_key,
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
    SELECT t."shop" AS rp_key_0, t."depot" AS rp_key_1, t."number" AS rp_key_2, t."stage"::text AS rp_before
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
    FROM cur
    WHERE t."shop" = cur.rp_key_0 AND t."depot" = cur.rp_key_1 AND t."number" = cur.rp_key_2
      AND (t."claimed_until" IS NULL OR t."claimed_until" <= statement_timestamp() OR (t."claimed_until" > (SELECT statement_timestamp() + make_interval(secs => $1::float8) + make_interval(secs => $1::float8)) AND t."fence" > (SELECT (extract(epoch FROM statement_timestamp()) * 1000000)::bigint)))
    RETURNING t."fence" AS rp_fence, t."tries" AS rp_attempts, cur.rp_before, replace(replace(t."shop"::text, '%', '%25'), ':', '%3A') || ':' || replace(replace(t."depot"::text, '%', '%25'), ':', '%3A') || ':' || replace(replace(t."number"::text, '%', '%25'), ':', '%3A') AS rp_key,
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
-- renew: table.columns, claim.change_many
-- release: claim.change_many
-- fail: claim.change_many
-- ready: move.one, move.who
-- ready many: move.many
-- move.many
WITH wanted AS (
    SELECT w.*
    FROM unnest($1::text[],
      $2::text[],
      $3::bigint[],
      $4::bigint[],
      $5::text[],
      $6::bigint[],
      $7::text[],
      $8::text[],
      $9::text[]) WITH ORDINALITY AS w (rp_wanted_0, rp_wanted_1, rp_wanted_2, rp_set_0, rp_set_1, rp_fence_wanted, rp_by, rp_reason, rp_call, rp_ord)
), cur AS MATERIALIZED (
    SELECT w.*,
           t."shop" AS rp_key_0, t."depot" AS rp_key_1, t."number" AS rp_key_2,
           t."stage"::text AS rp_before,
           t."rev" AS rp_revision,
           t."fence" AS rp_fence,
           replace(replace(t."shop"::text, '%', '%25'), ':', '%3A') || ':' || replace(replace(t."depot"::text, '%', '%25'), ':', '%3A') || ':' || replace(replace(t."number"::text, '%', '%25'), ':', '%3A') AS rp_key,
           CASE WHEN t."fence" = w.rp_fence_wanted THEN 0 ELSE 1 END AS rp_unmet
    FROM "shop"."parcels" AS t
    JOIN wanted AS w ON t."shop" = w.rp_wanted_0 AND t."depot" = w.rp_wanted_1 AND t."number" = w.rp_wanted_2
    ORDER BY t."shop", t."depot", t."number"
    FOR NO KEY UPDATE OF t
), changed AS (
    UPDATE "shop"."parcels" AS t
    SET "stage" = 'READY',
      "rev" = COALESCE(t."rev", 0) + 1,
      "ready_at" = clock_timestamp(),
      "claimed_by" = NULL,
      "claimed_until" = NULL,
      "weight" = cur.rp_set_0,
      "note" = cur.rp_set_1
    FROM cur
    WHERE t."shop" = cur.rp_key_0 AND t."depot" = cur.rp_key_1 AND t."number" = cur.rp_key_2
      AND cur.rp_before IN ('BUSY', 'NEW')
      AND cur.rp_unmet = 0
    RETURNING TRUE AS rp_won, cur.rp_ord, t."rev" AS rp_revision
), noted AS (
    INSERT INTO "shop"."parcel_history" (lifecycle, key, move, outcome, before, after, revision, actor, reason, call, at)
    SELECT 'Parcel', cur.rp_key, 'ready', CASE WHEN changed.rp_won THEN 'moved' WHEN cur.rp_unmet & 1 = 1 THEN 'lost' WHEN cur.rp_before = 'READY' AND cur.rp_unmet & ~0 = 0 THEN 'already' ELSE 'refused' END, cur.rp_before, 'READY',
           COALESCE(changed.rp_revision, cur.rp_revision), cur.rp_by::text, cur.rp_reason::text, cur.rp_call::text, clock_timestamp()
    FROM cur LEFT JOIN changed ON changed.rp_ord = cur.rp_ord
)
SELECT cur.rp_ord, cur.rp_before, cur.rp_revision, cur.rp_fence, cur.rp_unmet, cur.rp_key,
       changed.rp_won, changed.rp_revision
FROM cur LEFT JOIN changed ON changed.rp_ord = cur.rp_ord

-- start by key: move.fast
-- give up by key: move.one, move.who
-- give up many by key: move.many
-- give up what matches: move.matching
-- dead-lettered: claim.acquire, claim.dead_letter, claim.acquire, claim.dead_letter, claim.acquire, claim.dead_letter, claim.acquire, claim.dead_letter, claim.acquire, claim.dead_letter, claim.acquire, claim.dead_letter
-- claim.acquire
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
    FROM cur
    WHERE t."shop" = cur.rp_key_0 AND t."depot" = cur.rp_key_1 AND t."number" = cur.rp_key_2
      AND (t."claimed_until" IS NULL OR t."claimed_until" <= $1::timestamptz OR (t."claimed_until" > (SELECT $1::timestamptz + make_interval(secs => $2::float8) + make_interval(secs => $2::float8)) AND t."fence" > (SELECT (extract(epoch FROM $1::timestamptz) * 1000000)::bigint)))
    RETURNING t."fence" AS rp_fence, t."tries" AS rp_attempts, cur.rp_before, replace(replace(t."shop"::text, '%', '%25'), ':', '%3A') || ':' || replace(replace(t."depot"::text, '%', '%25'), ':', '%3A') || ':' || replace(replace(t."number"::text, '%', '%25'), ':', '%3A') AS rp_key,
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

-- claims: claim.list
-- read: table.columns, move.read
-- history: move.history
