-- acquire a lease: lease.acquire
-- lease.acquire
INSERT INTO "raceproof_lease" AS t (name, holder, epoch, until, since, session)
VALUES ($1, $2, (extract(epoch FROM $3::timestamptz) * 1000000)::bigint, $3::timestamptz + make_interval(secs => $4::float8), $3::timestamptz, $5)
ON CONFLICT (name) DO UPDATE
SET holder = EXCLUDED.holder,
    epoch = GREATEST(t.epoch + 1, EXCLUDED.epoch + 1),
    until = EXCLUDED.until,
    since = EXCLUDED.since,
    session = EXCLUDED.session
WHERE t.until IS NULL
   OR t.until <= $3::timestamptz
   OR (t.until > $3::timestamptz + make_interval(secs => $4::float8) + make_interval(secs => $4::float8) AND t.epoch > (extract(epoch FROM $3::timestamptz) * 1000000)::bigint)
   OR (t.session AND $6)
RETURNING epoch, epoch <> (extract(epoch FROM $3::timestamptz) * 1000000)::bigint

-- acquire a lease by the store's clock: lease.acquire
-- lease.acquire
INSERT INTO "raceproof_lease" AS t (name, holder, epoch, until, since, session)
VALUES ($1, $2, (extract(epoch FROM statement_timestamp()) * 1000000)::bigint, statement_timestamp() + make_interval(secs => $3::float8), statement_timestamp(), $4)
ON CONFLICT (name) DO UPDATE
SET holder = EXCLUDED.holder,
    epoch = GREATEST(t.epoch + 1, EXCLUDED.epoch + 1),
    until = EXCLUDED.until,
    since = EXCLUDED.since,
    session = EXCLUDED.session
WHERE t.until IS NULL
   OR t.until <= statement_timestamp()
   OR (t.until > statement_timestamp() + make_interval(secs => $3::float8) + make_interval(secs => $3::float8) AND t.epoch > (extract(epoch FROM statement_timestamp()) * 1000000)::bigint)
   OR (t.session AND $5)
RETURNING epoch, epoch <> (extract(epoch FROM statement_timestamp()) * 1000000)::bigint

-- acquire a lease, refused: lease.acquire, lease.look
-- lease.look
SELECT t.holder, t.epoch, t.until, t.until > statement_timestamp() AND NOT (t.until > statement_timestamp() + make_interval(secs => $1::float8) + make_interval(secs => $1::float8) AND t.epoch > (extract(epoch FROM statement_timestamp()) * 1000000)::bigint)
FROM "raceproof_lease" AS t
WHERE t.name = $2
FOR KEY SHARE OF t

-- renew a lease: lease.renew
-- lease.renew
UPDATE "raceproof_lease" AS t
SET until = statement_timestamp() + make_interval(secs => $1::float8),
    session = $2
WHERE t.name = $3
  AND t.holder = $4
  AND t.epoch = $5
  AND t.until IS NOT NULL
RETURNING epoch, FALSE

-- renew a lease at a given time: lease.renew, lease.look
-- lease.renew
UPDATE "raceproof_lease" AS t
SET until = $1::timestamptz + make_interval(secs => $2::float8),
    session = $3
WHERE t.name = $4
  AND t.holder = $5
  AND t.epoch = $6
  AND t.until IS NOT NULL
RETURNING epoch, FALSE

-- lease.look
SELECT t.holder, t.epoch, t.until, t.until > $1::timestamptz AND NOT (t.until > $1::timestamptz + make_interval(secs => $2::float8) + make_interval(secs => $2::float8) AND t.epoch > (extract(epoch FROM $1::timestamptz) * 1000000)::bigint)
FROM "raceproof_lease" AS t
WHERE t.name = $3
FOR KEY SHARE OF t

-- lease holder: lease.look
-- lease.look
SELECT t.holder, t.epoch, t.until, t.until > statement_timestamp() AND NOT (t.until > statement_timestamp() + make_interval(secs => $1::float8) + make_interval(secs => $1::float8) AND t.epoch > (extract(epoch FROM statement_timestamp()) * 1000000)::bigint)
FROM "raceproof_lease" AS t
WHERE t.name = $2

-- a move guarded by the epoch: move.fast without history
-- move.fast without history
UPDATE "jobs" AS t
SET "status" = 'DONE',
      "claimed_by" = NULL,
      "claimed_until" = NULL,
      "fence" = GREATEST(COALESCE(t."fence", 0) + 1, (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint))
WHERE t."job_id" = $1
  AND t."status" IN ('RUNNING')
  AND EXISTS (SELECT 1 FROM "raceproof_lease" AS l WHERE l.name = $2 AND l.epoch = $3 FOR SHARE)
RETURNING 'RUNNING', NULL::bigint, CAST(old."claimed_by" AS text) AS rp_fenced_off

-- a claim guarded by the epoch: table.kind, claim.acquire, claim.dead_letter
-- table.kind
SELECT relkind = 'p' OR relhassubclass OR relkind NOT IN ('r', 'p'), reltuples >= 1000
FROM pg_class
WHERE oid = '"jobs"'::regclass

-- claim.acquire
WITH cur AS MATERIALIZED (
    SELECT t.ctid AS rp_place
    FROM "jobs" AS t
    WHERE t."status" IN ('QUEUED', 'RUNNING')
      AND (t."claimed_until" IS NULL OR t."claimed_until" <= statement_timestamp() OR (t."claimed_until" > (SELECT statement_timestamp() + make_interval(secs => $1::float8) + make_interval(secs => $1::float8)) AND t."fence" > (SELECT (extract(epoch FROM statement_timestamp()) * 1000000)::bigint)))
      AND (t."not_before" IS NULL OR t."not_before" <= statement_timestamp())
      AND EXISTS (SELECT 1 FROM "raceproof_lease" AS l WHERE l.name = $2 AND l.epoch = $3 FOR SHARE)
      AND COALESCE(t."attempts", 0) < 3
    ORDER BY t."made_at"
    LIMIT $4
    FOR NO KEY UPDATE OF t SKIP LOCKED
), changed AS (
    UPDATE "jobs" AS t
    SET "status" = 'RUNNING',
      "claimed_by" = $5,
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

-- claim.dead_letter
WITH cur AS MATERIALIZED (
    SELECT t."job_id" AS rp_key_0, t."status"::text AS rp_before
    FROM "jobs" AS t
    WHERE t."status" IN ('QUEUED', 'RUNNING')
      AND (t."claimed_until" IS NULL OR t."claimed_until" <= statement_timestamp() OR (t."claimed_until" > (SELECT statement_timestamp() + make_interval(secs => $1::float8) + make_interval(secs => $1::float8)) AND t."fence" > (SELECT (extract(epoch FROM statement_timestamp()) * 1000000)::bigint)))
      AND (t."not_before" IS NULL OR t."not_before" <= statement_timestamp())
      AND EXISTS (SELECT 1 FROM "raceproof_lease" AS l WHERE l.name = $2 AND l.epoch = $3 FOR SHARE)
      AND COALESCE(t."attempts", 0) >= 3
    ORDER BY t."made_at"
    LIMIT $4
    FOR NO KEY UPDATE OF t SKIP LOCKED
), changed AS (
    UPDATE "jobs" AS t
    SET "status" = 'DEAD',
      "claimed_by" = NULL,
      "claimed_until" = NULL
    FROM cur
    WHERE t."job_id" = cur.rp_key_0
      AND (t."claimed_until" IS NULL OR t."claimed_until" <= statement_timestamp() OR (t."claimed_until" > (SELECT statement_timestamp() + make_interval(secs => $1::float8) + make_interval(secs => $1::float8)) AND t."fence" > (SELECT (extract(epoch FROM statement_timestamp()) * 1000000)::bigint)))
    RETURNING t."attempts" AS rp_attempts, cur.rp_before, NULL::text AS rp_key, NULL::bigint AS rp_revision, t."job_id" AS rp_key_0
)
SELECT rp_attempts, rp_key_0
FROM changed

-- release a lease: lease.release
-- lease.release
UPDATE "raceproof_lease" AS t
SET until = NULL
WHERE t.name = $1
  AND t.holder = $2
  AND t.epoch = $3
RETURNING epoch, FALSE

-- release a lease at a given time: lease.release, lease.look
