-- start: begin, attempt.look, attempt.insert, commit
-- attempt.look
SELECT t."status", CAST(t."user_id" AS TEXT), (strftime('%Y-%m-%d %H:%M:%f', t."started_at", printf('%+.3f seconds', ?)) > ?), t."status" IN ('pending', 'scanned'), t."login_id"
FROM "logins" AS t
WHERE (
        t."user_id" = ?
        AND t."status" IN ('pending', 'scanned')
      )
   OR (t."login_id" = ?)

-- attempt.insert
INSERT INTO "logins" ("login_id", "user_id", "status", "started_at", "device")
VALUES (?, ?, 'pending', ?, ?)
ON CONFLICT DO NOTHING
RETURNING CAST("login_id" AS TEXT)

-- start, superseding: begin, attempt.look, move.write, attempt.insert, commit
-- move.write
UPDATE "logins" AS t
SET "status" = 'superseded',
      "superseded_at" = ?,
      "superseded_by" = ?
WHERE t."login_id" = ?
  AND t."status" = 'pending'
RETURNING NULL, NULL

-- attempt.insert
INSERT INTO "logins" ("login_id", "user_id", "status", "started_at")
VALUES (?, ?, 'pending', ?)
ON CONFLICT DO NOTHING
RETURNING CAST("login_id" AS TEXT)

-- start by the store's clock: begin, attempt.look, attempt.insert, commit
-- attempt.look
SELECT t."status", CAST(t."user_id" AS TEXT), (strftime('%Y-%m-%d %H:%M:%f', t."started_at", printf('%+.3f seconds', ?)) > strftime('%Y-%m-%d %H:%M:%f', 'now')), t."status" IN ('pending', 'scanned'), t."login_id"
FROM "logins" AS t
WHERE (
        t."user_id" = ?
        AND t."status" IN ('pending', 'scanned')
      )
   OR (t."login_id" = ?)

-- attempt.insert
INSERT INTO "logins" ("login_id", "user_id", "status", "started_at")
VALUES (?, ?, 'pending', strftime('%Y-%m-%d %H:%M:%f', 'now'))
ON CONFLICT DO NOTHING
RETURNING CAST("login_id" AS TEXT)

-- start, keeping: begin, attempt.look, commit
-- start, rejecting: begin, attempt.look, commit
-- current attempt: table.columns, attempt.current
-- table.columns
SELECT name, type
FROM pragma_table_info('logins', NULL)
ORDER BY cid

-- attempt.current
SELECT t."login_id", t."user_id", t."status", t."started_at", t."superseded_by", t."superseded_at", t."device"
FROM "logins" AS t
WHERE t."user_id" = ?
  AND t."status" IN ('pending', 'scanned')
  AND (strftime('%Y-%m-%d %H:%M:%f', t."started_at", printf('%+.3f seconds', ?)) > strftime('%Y-%m-%d %H:%M:%f', 'now'))

-- current attempt at a given time: table.columns, attempt.current
-- attempt.current
SELECT t."login_id", t."user_id", t."status", t."started_at", t."superseded_by", t."superseded_at", t."device"
FROM "logins" AS t
WHERE t."user_id" = ?
  AND t."status" IN ('pending', 'scanned')
  AND (strftime('%Y-%m-%d %H:%M:%f', t."started_at", printf('%+.3f seconds', ?)) > ?)
