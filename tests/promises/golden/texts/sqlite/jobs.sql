-- offer: nothing
-- claim: begin, claim.due, claim.take, commit
-- claim.due
SELECT t."job_id", t."status" AS rp_before, NULL AS rp_key
FROM "jobs" AS t
WHERE t."status" IN ('QUEUED', 'RUNNING')
      AND (t."claimed_until" IS NULL OR t."claimed_until" <= ? OR (t."claimed_until" > strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', ?, printf('%+.3f seconds', ?)), printf('%+.3f seconds', ?)) AND t."fence" > CAST((julianday(?) - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) * 1000))
      AND (t."not_before" IS NULL OR t."not_before" <= ?)
      AND COALESCE(t."attempts", 0) < 3
ORDER BY t."made_at"
LIMIT ?

-- claim.take
UPDATE "jobs" AS t
SET "status" = 'RUNNING',
      "claimed_by" = ?,
      "claimed_until" = strftime('%Y-%m-%d %H:%M:%f', ?, printf('%+.3f seconds', ?)),
      "fence" = max(COALESCE(t."fence", 0) + 1, CAST((julianday(?) - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) * 1000),
      "attempts" = COALESCE(t."attempts", 0) + 1
FROM json_each(?) AS w
WHERE t."job_id" = json_extract(w.value, '$[0]')
RETURNING `job_id`, +`fence`, `attempts`, NULL

-- claim by the store's clock, returning: begin, claim.due, claim.take, commit
-- claim.due
SELECT t."job_id", t."status" AS rp_before, NULL AS rp_key
FROM "jobs" AS t
WHERE t."status" IN ('QUEUED', 'RUNNING')
      AND (t."claimed_until" IS NULL OR t."claimed_until" <= strftime('%Y-%m-%d %H:%M:%f', 'now') OR (t."claimed_until" > strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', 'now'), printf('%+.3f seconds', ?)), printf('%+.3f seconds', ?)) AND t."fence" > CAST((julianday(strftime('%Y-%m-%d %H:%M:%f', 'now')) - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) * 1000))
      AND (t."not_before" IS NULL OR t."not_before" <= strftime('%Y-%m-%d %H:%M:%f', 'now'))
      AND COALESCE(t."attempts", 0) < 3
ORDER BY t."made_at"
LIMIT ?

-- claim.take
UPDATE "jobs" AS t
SET "status" = 'RUNNING',
      "claimed_by" = ?,
      "claimed_until" = strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', 'now'), printf('%+.3f seconds', ?)),
      "fence" = max(COALESCE(t."fence", 0) + 1, CAST((julianday(strftime('%Y-%m-%d %H:%M:%f', 'now')) - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) * 1000),
      "attempts" = COALESCE(t."attempts", 0) + 1
FROM json_each(?) AS w
WHERE t."job_id" = json_extract(w.value, '$[0]')
RETURNING `job_id`, +`fence`, `attempts`, NULL, `made_at`

-- claim with a guard and another lease: begin, claim.due, claim.take, commit
-- claim.due
SELECT t."job_id", t."status" AS rp_before, NULL AS rp_key
FROM "jobs" AS t
WHERE t."status" IN ('QUEUED', 'RUNNING')
      AND (t."claimed_until" IS NULL OR t."claimed_until" <= strftime('%Y-%m-%d %H:%M:%f', 'now') OR (t."claimed_until" > strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', 'now'), printf('%+.3f seconds', ?)), printf('%+.3f seconds', ?)) AND t."fence" > CAST((julianday(strftime('%Y-%m-%d %H:%M:%f', 'now')) - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) * 1000))
      AND (t."not_before" IS NULL OR t."not_before" <= strftime('%Y-%m-%d %H:%M:%f', 'now'))
      AND t."result" is null
      AND COALESCE(t."attempts", 0) < 3
ORDER BY t."made_at"
LIMIT ?

-- claim.take
UPDATE "jobs" AS t
SET "status" = 'RUNNING',
      "claimed_by" = ?,
      "claimed_until" = strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', 'now'), printf('%+.3f seconds', ?)),
      "fence" = max(COALESCE(t."fence", 0) + 1, CAST((julianday(strftime('%Y-%m-%d %H:%M:%f', 'now')) - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) * 1000),
      "attempts" = COALESCE(t."attempts", 0) + 1
FROM json_each(?) AS w
WHERE t."job_id" = json_extract(w.value, '$[0]')
RETURNING `job_id`, +`fence`, `attempts`, NULL

-- claim_one, won: begin, claim.look, claim.take, commit
-- claim.look
SELECT t."status", CASE WHEN t."status" IN ('QUEUED', 'RUNNING') THEN 0 ELSE 1 END
         + CASE WHEN (t."claimed_until" IS NULL OR t."claimed_until" <= ? OR (t."claimed_until" > strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', ?, printf('%+.3f seconds', ?)), printf('%+.3f seconds', ?)) AND t."fence" > CAST((julianday(?) - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) * 1000)) THEN 0 ELSE 2 END
         + CASE WHEN (t."not_before" IS NULL OR t."not_before" <= ?) THEN 0 ELSE 4 END
         + CASE WHEN COALESCE(t."attempts", 0) < 3 THEN 0 ELSE 8 END, t."claimed_by", NULL
FROM "jobs" AS t
WHERE t."job_id" = ?

-- claim_one, taken: begin, claim.look, commit
-- claim_one, missing: begin, claim.look, commit
-- claim.look
SELECT t."status", CASE WHEN t."status" IN ('QUEUED', 'RUNNING') THEN 0 ELSE 1 END
         + CASE WHEN (t."claimed_until" IS NULL OR t."claimed_until" <= strftime('%Y-%m-%d %H:%M:%f', 'now') OR (t."claimed_until" > strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', 'now'), printf('%+.3f seconds', ?)), printf('%+.3f seconds', ?)) AND t."fence" > CAST((julianday(strftime('%Y-%m-%d %H:%M:%f', 'now')) - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) * 1000)) THEN 0 ELSE 2 END
         + CASE WHEN (t."not_before" IS NULL OR t."not_before" <= strftime('%Y-%m-%d %H:%M:%f', 'now')) THEN 0 ELSE 4 END
         + CASE WHEN COALESCE(t."attempts", 0) < 3 THEN 0 ELSE 8 END, t."claimed_by", NULL
FROM "jobs" AS t
WHERE t."job_id" = ?

-- renew: begin, claim.change, claim.found, claim.change, claim.found, claim.change ×3, commit
-- claim.change
UPDATE "jobs" AS t
SET "claimed_until" = strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', 'now'), printf('%+.3f seconds', ?))
WHERE t."job_id" = ?
  AND t."fence" = ?
  AND t."status" IN ('RUNNING')
RETURNING +`fence`, NULL, NULL

-- claim.found
SELECT +t."fence", t."status", t."claimed_by"
FROM "jobs" AS t
WHERE t."job_id" = ?

-- renew at a given time: begin, claim.change, claim.found, claim.change, claim.found, claim.change ×3, commit
-- claim.change
UPDATE "jobs" AS t
SET "claimed_until" = strftime('%Y-%m-%d %H:%M:%f', ?, printf('%+.3f seconds', ?))
WHERE t."job_id" = ?
  AND t."fence" = ?
  AND t."status" IN ('RUNNING')
RETURNING +`fence`, NULL, NULL

-- release: begin, claim.change, claim.found, commit
-- claim.change
UPDATE "jobs" AS t
SET "claimed_by" = NULL,
      "claimed_until" = NULL,
      "fence" = max(COALESCE(t."fence", 0) + 1, CAST((julianday(strftime('%Y-%m-%d %H:%M:%f', 'now')) - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) * 1000),
      "status" = 'QUEUED',
      "attempts" = CASE WHEN t."attempts" > 0 THEN t."attempts" - 1 ELSE 0 END
WHERE t."job_id" = ?
  AND t."fence" = ?
  AND t."status" IN ('RUNNING')
RETURNING +`fence`, NULL, NULL

-- release, lost: begin, claim.change, claim.found, commit
-- claim.change
UPDATE "jobs" AS t
SET "claimed_by" = NULL,
      "claimed_until" = NULL,
      "fence" = max(COALESCE(t."fence", 0) + 1, CAST((julianday(?) - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) * 1000),
      "status" = 'QUEUED',
      "attempts" = CASE WHEN t."attempts" > 0 THEN t."attempts" - 1 ELSE 0 END
WHERE t."job_id" = ?
  AND t."fence" = ?
  AND t."status" IN ('RUNNING')
RETURNING +`fence`, NULL, NULL

-- fail: begin, claim.change, claim.found, commit
-- claim.change
UPDATE "jobs" AS t
SET "claimed_by" = NULL,
      "claimed_until" = NULL,
      "fence" = max(COALESCE(t."fence", 0) + 1, CAST((julianday(strftime('%Y-%m-%d %H:%M:%f', 'now')) - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) * 1000),
      "status" = 'QUEUED',
      "not_before" = strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', 'now'), printf('%+.3f seconds', ?))
WHERE t."job_id" = ?
  AND t."fence" = ?
  AND t."status" IN ('RUNNING')
RETURNING +`fence`, NULL, NULL

-- fail at a given time: begin, claim.change, commit
-- claim.change
UPDATE "jobs" AS t
SET "claimed_by" = NULL,
      "claimed_until" = NULL,
      "fence" = max(COALESCE(t."fence", 0) + 1, CAST((julianday(?) - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) * 1000),
      "status" = 'QUEUED',
      "not_before" = strftime('%Y-%m-%d %H:%M:%f', ?, printf('%+.3f seconds', ?))
WHERE t."job_id" = ?
  AND t."fence" = ?
  AND t."status" IN ('RUNNING')
RETURNING +`fence`, NULL, NULL

-- finish: move.write
-- move.write
UPDATE "jobs" AS t
SET "status" = 'DONE',
      "claimed_by" = NULL,
      "claimed_until" = NULL,
      "result" = ?
WHERE t."job_id" = ?
  AND t."status" = 'RUNNING'
  AND t."fence" = ?
RETURNING NULL, NULL

-- finish, again: move.write, begin, move.write, move.look, commit
-- move.look
SELECT t."status" AS rp_before,
       NULL AS rp_revision,
       t."fence" AS rp_fence,
       CASE WHEN t."fence" = ? THEN 0 ELSE 1 END AS rp_unmet,
       NULL AS rp_key
FROM "jobs" AS t
WHERE t."job_id" = ?

-- finish many of several claims: begin, move.write_fenced, commit
-- move.write_fenced
UPDATE "jobs" AS t
SET "status" = 'DONE',
      "claimed_by" = NULL,
      "claimed_until" = NULL
FROM json_each(?) AS w
WHERE t."job_id" = json_extract(w.value, '$[0]')
  AND t."status" = 'RUNNING'
  AND t."fence" = json_extract(w.value, '$[1]')
RETURNING "job_id", NULL, NULL

-- finish many of one claim: begin, move.write_fenced, commit
-- finish many with columns: begin, move.write ×2, commit
-- claim, with rows out of attempts: begin, claim.due, commit, claim.spent
-- claim.spent
SELECT t."job_id", t."status" AS rp_before, NULL AS rp_key
FROM "jobs" AS t
WHERE t."status" IN ('QUEUED', 'RUNNING')
      AND (t."claimed_until" IS NULL OR t."claimed_until" <= ? OR (t."claimed_until" > strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', ?, printf('%+.3f seconds', ?)), printf('%+.3f seconds', ?)) AND t."fence" > CAST((julianday(?) - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) * 1000))
      AND (t."not_before" IS NULL OR t."not_before" <= ?)
      AND COALESCE(t."attempts", 0) >= 3
ORDER BY t."made_at"
LIMIT ?

-- move of a row by key: begin, move.held, move.write, commit
-- move.held
SELECT CAST(t."claimed_by" AS text)
FROM "jobs" AS t
WHERE t."job_id" = ?

-- move.write
UPDATE "jobs" AS t
SET "status" = 'DONE',
      "claimed_by" = NULL,
      "claimed_until" = NULL,
      "fence" = max(COALESCE(t."fence", 0) + 1, CAST((julianday(strftime('%Y-%m-%d %H:%M:%f', 'now')) - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) * 1000)
WHERE t."job_id" = ?
  AND t."status" = 'RUNNING'
RETURNING NULL, NULL

-- move of a row by key that ends its claim: begin, move.held, move.write ×2, commit
-- move.write
UPDATE "jobs" AS t
SET "status" = 'DEAD',
      "claimed_by" = NULL,
      "claimed_until" = NULL,
      "fence" = max(COALESCE(t."fence", 0) + 1, CAST((julianday(strftime('%Y-%m-%d %H:%M:%f', 'now')) - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) * 1000)
WHERE t."job_id" = ?
  AND t."status" = 'QUEUED'
RETURNING NULL, NULL, `result`

-- move.write
UPDATE "jobs" AS t
SET "status" = 'DEAD',
      "claimed_by" = NULL,
      "claimed_until" = NULL,
      "fence" = max(COALESCE(t."fence", 0) + 1, CAST((julianday(strftime('%Y-%m-%d %H:%M:%f', 'now')) - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) * 1000)
WHERE t."job_id" = ?
  AND t."status" = 'RUNNING'
RETURNING NULL, NULL, `result`

-- move_many of rows by key: begin, move.held, move.write ×2, move.look, move.held, move.write ×2, move.look, commit
-- move.write
UPDATE "jobs" AS t
SET "status" = 'DEAD',
      "claimed_by" = NULL,
      "claimed_until" = NULL,
      "fence" = max(COALESCE(t."fence", 0) + 1, CAST((julianday(strftime('%Y-%m-%d %H:%M:%f', 'now')) - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) * 1000)
WHERE t."job_id" = ?
  AND t."status" = 'QUEUED'
RETURNING NULL, NULL

-- move.write
UPDATE "jobs" AS t
SET "status" = 'DEAD',
      "claimed_by" = NULL,
      "claimed_until" = NULL,
      "fence" = max(COALESCE(t."fence", 0) + 1, CAST((julianday(strftime('%Y-%m-%d %H:%M:%f', 'now')) - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) * 1000)
WHERE t."job_id" = ?
  AND t."status" = 'RUNNING'
RETURNING NULL, NULL

-- move.look
SELECT t."status" AS rp_before,
       NULL AS rp_revision,
       NULL AS rp_fence,
       0 AS rp_unmet,
       NULL AS rp_key
FROM "jobs" AS t
WHERE t."job_id" = ?

-- claims: claim.list
-- claim.list
SELECT t."claimed_until" AS rp_until, t."claimed_until" <= strftime('%Y-%m-%d %H:%M:%f', 'now') AS rp_stale, t."status", t."claimed_by", +t."fence", t."attempts", t."job_id"
FROM "jobs" AS t
WHERE t."status" IN ('QUEUED', 'RUNNING')
  AND t."claimed_until" IS NOT NULL
ORDER BY rp_until
LIMIT ?

-- add_waiting: claim.add
-- claim.add
INSERT INTO "jobs" ("job_id", "status")
VALUES (?, 'QUEUED')
ON CONFLICT DO NOTHING
