-- receive: inbox.receive
-- inbox.receive
WITH lines AS MATERIALIZED (
    SELECT count(pg_advisory_xact_lock(hashtextextended('raceproof_inbox:' || k, 0))) AS locked
    FROM (SELECT DISTINCT k FROM unnest($1::text[]) AS k WHERE k IS NOT NULL ORDER BY k) AS keys
)
INSERT INTO "raceproof_inbox" (source, event_id, ordering_key, body, headers, status, received_at)
SELECT COALESCE(w.source, ($2::text[])[1]), w.event_id, w.ordering_key, w.body, COALESCE(w.headers, '{}'),
       'received', statement_timestamp()
FROM unnest($2::text[], $3::text[], $1::text[], $4::bytea[], $5::text[])
     WITH ORDINALITY AS w (source, event_id, ordering_key, body, headers, place)
JOIN lines ON lines.locked >= 0
ORDER BY w.place
ON CONFLICT (source, event_id) DO NOTHING
RETURNING source, event_id

-- receive again, at a given time: inbox.receive, inbox.duplicates
-- inbox.receive
WITH lines AS MATERIALIZED (
    SELECT count(pg_advisory_xact_lock(hashtextextended('raceproof_inbox:' || k, 0))) AS locked
    FROM (SELECT DISTINCT k FROM unnest($1::text[]) AS k WHERE k IS NOT NULL ORDER BY k) AS keys
)
INSERT INTO "raceproof_inbox" (source, event_id, ordering_key, body, headers, status, received_at)
SELECT COALESCE(w.source, ($2::text[])[1]), w.event_id, w.ordering_key, w.body, COALESCE(w.headers, '{}'),
       'received', $3::timestamptz
FROM unnest($2::text[], $4::text[], $1::text[], $5::bytea[], $6::text[])
     WITH ORDINALITY AS w (source, event_id, ordering_key, body, headers, place)
JOIN lines ON lines.locked >= 0
ORDER BY w.place
ON CONFLICT (source, event_id) DO NOTHING
RETURNING source, event_id

-- inbox.duplicates
SELECT t.source, t.event_id
FROM "raceproof_inbox" AS t
JOIN unnest($1::text[], $2::text[]) AS w (source, event_id)
  ON t.source = COALESCE(w.source, ($1::text[])[1])
 AND t.event_id = w.event_id
ORDER BY t.source, t.event_id
FOR KEY SHARE OF t

-- receive many: inbox.receive, inbox.duplicates
-- claim: table.kind, claim.acquire, claim.dead_letter
-- table.kind
SELECT relkind = 'p' OR relhassubclass OR relkind NOT IN ('r', 'p'), reltuples >= 1000
FROM pg_class
WHERE oid = '"raceproof_inbox"'::regclass

-- claim.acquire
WITH cur AS MATERIALIZED (
    SELECT t.ctid AS rp_place
    FROM "raceproof_inbox" AS t
    WHERE t."status" IN ('received', 'processing')
      AND (t."claimed_until" IS NULL OR t."claimed_until" <= statement_timestamp() OR (t."claimed_until" > (SELECT statement_timestamp() + make_interval(secs => $1::float8) + make_interval(secs => $1::float8)) AND t."fence" > (SELECT (extract(epoch FROM statement_timestamp()) * 1000000)::bigint)))
      AND (t."rests_until" IS NULL OR t."rests_until" <= statement_timestamp())
      AND NOT EXISTS (SELECT 1 FROM "raceproof_inbox" AS e WHERE e."ordering_key" = t."ordering_key" AND e."status" IN ('received', 'processing') AND (e."id", e."source", e."event_id") < (t."id", t."source", t."event_id")) AND
      (t."id" IS NOT NULL OR NOT EXISTS (SELECT 1 FROM "raceproof_inbox" AS e WHERE e."ordering_key" = t."ordering_key" AND e."status" IN ('received', 'processing') AND (e."id" IS NOT NULL OR (e."source", e."event_id") < (t."source", t."event_id"))))
      AND COALESCE(t."attempts", 0) < 10
    ORDER BY t."id"
    LIMIT $2
    FOR NO KEY UPDATE OF t SKIP LOCKED
), changed AS (
    UPDATE "raceproof_inbox" AS t
    SET "status" = 'processing',
      "claimed_by" = $3,
      "claimed_until" = (SELECT statement_timestamp() + make_interval(secs => $1::float8)),
      "fence" = GREATEST(COALESCE(t."fence", 0) + 1, (SELECT (extract(epoch FROM statement_timestamp()) * 1000000)::bigint)),
      "attempts" = COALESCE(t."attempts", 0) + 1
    WHERE t.ctid = ANY (ARRAY(SELECT rp_place FROM cur))
      AND (t."claimed_until" IS NULL OR t."claimed_until" <= statement_timestamp() OR (t."claimed_until" > (SELECT statement_timestamp() + make_interval(secs => $1::float8) + make_interval(secs => $1::float8)) AND t."fence" > (SELECT (extract(epoch FROM statement_timestamp()) * 1000000)::bigint)))
    RETURNING t."fence" AS rp_fence, t."attempts" AS rp_attempts, old."status"::text AS rp_before, NULL::text AS rp_key,
              NULL::bigint AS rp_revision, t."source" AS rp_key_0, t."event_id" AS rp_key_1, t."id" AS rp_order_0, t."body", t."headers"
)
SELECT rp_fence, rp_attempts, rp_before, rp_key_0, rp_key_1, changed."body", changed."headers"
FROM changed
ORDER BY rp_order_0

-- claim.dead_letter
WITH cur AS MATERIALIZED (
    SELECT t."source" AS rp_key_0, t."event_id" AS rp_key_1, t."status"::text AS rp_before
    FROM "raceproof_inbox" AS t
    WHERE t."status" IN ('received', 'processing')
      AND (t."claimed_until" IS NULL OR t."claimed_until" <= statement_timestamp() OR (t."claimed_until" > (SELECT statement_timestamp() + make_interval(secs => $1::float8) + make_interval(secs => $1::float8)) AND t."fence" > (SELECT (extract(epoch FROM statement_timestamp()) * 1000000)::bigint)))
      AND (t."rests_until" IS NULL OR t."rests_until" <= statement_timestamp())
      AND NOT EXISTS (SELECT 1 FROM "raceproof_inbox" AS e WHERE e."ordering_key" = t."ordering_key" AND e."status" IN ('received', 'processing') AND (e."id", e."source", e."event_id") < (t."id", t."source", t."event_id")) AND
      (t."id" IS NOT NULL OR NOT EXISTS (SELECT 1 FROM "raceproof_inbox" AS e WHERE e."ordering_key" = t."ordering_key" AND e."status" IN ('received', 'processing') AND (e."id" IS NOT NULL OR (e."source", e."event_id") < (t."source", t."event_id"))))
      AND COALESCE(t."attempts", 0) >= 10
    ORDER BY t."id"
    LIMIT $2
    FOR NO KEY UPDATE OF t SKIP LOCKED
), changed AS (
    UPDATE "raceproof_inbox" AS t
    SET "status" = 'dead',
      "claimed_by" = NULL,
      "claimed_until" = NULL,
      "ended_at" = statement_timestamp()
    FROM cur
    WHERE t."source" = cur.rp_key_0 AND t."event_id" = cur.rp_key_1
      AND (t."claimed_until" IS NULL OR t."claimed_until" <= statement_timestamp() OR (t."claimed_until" > (SELECT statement_timestamp() + make_interval(secs => $1::float8) + make_interval(secs => $1::float8)) AND t."fence" > (SELECT (extract(epoch FROM statement_timestamp()) * 1000000)::bigint)))
    RETURNING t."attempts" AS rp_attempts, cur.rp_before, NULL::text AS rp_key, NULL::bigint AS rp_revision, t."source" AS rp_key_0, t."event_id" AS rp_key_1
)
SELECT rp_attempts, rp_key_0, rp_key_1
FROM changed

-- fail: table.columns, claim.change_many
-- table.columns
SELECT attname::text, format_type(atttypid, atttypmod)
FROM pg_attribute
WHERE attrelid = '"raceproof_inbox"'::regclass
  AND attnum > 0
  AND NOT attisdropped
ORDER BY attnum

-- claim.change_many
WITH wanted AS (
    SELECT w.*
    FROM unnest($1::text[],
      $2::text[],
      $3::bigint[],
      $4::float8[]) WITH ORDINALITY AS w (rp_wanted_0, rp_wanted_1, rp_fence_wanted, rp_delay, rp_ord)
), cur AS MATERIALIZED (
    SELECT w.rp_ord, t."source" AS rp_key_0, t."event_id" AS rp_key_1, t."status"::text AS rp_before, t."fence" AS rp_fence, t."claimed_by"::text AS rp_holder,
           (t."fence" = w.rp_fence_wanted AND t."status" IN ('processing')) IS TRUE AS rp_mine, w.rp_delay
    FROM "raceproof_inbox" AS t
    JOIN wanted AS w ON t."source" = w.rp_wanted_0 AND t."event_id" = w.rp_wanted_1
    ORDER BY t."source", t."event_id"
    FOR NO KEY UPDATE OF t
), changed AS (
    UPDATE "raceproof_inbox" AS t
    SET "claimed_by" = NULL,
      "claimed_until" = NULL,
      "fence" = GREATEST(COALESCE(t."fence", 0) + 1, (SELECT (extract(epoch FROM statement_timestamp()) * 1000000)::bigint)),
      "status" = 'received',
      "rests_until" = statement_timestamp() + make_interval(secs => cur.rp_delay::float8)
    FROM cur
    WHERE t."source" = cur.rp_key_0 AND t."event_id" = cur.rp_key_1
      AND cur.rp_mine
    RETURNING cur.rp_ord, t."fence" AS rp_fence, NULL::text AS rp_key, cur.rp_before, NULL::bigint AS rp_revision
)
SELECT cur.rp_ord, changed.rp_ord IS NOT NULL, COALESCE(changed.rp_fence, cur.rp_fence), cur.rp_before, cur.rp_holder
FROM cur LEFT JOIN changed ON changed.rp_ord = cur.rp_ord

-- finish: move.fast_many
-- move.fast_many
WITH changed AS (
    UPDATE "raceproof_inbox" AS t
    SET "status" = 'done',
      "ended_at" = clock_timestamp(),
      "claimed_by" = NULL,
      "claimed_until" = NULL
    FROM unnest($1::text[],
      $2::text[],
      $3::bigint[]) WITH ORDINALITY AS w (rp_wanted_0, rp_wanted_1, rp_fence_wanted, rp_ord)
    WHERE t."source" = w.rp_wanted_0 AND t."event_id" = w.rp_wanted_1
      AND t."status" IN ('processing')
      AND t."fence" = w.rp_fence_wanted
    RETURNING w.rp_ord, 'processing' AS rp_before, NULL::bigint AS rp_revision, NULL::text AS rp_key
)
SELECT array_agg(rp_ord), NULL, NULL
FROM changed

-- forget: inbox.forget
-- inbox.forget
WITH old AS MATERIALIZED (
    SELECT t.source, t.event_id
    FROM "raceproof_inbox" AS t
    WHERE t.status IN ('done', 'dead')
      AND t.ended_at < statement_timestamp() + make_interval(secs => $1::float8)
    LIMIT $2
    FOR UPDATE OF t SKIP LOCKED
)
DELETE FROM "raceproof_inbox" AS t
USING old
WHERE t.source = old.source
  AND t.event_id = old.event_id
RETURNING 1

-- counts: inbox.counts
-- inbox.counts
SELECT t.status, count(*), min(t.received_at)
FROM "raceproof_inbox" AS t
GROUP BY t.status
ORDER BY t.status

-- list: inbox.list
-- inbox.list
SELECT t.source, t.event_id, t.status, t.attempts, t.received_at, t.claimed_by, length(t.body)
FROM "raceproof_inbox" AS t
WHERE t.status = $1
ORDER BY t.id
LIMIT $2
