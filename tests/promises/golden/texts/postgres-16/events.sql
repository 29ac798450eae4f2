-- receive: inbox.receive
-- receive again, at a given time: inbox.receive, inbox.duplicates
-- receive many: inbox.receive, inbox.duplicates
-- claim: table.kind, claim.acquire, claim.dead_letter
-- claim.acquire
WITH cur AS MATERIALIZED (
    SELECT t."source" AS rp_key_0, t."event_id" AS rp_key_1, t."status"::text AS rp_before
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
    FROM cur
    WHERE t."source" = cur.rp_key_0 AND t."event_id" = cur.rp_key_1
      AND (t."claimed_until" IS NULL OR t."claimed_until" <= statement_timestamp() OR (t."claimed_until" > (SELECT statement_timestamp() + make_interval(secs => $1::float8) + make_interval(secs => $1::float8)) AND t."fence" > (SELECT (extract(epoch FROM statement_timestamp()) * 1000000)::bigint)))
    RETURNING t."fence" AS rp_fence, t."attempts" AS rp_attempts, cur.rp_before, NULL::text AS rp_key,
              NULL::bigint AS rp_revision, t."source" AS rp_key_0, t."event_id" AS rp_key_1, t."id" AS rp_order_0, t."body", t."headers"
)
SELECT rp_fence, rp_attempts, rp_before, rp_key_0, rp_key_1, changed."body", changed."headers"
FROM changed
ORDER BY rp_order_0

-- fail: table.columns, claim.change_many
-- finish: move.fast_many
-- forget: inbox.forget
-- counts: inbox.counts
-- list: inbox.list
