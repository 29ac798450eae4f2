-- receive: begin, inbox.receive, commit
-- inbox.receive
INSERT INTO "raceproof_inbox" (source, event_id, ordering_key, body, headers, status, received_at)
VALUES (?, ?, ?, ?, ?, 'received', strftime('%Y-%m-%d %H:%M:%f', 'now'))
ON CONFLICT (source, event_id) DO NOTHING
RETURNING source, event_id

-- receive again, at a given time: begin, inbox.receive, commit
-- inbox.receive
INSERT INTO "raceproof_inbox" (source, event_id, ordering_key, body, headers, status, received_at)
VALUES (?, ?, ?, ?, ?, 'received', ?)
ON CONFLICT (source, event_id) DO NOTHING
RETURNING source, event_id

-- receive many: begin, inbox.receive ×2, commit
-- claim: begin, claim.due, claim.take, commit, claim.spent
-- claim.due
SELECT t."source", t."event_id", t."status" AS rp_before, NULL AS rp_key
FROM "raceproof_inbox" AS t
WHERE t."status" IN ('received', 'processing')
      AND (t."claimed_until" IS NULL OR t."claimed_until" <= strftime('%Y-%m-%d %H:%M:%f', 'now') OR (t."claimed_until" > strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', 'now'), printf('%+.3f seconds', ?)), printf('%+.3f seconds', ?)) AND t."fence" > CAST((julianday(strftime('%Y-%m-%d %H:%M:%f', 'now')) - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) * 1000))
      AND (t."rests_until" IS NULL OR t."rests_until" <= strftime('%Y-%m-%d %H:%M:%f', 'now'))
      AND NOT EXISTS (SELECT 1 FROM "raceproof_inbox" AS e WHERE e."ordering_key" = t."ordering_key" AND e."status" IN ('received', 'processing') AND (e."id", e."source", e."event_id") < (t."id", t."source", t."event_id")) AND
      NOT EXISTS (SELECT 1 FROM "raceproof_inbox" AS e WHERE e."ordering_key" = t."ordering_key" AND e."status" IN ('received', 'processing') AND e."id" IS NULL AND (t."id" IS NOT NULL OR (e."source", e."event_id") < (t."source", t."event_id")))
      AND COALESCE(t."attempts", 0) < 10
ORDER BY t."id"
LIMIT ?

-- claim.take
UPDATE "raceproof_inbox" AS t
SET "status" = 'processing',
      "claimed_by" = ?,
      "claimed_until" = strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', 'now'), printf('%+.3f seconds', ?)),
      "fence" = max(COALESCE(t."fence", 0) + 1, CAST((julianday(strftime('%Y-%m-%d %H:%M:%f', 'now')) - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) * 1000),
      "attempts" = COALESCE(t."attempts", 0) + 1
FROM json_each(?) AS w
WHERE t."source" = json_extract(w.value, '$[0]') AND t."event_id" = json_extract(w.value, '$[1]')
RETURNING `source`, `event_id`, +`fence`, `attempts`, NULL, `body`, `headers`

-- claim.spent
SELECT t."source", t."event_id", t."status" AS rp_before, NULL AS rp_key
FROM "raceproof_inbox" AS t
WHERE t."status" IN ('received', 'processing')
      AND (t."claimed_until" IS NULL OR t."claimed_until" <= strftime('%Y-%m-%d %H:%M:%f', 'now') OR (t."claimed_until" > strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', 'now'), printf('%+.3f seconds', ?)), printf('%+.3f seconds', ?)) AND t."fence" > CAST((julianday(strftime('%Y-%m-%d %H:%M:%f', 'now')) - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) * 1000))
      AND (t."rests_until" IS NULL OR t."rests_until" <= strftime('%Y-%m-%d %H:%M:%f', 'now'))
      AND NOT EXISTS (SELECT 1 FROM "raceproof_inbox" AS e WHERE e."ordering_key" = t."ordering_key" AND e."status" IN ('received', 'processing') AND (e."id", e."source", e."event_id") < (t."id", t."source", t."event_id")) AND
      NOT EXISTS (SELECT 1 FROM "raceproof_inbox" AS e WHERE e."ordering_key" = t."ordering_key" AND e."status" IN ('received', 'processing') AND e."id" IS NULL AND (t."id" IS NOT NULL OR (e."source", e."event_id") < (t."source", t."event_id")))
      AND COALESCE(t."attempts", 0) >= 10
ORDER BY t."id"
LIMIT ?

-- fail: begin, claim.change, commit
-- claim.change
UPDATE "raceproof_inbox" AS t
SET "claimed_by" = NULL,
      "claimed_until" = NULL,
      "fence" = max(COALESCE(t."fence", 0) + 1, CAST((julianday(strftime('%Y-%m-%d %H:%M:%f', 'now')) - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) * 1000),
      "status" = 'received',
      "rests_until" = strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', 'now'), printf('%+.3f seconds', ?))
WHERE t."source" = ? AND
      t."event_id" = ?
  AND t."fence" = ?
  AND t."status" IN ('processing')
RETURNING +`fence`, NULL, NULL

-- finish: begin, move.write, commit
-- move.write
UPDATE "raceproof_inbox" AS t
SET "status" = 'done',
      "ended_at" = strftime('%Y-%m-%d %H:%M:%f', 'now'),
      "claimed_by" = NULL,
      "claimed_until" = NULL
WHERE t."source" = ? AND
      t."event_id" = ?
  AND t."status" = 'processing'
  AND t."fence" = ?
RETURNING NULL, NULL

-- forget: inbox.forget
-- inbox.forget
DELETE FROM "raceproof_inbox"
WHERE (source, event_id) IN (
    SELECT t.source, t.event_id
    FROM "raceproof_inbox" AS t
    WHERE t.status IN ('done', 'dead')
      AND t.ended_at < strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', 'now'), printf('%+.3f seconds', ?))
    LIMIT ?
)
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
WHERE t.status = ?
ORDER BY t.id
LIMIT ?
