-- acquire a lease: lease.acquire
-- acquire a lease by the store's clock: lease.acquire
-- acquire a lease, refused: lease.acquire, lease.look
-- renew a lease: lease.renew
-- renew a lease at a given time: lease.renew, lease.look
-- lease holder: lease.look
-- a move guarded by the epoch: move.one
-- move.one
WITH cur AS MATERIALIZED (
    SELECT t."job_id" AS rp_key_0,
           t."status"::text AS rp_before,
           NULL::bigint AS rp_revision,
           NULL::bigint AS rp_fence,
           NULL::text AS rp_key,
           CASE WHEN EXISTS (SELECT 1 FROM "raceproof_lease" AS l WHERE l.name = $1 AND l.epoch = $2 FOR SHARE) THEN 0 ELSE 4 END AS rp_unmet,
           CAST(t."claimed_by" AS text) AS rp_fenced_off
    FROM "jobs" AS t
    WHERE t."job_id" = $3
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

-- a claim guarded by the epoch: table.kind, claim.acquire, claim.dead_letter
-- claim.acquire
WITH cur AS MATERIALIZED (
    SELECT t."job_id" AS rp_key_0, t."status"::text AS rp_before
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
    FROM cur
    WHERE t."job_id" = cur.rp_key_0
      AND (t."claimed_until" IS NULL OR t."claimed_until" <= statement_timestamp() OR (t."claimed_until" > (SELECT statement_timestamp() + make_interval(secs => $1::float8) + make_interval(secs => $1::float8)) AND t."fence" > (SELECT (extract(epoch FROM statement_timestamp()) * 1000000)::bigint)))
    RETURNING t."fence" AS rp_fence, t."attempts" AS rp_attempts, cur.rp_before, NULL::text AS rp_key,
              NULL::bigint AS rp_revision, t."job_id" AS rp_key_0, t."made_at" AS rp_order_0
)
SELECT rp_fence, rp_attempts, rp_before, rp_key_0
FROM changed
ORDER BY rp_order_0

-- release a lease: lease.release
-- release a lease at a given time: lease.release, lease.look
