-- acquire a lease: lease.acquire
-- lease.acquire
INSERT INTO "raceproof_lease" AS t (name, holder, epoch, until, since, session)
VALUES (?, ?, CAST((julianday(?) - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) * 1000, strftime('%Y-%m-%d %H:%M:%f', ?, printf('%+.3f seconds', ?)), ?, ?)
ON CONFLICT (name) DO UPDATE
SET holder = EXCLUDED.holder,
    epoch = max(t.epoch + 1, EXCLUDED.epoch + 1),
    until = EXCLUDED.until,
    since = EXCLUDED.since,
    session = EXCLUDED.session
WHERE t.until IS NULL
   OR t.until <= ?
   OR (t.until > strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', ?, printf('%+.3f seconds', ?)), printf('%+.3f seconds', ?)) AND t.epoch > CAST((julianday(?) - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) * 1000)
   OR (t.session AND ?)
RETURNING epoch, epoch <> CAST((julianday(?) - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) * 1000

-- acquire a lease by the store's clock: lease.acquire
-- lease.acquire
INSERT INTO "raceproof_lease" AS t (name, holder, epoch, until, since, session)
VALUES (?, ?, CAST((julianday(strftime('%Y-%m-%d %H:%M:%f', 'now')) - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) * 1000, strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', 'now'), printf('%+.3f seconds', ?)), strftime('%Y-%m-%d %H:%M:%f', 'now'), ?)
ON CONFLICT (name) DO UPDATE
SET holder = EXCLUDED.holder,
    epoch = max(t.epoch + 1, EXCLUDED.epoch + 1),
    until = EXCLUDED.until,
    since = EXCLUDED.since,
    session = EXCLUDED.session
WHERE t.until IS NULL
   OR t.until <= strftime('%Y-%m-%d %H:%M:%f', 'now')
   OR (t.until > strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', 'now'), printf('%+.3f seconds', ?)), printf('%+.3f seconds', ?)) AND t.epoch > CAST((julianday(strftime('%Y-%m-%d %H:%M:%f', 'now')) - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) * 1000)
   OR (t.session AND ?)
RETURNING epoch, epoch <> CAST((julianday(strftime('%Y-%m-%d %H:%M:%f', 'now')) - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) * 1000

-- acquire a lease, refused: lease.acquire, lease.look
-- lease.look
SELECT t.holder, t.epoch, t.until, t.until > strftime('%Y-%m-%d %H:%M:%f', 'now') AND NOT (t.until > strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', 'now'), printf('%+.3f seconds', ?)), printf('%+.3f seconds', ?)) AND t.epoch > CAST((julianday(strftime('%Y-%m-%d %H:%M:%f', 'now')) - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) * 1000)
FROM "raceproof_lease" AS t
WHERE t.name = ?

-- renew a lease: lease.renew
-- lease.renew
UPDATE "raceproof_lease" AS t
SET until = strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', 'now'), printf('%+.3f seconds', ?)),
    session = ?
WHERE t.name = ?
  AND t.holder = ?
  AND t.epoch = ?
  AND t.until IS NOT NULL
RETURNING epoch, FALSE

-- renew a lease at a given time: lease.renew, lease.look
-- lease.renew
UPDATE "raceproof_lease" AS t
SET until = strftime('%Y-%m-%d %H:%M:%f', ?, printf('%+.3f seconds', ?)),
    session = ?
WHERE t.name = ?
  AND t.holder = ?
  AND t.epoch = ?
  AND t.until IS NOT NULL
RETURNING epoch, FALSE

-- lease.look
SELECT t.holder, t.epoch, t.until, t.until > ? AND NOT (t.until > strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', ?, printf('%+.3f seconds', ?)), printf('%+.3f seconds', ?)) AND t.epoch > CAST((julianday(?) - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) * 1000)
FROM "raceproof_lease" AS t
WHERE t.name = ?

-- lease holder: lease.look
-- a move guarded by the epoch: begin, move.held, move.write, commit
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
  AND EXISTS (SELECT 1 FROM "raceproof_lease" AS l WHERE l.name = ? AND l.epoch = ?)
RETURNING NULL, NULL

-- a claim guarded by the epoch: begin, claim.due, commit, claim.spent
-- claim.due
SELECT t."job_id", t."status" AS rp_before, NULL AS rp_key
FROM "jobs" AS t
WHERE t."status" IN ('QUEUED', 'RUNNING')
      AND (t."claimed_until" IS NULL OR t."claimed_until" <= strftime('%Y-%m-%d %H:%M:%f', 'now') OR (t."claimed_until" > strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', 'now'), printf('%+.3f seconds', ?)), printf('%+.3f seconds', ?)) AND t."fence" > CAST((julianday(strftime('%Y-%m-%d %H:%M:%f', 'now')) - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) * 1000))
      AND (t."not_before" IS NULL OR t."not_before" <= strftime('%Y-%m-%d %H:%M:%f', 'now'))
      AND EXISTS (SELECT 1 FROM "raceproof_lease" AS l WHERE l.name = ? AND l.epoch = ?)
      AND COALESCE(t."attempts", 0) < 3
ORDER BY t."made_at"
LIMIT ?

-- claim.spent
SELECT t."job_id", t."status" AS rp_before, NULL AS rp_key
FROM "jobs" AS t
WHERE t."status" IN ('QUEUED', 'RUNNING')
      AND (t."claimed_until" IS NULL OR t."claimed_until" <= strftime('%Y-%m-%d %H:%M:%f', 'now') OR (t."claimed_until" > strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', 'now'), printf('%+.3f seconds', ?)), printf('%+.3f seconds', ?)) AND t."fence" > CAST((julianday(strftime('%Y-%m-%d %H:%M:%f', 'now')) - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) * 1000))
      AND (t."not_before" IS NULL OR t."not_before" <= strftime('%Y-%m-%d %H:%M:%f', 'now'))
      AND EXISTS (SELECT 1 FROM "raceproof_lease" AS l WHERE l.name = ? AND l.epoch = ?)
      AND COALESCE(t."attempts", 0) >= 3
ORDER BY t."made_at"
LIMIT ?

-- release a lease: lease.release
-- lease.release
UPDATE "raceproof_lease" AS t
SET until = NULL
WHERE t.name = ?
  AND t.holder = ?
  AND t.epoch = ?
RETURNING epoch, FALSE

-- release a lease at a given time: lease.release, lease.look
