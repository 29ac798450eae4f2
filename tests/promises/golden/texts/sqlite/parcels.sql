-- claim: begin, claim.due, claim.take, claim.note ×3, commit
-- claim.due
SELECT t."shop", t."depot", t."number", t."stage" AS rp_before, replace(replace(CAST(t."shop" AS TEXT), '%', '%25'), ':', '%3A') || ':' || replace(replace(CAST(t."depot" AS TEXT), '%', '%25'), ':', '%3A') || ':' || replace(replace(CAST(t."number" AS TEXT), '%', '%25'), ':', '%3A') AS rp_key
FROM "shop"."parcels" AS t
WHERE t."stage" IN ('NEW', 'BUSY')
      AND (t."claimed_until" IS NULL OR t."claimed_until" <= ? OR (t."claimed_until" > strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', ?, printf('%+.3f seconds', ?)), printf('%+.3f seconds', ?)) AND t."fence" > CAST((julianday(?) - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) * 1000))
      AND (t."rests_until" IS NULL OR t."rests_until" <= ?)
      AND t."shop" = ?
      AND t."weight" is not null
      AND t."lane" <> ?
      AND t."weight" < ?
      AND NOT EXISTS (SELECT 1 FROM "shop"."parcels" AS e WHERE e."lane" = t."lane" AND e."stage" IN ('NEW', 'BUSY') AND e."shop" = t."shop" AND (e."due", e."weight", e."depot", e."number") < (t."due", t."weight", t."depot", t."number")) AND
      NOT EXISTS (SELECT 1 FROM "shop"."parcels" AS e WHERE e."lane" = t."lane" AND e."stage" IN ('NEW', 'BUSY') AND e."shop" = t."shop" AND e."due" IS NULL AND (t."due" IS NOT NULL OR (e."weight", e."depot", e."number") < (t."weight", t."depot", t."number"))) AND
      NOT EXISTS (SELECT 1 FROM "shop"."parcels" AS e WHERE e."lane" = t."lane" AND e."stage" IN ('NEW', 'BUSY') AND e."shop" = t."shop" AND e."due" IS t."due" AND e."weight" IS NULL AND (t."weight" IS NOT NULL OR (e."depot", e."number") < (t."depot", t."number")))
      AND COALESCE(t."tries", 0) < 4
ORDER BY t."due", t."weight"
LIMIT ?

-- claim.take
UPDATE "shop"."parcels" AS t
SET "stage" = 'BUSY',
      "started_at" = ?,
      "rev" = COALESCE(t."rev", 0) + 1,
      "claimed_by" = ?,
      "claimed_until" = strftime('%Y-%m-%d %H:%M:%f', ?, printf('%+.3f seconds', ?)),
      "fence" = max(COALESCE(t."fence", 0) + 1, CAST((julianday(?) - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) * 1000),
      "tries" = COALESCE(t."tries", 0) + 1
FROM json_each(?) AS w
WHERE t."shop" = json_extract(w.value, '$[0]') AND t."depot" = json_extract(w.value, '$[1]') AND t."number" = json_extract(w.value, '$[2]')
RETURNING `shop`, `depot`, `number`, +`fence`, `tries`, `rev`, `weight`

-- claim.note
INSERT INTO "shop"."parcel_history" (lifecycle, key, move, outcome, before, after, revision, actor, reason, at)
VALUES ('Parcel', ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- claim by the store's clock: begin, claim.due, claim.take, claim.note ×3, commit
-- claim.due
SELECT t."shop", t."depot", t."number", t."stage" AS rp_before, replace(replace(CAST(t."shop" AS TEXT), '%', '%25'), ':', '%3A') || ':' || replace(replace(CAST(t."depot" AS TEXT), '%', '%25'), ':', '%3A') || ':' || replace(replace(CAST(t."number" AS TEXT), '%', '%25'), ':', '%3A') AS rp_key
FROM "shop"."parcels" AS t
WHERE t."stage" IN ('NEW', 'BUSY')
      AND (t."claimed_until" IS NULL OR t."claimed_until" <= strftime('%Y-%m-%d %H:%M:%f', 'now') OR (t."claimed_until" > strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', 'now'), printf('%+.3f seconds', ?)), printf('%+.3f seconds', ?)) AND t."fence" > CAST((julianday(strftime('%Y-%m-%d %H:%M:%f', 'now')) - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) * 1000))
      AND (t."rests_until" IS NULL OR t."rests_until" <= strftime('%Y-%m-%d %H:%M:%f', 'now'))
      AND t."shop" = ?
      AND t."weight" is not null
      AND t."lane" <> ?
      AND t."weight" < ?
      AND NOT EXISTS (SELECT 1 FROM "shop"."parcels" AS e WHERE e."lane" = t."lane" AND e."stage" IN ('NEW', 'BUSY') AND e."shop" = t."shop" AND (e."due", e."weight", e."depot", e."number") < (t."due", t."weight", t."depot", t."number")) AND
      NOT EXISTS (SELECT 1 FROM "shop"."parcels" AS e WHERE e."lane" = t."lane" AND e."stage" IN ('NEW', 'BUSY') AND e."shop" = t."shop" AND e."due" IS NULL AND (t."due" IS NOT NULL OR (e."weight", e."depot", e."number") < (t."weight", t."depot", t."number"))) AND
      NOT EXISTS (SELECT 1 FROM "shop"."parcels" AS e WHERE e."lane" = t."lane" AND e."stage" IN ('NEW', 'BUSY') AND e."shop" = t."shop" AND e."due" IS t."due" AND e."weight" IS NULL AND (t."weight" IS NOT NULL OR (e."depot", e."number") < (t."depot", t."number")))
      AND COALESCE(t."tries", 0) < 4
ORDER BY t."due", t."weight"
LIMIT ?

-- claim.take
UPDATE "shop"."parcels" AS t
SET "stage" = 'BUSY',
      "started_at" = strftime('%Y-%m-%d %H:%M:%f', 'now'),
      "rev" = COALESCE(t."rev", 0) + 1,
      "claimed_by" = ?,
      "claimed_until" = strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', 'now'), printf('%+.3f seconds', ?)),
      "fence" = max(COALESCE(t."fence", 0) + 1, CAST((julianday(strftime('%Y-%m-%d %H:%M:%f', 'now')) - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) * 1000),
      "tries" = COALESCE(t."tries", 0) + 1
FROM json_each(?) AS w
WHERE t."shop" = json_extract(w.value, '$[0]') AND t."depot" = json_extract(w.value, '$[1]') AND t."number" = json_extract(w.value, '$[2]')
RETURNING `shop`, `depot`, `number`, +`fence`, `tries`, `rev`

-- claim.note
INSERT INTO "shop"."parcel_history" (lifecycle, key, move, outcome, before, after, revision, actor, reason, at)
VALUES ('Parcel', ?, ?, ?, ?, ?, ?, ?, ?, strftime('%Y-%m-%d %H:%M:%f', 'now'))

-- claim_one: begin, claim.look, commit
-- claim.look
SELECT t."stage", CASE WHEN t."stage" IN ('NEW', 'BUSY') THEN 0 ELSE 1 END
         + CASE WHEN (t."claimed_until" IS NULL OR t."claimed_until" <= ? OR (t."claimed_until" > strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', ?, printf('%+.3f seconds', ?)), printf('%+.3f seconds', ?)) AND t."fence" > CAST((julianday(?) - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) * 1000)) THEN 0 ELSE 2 END
         + CASE WHEN (t."rests_until" IS NULL OR t."rests_until" <= ?) THEN 0 ELSE 4 END
         + CASE WHEN COALESCE(t."tries", 0) < 4 THEN 0 ELSE 8 END
         + CASE WHEN t."weight" is not null THEN 0 ELSE 32 END
         + CASE WHEN t."lane" <> ? THEN 0 ELSE 64 END
         + CASE WHEN t."weight" < ? THEN 0 ELSE 128 END
         + CASE WHEN NOT EXISTS (SELECT 1 FROM "shop"."parcels" AS e WHERE e."lane" = t."lane" AND e."stage" IN ('NEW', 'BUSY') AND e."shop" = t."shop" AND (e."due", e."weight", e."depot", e."number") < (t."due", t."weight", t."depot", t."number")) AND
      NOT EXISTS (SELECT 1 FROM "shop"."parcels" AS e WHERE e."lane" = t."lane" AND e."stage" IN ('NEW', 'BUSY') AND e."shop" = t."shop" AND e."due" IS NULL AND (t."due" IS NOT NULL OR (e."weight", e."depot", e."number") < (t."weight", t."depot", t."number"))) AND
      NOT EXISTS (SELECT 1 FROM "shop"."parcels" AS e WHERE e."lane" = t."lane" AND e."stage" IN ('NEW', 'BUSY') AND e."shop" = t."shop" AND e."due" IS t."due" AND e."weight" IS NULL AND (t."weight" IS NOT NULL OR (e."depot", e."number") < (t."depot", t."number"))) THEN 0 ELSE 16 END, t."claimed_by", replace(replace(CAST(t."shop" AS TEXT), '%', '%25'), ':', '%3A') || ':' || replace(replace(CAST(t."depot" AS TEXT), '%', '%25'), ':', '%3A') || ':' || replace(replace(CAST(t."number" AS TEXT), '%', '%25'), ':', '%3A')
FROM "shop"."parcels" AS t
WHERE t."shop" = ? AND
      t."depot" = ? AND
      t."number" = ?

-- renew: begin, claim.change, claim.found, claim.change, claim.found, claim.change, claim.found, commit
-- claim.change
UPDATE "shop"."parcels" AS t
SET "claimed_until" = strftime('%Y-%m-%d %H:%M:%f', ?, printf('%+.3f seconds', ?))
WHERE t."shop" = ? AND
      t."depot" = ? AND
      t."number" = ?
  AND t."fence" = ?
  AND t."stage" IN ('BUSY')
RETURNING +`fence`, replace(replace(CAST("shop" AS TEXT), '%', '%25'), ':', '%3A') || ':' || replace(replace(CAST("depot" AS TEXT), '%', '%25'), ':', '%3A') || ':' || replace(replace(CAST("number" AS TEXT), '%', '%25'), ':', '%3A'), `rev`

-- claim.found
SELECT +t."fence", t."stage", t."claimed_by"
FROM "shop"."parcels" AS t
WHERE t."shop" = ? AND
      t."depot" = ? AND
      t."number" = ?

-- release: begin, claim.change, claim.found, commit
-- claim.change
UPDATE "shop"."parcels" AS t
SET "claimed_by" = NULL,
      "claimed_until" = NULL,
      "fence" = max(COALESCE(t."fence", 0) + 1, CAST((julianday(?) - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) * 1000),
      "stage" = 'NEW',
      "returned_at" = ?,
      "rev" = COALESCE(t."rev", 0) + 1,
      "tries" = CASE WHEN t."tries" > 0 THEN t."tries" - 1 ELSE 0 END
WHERE t."shop" = ? AND
      t."depot" = ? AND
      t."number" = ?
  AND t."fence" = ?
  AND t."stage" IN ('BUSY')
RETURNING +`fence`, replace(replace(CAST("shop" AS TEXT), '%', '%25'), ':', '%3A') || ':' || replace(replace(CAST("depot" AS TEXT), '%', '%25'), ':', '%3A') || ':' || replace(replace(CAST("number" AS TEXT), '%', '%25'), ':', '%3A'), `rev`

-- fail: begin, claim.change, claim.found, commit
-- claim.change
UPDATE "shop"."parcels" AS t
SET "claimed_by" = NULL,
      "claimed_until" = NULL,
      "fence" = max(COALESCE(t."fence", 0) + 1, CAST((julianday(?) - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) * 1000),
      "stage" = 'NEW',
      "returned_at" = ?,
      "rev" = COALESCE(t."rev", 0) + 1,
      "rests_until" = strftime('%Y-%m-%d %H:%M:%f', ?, printf('%+.3f seconds', ?))
WHERE t."shop" = ? AND
      t."depot" = ? AND
      t."number" = ?
  AND t."fence" = ?
  AND t."stage" IN ('BUSY')
RETURNING +`fence`, replace(replace(CAST("shop" AS TEXT), '%', '%25'), ':', '%3A') || ':' || replace(replace(CAST("depot" AS TEXT), '%', '%25'), ':', '%3A') || ':' || replace(replace(CAST("number" AS TEXT), '%', '%25'), ':', '%3A'), `rev`

-- ready: begin, move.write ×2, move.look, move.who, move.note, commit
-- move.write
UPDATE "shop"."parcels" AS t
SET "stage" = 'READY',
      "rev" = COALESCE(t."rev", 0) + 1,
      "ready_at" = strftime('%Y-%m-%d %H:%M:%f', 'now'),
      "claimed_by" = NULL,
      "claimed_until" = NULL,
      "weight" = ?,
      "note" = ?
WHERE t."shop" = ? AND
      t."depot" = ? AND
      t."number" = ?
  AND t."stage" = 'BUSY'
  AND t."fence" = ?
RETURNING `rev`, replace(replace(CAST("shop" AS TEXT), '%', '%25'), ':', '%3A') || ':' || replace(replace(CAST("depot" AS TEXT), '%', '%25'), ':', '%3A') || ':' || replace(replace(CAST("number" AS TEXT), '%', '%25'), ':', '%3A'), `note`

-- move.write
UPDATE "shop"."parcels" AS t
SET "stage" = 'READY',
      "rev" = COALESCE(t."rev", 0) + 1,
      "ready_at" = strftime('%Y-%m-%d %H:%M:%f', 'now'),
      "claimed_by" = NULL,
      "claimed_until" = NULL,
      "weight" = ?,
      "note" = ?
WHERE t."shop" = ? AND
      t."depot" = ? AND
      t."number" = ?
  AND t."stage" = 'NEW'
  AND t."fence" = ?
RETURNING `rev`, replace(replace(CAST("shop" AS TEXT), '%', '%25'), ':', '%3A') || ':' || replace(replace(CAST("depot" AS TEXT), '%', '%25'), ':', '%3A') || ':' || replace(replace(CAST("number" AS TEXT), '%', '%25'), ':', '%3A'), `note`

-- move.look
SELECT t."stage" AS rp_before,
       t."rev" AS rp_revision,
       t."fence" AS rp_fence,
       CASE WHEN t."fence" = ? THEN 0 ELSE 1 END AS rp_unmet,
       replace(replace(CAST(t."shop" AS TEXT), '%', '%25'), ':', '%3A') || ':' || replace(replace(CAST(t."depot" AS TEXT), '%', '%25'), ':', '%3A') || ':' || replace(replace(CAST(t."number" AS TEXT), '%', '%25'), ':', '%3A') AS rp_key
FROM "shop"."parcels" AS t
WHERE t."shop" = ? AND
      t."depot" = ? AND
      t."number" = ?

-- move.who
SELECT after, revision, actor
FROM "shop"."parcel_history"
WHERE lifecycle = 'Parcel'
  AND key = ?
  AND outcome = 'moved'
ORDER BY id DESC
LIMIT 1

-- move.note
INSERT INTO "shop"."parcel_history" (lifecycle, key, move, outcome, before, after, revision, actor, reason, call, at)
VALUES ('Parcel', ?, 'ready', ?, ?, 'READY', ?, ?, ?, ?, strftime('%Y-%m-%d %H:%M:%f', 'now'))

-- ready many: begin, move.write, move.note, move.write, move.note, move.write, move.note, commit
-- move.write
UPDATE "shop"."parcels" AS t
SET "stage" = 'READY',
      "rev" = COALESCE(t."rev", 0) + 1,
      "ready_at" = strftime('%Y-%m-%d %H:%M:%f', 'now'),
      "claimed_by" = NULL,
      "claimed_until" = NULL,
      "weight" = ?,
      "note" = ?
WHERE t."shop" = ? AND
      t."depot" = ? AND
      t."number" = ?
  AND t."stage" = 'BUSY'
  AND t."fence" = ?
RETURNING `rev`, replace(replace(CAST("shop" AS TEXT), '%', '%25'), ':', '%3A') || ':' || replace(replace(CAST("depot" AS TEXT), '%', '%25'), ':', '%3A') || ':' || replace(replace(CAST("number" AS TEXT), '%', '%25'), ':', '%3A')

-- start by key: begin, move.write, move.note, commit
-- move.write
UPDATE "shop"."parcels" AS t
SET "stage" = 'BUSY',
      "rev" = COALESCE(t."rev", 0) + 1,
      "started_at" = strftime('%Y-%m-%d %H:%M:%f', 'now')
WHERE t."shop" = ? AND
      t."depot" = ? AND
      t."number" = ?
  AND t."stage" = 'NEW'
  AND t."weight" < ?
RETURNING `rev`, replace(replace(CAST("shop" AS TEXT), '%', '%25'), ':', '%3A') || ':' || replace(replace(CAST("depot" AS TEXT), '%', '%25'), ':', '%3A') || ':' || replace(replace(CAST("number" AS TEXT), '%', '%25'), ':', '%3A')

-- move.note
INSERT INTO "shop"."parcel_history" (lifecycle, key, move, outcome, before, after, revision, actor, reason, call, at)
VALUES ('Parcel', ?, 'start', ?, ?, 'BUSY', ?, ?, ?, ?, strftime('%Y-%m-%d %H:%M:%f', 'now'))

-- give up by key: begin, move.held, move.write ×2, move.look, move.who, move.note, commit
-- move.held
SELECT CAST(t."claimed_by" AS text)
FROM "shop"."parcels" AS t
WHERE t."shop" = ? AND
      t."depot" = ? AND
      t."number" = ?

-- move.write
UPDATE "shop"."parcels" AS t
SET "stage" = 'GONE',
      "rev" = COALESCE(t."rev", 0) + 1,
      "gone_at" = strftime('%Y-%m-%d %H:%M:%f', 'now'),
      "claimed_by" = NULL,
      "claimed_until" = NULL,
      "fence" = max(COALESCE(t."fence", 0) + 1, CAST((julianday(strftime('%Y-%m-%d %H:%M:%f', 'now')) - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) * 1000)
WHERE t."shop" = ? AND
      t."depot" = ? AND
      t."number" = ?
  AND t."stage" = 'NEW'
  AND t."rev" = ?
RETURNING `rev`, replace(replace(CAST("shop" AS TEXT), '%', '%25'), ':', '%3A') || ':' || replace(replace(CAST("depot" AS TEXT), '%', '%25'), ':', '%3A') || ':' || replace(replace(CAST("number" AS TEXT), '%', '%25'), ':', '%3A')

-- move.write
UPDATE "shop"."parcels" AS t
SET "stage" = 'GONE',
      "rev" = COALESCE(t."rev", 0) + 1,
      "gone_at" = strftime('%Y-%m-%d %H:%M:%f', 'now'),
      "claimed_by" = NULL,
      "claimed_until" = NULL,
      "fence" = max(COALESCE(t."fence", 0) + 1, CAST((julianday(strftime('%Y-%m-%d %H:%M:%f', 'now')) - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) * 1000)
WHERE t."shop" = ? AND
      t."depot" = ? AND
      t."number" = ?
  AND t."stage" = 'BUSY'
  AND t."rev" = ?
RETURNING `rev`, replace(replace(CAST("shop" AS TEXT), '%', '%25'), ':', '%3A') || ':' || replace(replace(CAST("depot" AS TEXT), '%', '%25'), ':', '%3A') || ':' || replace(replace(CAST("number" AS TEXT), '%', '%25'), ':', '%3A')

-- move.look
SELECT t."stage" AS rp_before,
       t."rev" AS rp_revision,
       NULL AS rp_fence,
       CASE WHEN t."rev" = ? THEN 0 ELSE 2 END AS rp_unmet,
       replace(replace(CAST(t."shop" AS TEXT), '%', '%25'), ':', '%3A') || ':' || replace(replace(CAST(t."depot" AS TEXT), '%', '%25'), ':', '%3A') || ':' || replace(replace(CAST(t."number" AS TEXT), '%', '%25'), ':', '%3A') AS rp_key
FROM "shop"."parcels" AS t
WHERE t."shop" = ? AND
      t."depot" = ? AND
      t."number" = ?

-- move.note
INSERT INTO "shop"."parcel_history" (lifecycle, key, move, outcome, before, after, revision, actor, reason, call, at)
VALUES ('Parcel', ?, 'give_up', ?, ?, 'GONE', ?, ?, ?, ?, strftime('%Y-%m-%d %H:%M:%f', 'now'))

-- give up many by key: begin, move.held, move.write, move.note, move.held, move.write ×2, move.note, commit
-- move.write
UPDATE "shop"."parcels" AS t
SET "stage" = 'GONE',
      "rev" = COALESCE(t."rev", 0) + 1,
      "gone_at" = strftime('%Y-%m-%d %H:%M:%f', 'now'),
      "claimed_by" = NULL,
      "claimed_until" = NULL,
      "fence" = max(COALESCE(t."fence", 0) + 1, CAST((julianday(strftime('%Y-%m-%d %H:%M:%f', 'now')) - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) * 1000)
WHERE t."shop" = ? AND
      t."depot" = ? AND
      t."number" = ?
  AND t."stage" = 'NEW'
RETURNING `rev`, replace(replace(CAST("shop" AS TEXT), '%', '%25'), ':', '%3A') || ':' || replace(replace(CAST("depot" AS TEXT), '%', '%25'), ':', '%3A') || ':' || replace(replace(CAST("number" AS TEXT), '%', '%25'), ':', '%3A')

-- move.write
UPDATE "shop"."parcels" AS t
SET "stage" = 'GONE',
      "rev" = COALESCE(t."rev", 0) + 1,
      "gone_at" = strftime('%Y-%m-%d %H:%M:%f', 'now'),
      "claimed_by" = NULL,
      "claimed_until" = NULL,
      "fence" = max(COALESCE(t."fence", 0) + 1, CAST((julianday(strftime('%Y-%m-%d %H:%M:%f', 'now')) - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) * 1000)
WHERE t."shop" = ? AND
      t."depot" = ? AND
      t."number" = ?
  AND t."stage" = 'BUSY'
RETURNING `rev`, replace(replace(CAST("shop" AS TEXT), '%', '%25'), ':', '%3A') || ':' || replace(replace(CAST("depot" AS TEXT), '%', '%25'), ':', '%3A') || ':' || replace(replace(CAST("number" AS TEXT), '%', '%25'), ':', '%3A')

-- give up what matches: begin, move.matching, commit
-- move.matching
SELECT t."shop", t."depot", t."number"
FROM "shop"."parcels" AS t
WHERE t."stage" IN ('NEW', 'BUSY')
  AND t."shop" = ?
  AND t."weight" > ?
ORDER BY t."shop", t."depot", t."number"
LIMIT ?

-- dead-lettered: begin, claim.due, claim.take, claim.note, commit, claim.spent, begin, claim.due, claim.take, claim.note, commit, claim.spent, begin, claim.due, claim.take, claim.note, commit, claim.spent, begin, claim.due, claim.take, claim.note, commit, claim.spent, begin, claim.due, commit, claim.spent, begin, claim.spent, claim.dead_letter, claim.note, commit, begin, claim.due, commit, claim.spent
-- claim.take
UPDATE "shop"."parcels" AS t
SET "stage" = 'BUSY',
      "started_at" = ?,
      "rev" = COALESCE(t."rev", 0) + 1,
      "claimed_by" = ?,
      "claimed_until" = strftime('%Y-%m-%d %H:%M:%f', ?, printf('%+.3f seconds', ?)),
      "fence" = max(COALESCE(t."fence", 0) + 1, CAST((julianday(?) - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) * 1000),
      "tries" = COALESCE(t."tries", 0) + 1
FROM json_each(?) AS w
WHERE t."shop" = json_extract(w.value, '$[0]') AND t."depot" = json_extract(w.value, '$[1]') AND t."number" = json_extract(w.value, '$[2]')
RETURNING `shop`, `depot`, `number`, +`fence`, `tries`, `rev`

-- claim.spent
SELECT t."shop", t."depot", t."number", t."stage" AS rp_before, replace(replace(CAST(t."shop" AS TEXT), '%', '%25'), ':', '%3A') || ':' || replace(replace(CAST(t."depot" AS TEXT), '%', '%25'), ':', '%3A') || ':' || replace(replace(CAST(t."number" AS TEXT), '%', '%25'), ':', '%3A') AS rp_key
FROM "shop"."parcels" AS t
WHERE t."stage" IN ('NEW', 'BUSY')
      AND (t."claimed_until" IS NULL OR t."claimed_until" <= ? OR (t."claimed_until" > strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', ?, printf('%+.3f seconds', ?)), printf('%+.3f seconds', ?)) AND t."fence" > CAST((julianday(?) - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) * 1000))
      AND (t."rests_until" IS NULL OR t."rests_until" <= ?)
      AND t."shop" = ?
      AND t."weight" is not null
      AND t."lane" <> ?
      AND t."weight" < ?
      AND NOT EXISTS (SELECT 1 FROM "shop"."parcels" AS e WHERE e."lane" = t."lane" AND e."stage" IN ('NEW', 'BUSY') AND e."shop" = t."shop" AND (e."due", e."weight", e."depot", e."number") < (t."due", t."weight", t."depot", t."number")) AND
      NOT EXISTS (SELECT 1 FROM "shop"."parcels" AS e WHERE e."lane" = t."lane" AND e."stage" IN ('NEW', 'BUSY') AND e."shop" = t."shop" AND e."due" IS NULL AND (t."due" IS NOT NULL OR (e."weight", e."depot", e."number") < (t."weight", t."depot", t."number"))) AND
      NOT EXISTS (SELECT 1 FROM "shop"."parcels" AS e WHERE e."lane" = t."lane" AND e."stage" IN ('NEW', 'BUSY') AND e."shop" = t."shop" AND e."due" IS t."due" AND e."weight" IS NULL AND (t."weight" IS NOT NULL OR (e."depot", e."number") < (t."depot", t."number")))
      AND COALESCE(t."tries", 0) >= 4
ORDER BY t."due", t."weight"
LIMIT ?

-- claim.dead_letter
UPDATE "shop"."parcels" AS t
SET "stage" = 'GONE',
      "claimed_by" = NULL,
      "claimed_until" = NULL,
      "gone_at" = ?,
      "rev" = COALESCE(t."rev", 0) + 1
FROM json_each(?) AS w
WHERE t."shop" = json_extract(w.value, '$[0]') AND t."depot" = json_extract(w.value, '$[1]') AND t."number" = json_extract(w.value, '$[2]')
RETURNING `shop`, `depot`, `number`, `tries`, `rev`

-- claims: claim.list
-- claim.list
SELECT t."claimed_until" AS rp_until, t."claimed_until" <= strftime('%Y-%m-%d %H:%M:%f', 'now') AS rp_stale, t."stage", t."claimed_by", +t."fence", t."tries", t."shop", t."depot", t."number"
FROM "shop"."parcels" AS t
WHERE t."stage" IN ('NEW', 'BUSY')
  AND t."claimed_until" IS NOT NULL
  AND t."shop" = ?
ORDER BY rp_until
LIMIT ?

-- read: table.columns, move.read
-- table.columns
SELECT name, type
FROM pragma_table_info('parcels', 'shop')
ORDER BY cid

-- move.read
SELECT t."shop", t."depot", t."number", t."stage", t."rev", t."weight", t."note", t."due", t."lane", t."tries", t."rests_until", t."started_at", t."returned_at", t."ready_at", t."gone_at", t."claimed_by", t."claimed_until", t."fence"
FROM "shop"."parcels" AS t
WHERE t."shop" = ? AND
      t."depot" = ? AND
      t."number" = ?

-- history: move.history
-- move.history
SELECT move, outcome, before, after, revision, actor, reason, call, at
FROM "shop"."parcel_history"
WHERE lifecycle = 'Parcel'
  AND key = ?
ORDER BY id DESC
LIMIT ?
