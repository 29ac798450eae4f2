-- claim send: begin, claim.due, claim.take, commit
-- claim.due
SELECT t."id", t."status" AS rp_before, NULL AS rp_key
FROM "podcasts" AS t
WHERE t."status" IN ('NEW', 'BUSY')
      AND (strftime('%Y-%m-%d %H:%M:%f', t."sending_at", printf('%+.3f seconds', ?)) IS NULL OR strftime('%Y-%m-%d %H:%M:%f', t."sending_at", printf('%+.3f seconds', ?)) <= ? OR strftime('%Y-%m-%d %H:%M:%f', t."sending_at", printf('%+.3f seconds', ?)) > strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', ?, printf('%+.3f seconds', ?)), printf('%+.3f seconds', ?)))
      AND COALESCE(t."tries", 0) < 5
ORDER BY t."id"
LIMIT ?

-- claim.take
UPDATE "podcasts" AS t
SET "status" = 'BUSY',
      "sending_at" = CASE WHEN strftime('%Y-%m-%d %H:%M:%f', t."sending_at", printf('%+.3f seconds', ?)) > strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', ?, printf('%+.3f seconds', ?)), printf('%+.3f seconds', ?)) THEN ? ELSE max(?, COALESCE(strftime('%Y-%m-%d %H:%M:%f', t."sending_at", printf('%+.3f seconds', 0.001)), '')) END || printf('%06d', abs(random() % 400000)),
      "tries" = COALESCE(t."tries", 0) + 1
FROM json_each(?) AS w
WHERE t."id" = json_extract(w.value, '$[0]')
RETURNING `id`, +`sending_at`, `tries`, NULL

-- claim send by the store's clock: begin, claim.due, claim.take, commit
-- claim.due
SELECT t."id", t."status" AS rp_before, NULL AS rp_key
FROM "podcasts" AS t
WHERE t."status" IN ('NEW', 'BUSY')
      AND (strftime('%Y-%m-%d %H:%M:%f', t."sending_at", printf('%+.3f seconds', ?)) IS NULL OR strftime('%Y-%m-%d %H:%M:%f', t."sending_at", printf('%+.3f seconds', ?)) <= strftime('%Y-%m-%d %H:%M:%f', 'now') OR strftime('%Y-%m-%d %H:%M:%f', t."sending_at", printf('%+.3f seconds', ?)) > strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', 'now'), printf('%+.3f seconds', ?)), printf('%+.3f seconds', ?)))
      AND COALESCE(t."tries", 0) < 5
ORDER BY t."id"
LIMIT ?

-- claim.take
UPDATE "podcasts" AS t
SET "status" = 'BUSY',
      "sending_at" = CASE WHEN strftime('%Y-%m-%d %H:%M:%f', t."sending_at", printf('%+.3f seconds', ?)) > strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', 'now'), printf('%+.3f seconds', ?)), printf('%+.3f seconds', ?)) THEN strftime('%Y-%m-%d %H:%M:%f', 'now') ELSE max(strftime('%Y-%m-%d %H:%M:%f', 'now'), COALESCE(strftime('%Y-%m-%d %H:%M:%f', t."sending_at", printf('%+.3f seconds', 0.001)), '')) END || printf('%06d', abs(random() % 400000)),
      "tries" = COALESCE(t."tries", 0) + 1
FROM json_each(?) AS w
WHERE t."id" = json_extract(w.value, '$[0]')
RETURNING `id`, +`sending_at`, `tries`, NULL

-- claim_one send: begin, claim.look, claim.take, commit
-- claim.look
SELECT t."status", CASE WHEN t."status" IN ('NEW', 'BUSY') THEN 0 ELSE 1 END
         + CASE WHEN (strftime('%Y-%m-%d %H:%M:%f', t."sending_at", printf('%+.3f seconds', ?)) IS NULL OR strftime('%Y-%m-%d %H:%M:%f', t."sending_at", printf('%+.3f seconds', ?)) <= ? OR strftime('%Y-%m-%d %H:%M:%f', t."sending_at", printf('%+.3f seconds', ?)) > strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', ?, printf('%+.3f seconds', ?)), printf('%+.3f seconds', ?))) THEN 0 ELSE 2 END
         + CASE WHEN COALESCE(t."tries", 0) < 5 THEN 0 ELSE 8 END, NULL, NULL
FROM "podcasts" AS t
WHERE t."id" = ?

-- renew send: begin, claim.change, claim.found, commit
-- claim.change
UPDATE "podcasts" AS t
SET "sending_at" = CASE WHEN strftime('%Y-%m-%d %H:%M:%f', t."sending_at", printf('%+.3f seconds', ?)) > strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', ?, printf('%+.3f seconds', ?)), printf('%+.3f seconds', ?)) THEN ? ELSE max(?, COALESCE(strftime('%Y-%m-%d %H:%M:%f', t."sending_at", printf('%+.3f seconds', 0.001)), '')) END || printf('%06d', abs(random() % 400000))
WHERE t."id" = ?
  AND t."sending_at" = ?
  AND t."status" IN ('BUSY')
RETURNING +`sending_at`, NULL, NULL

-- claim.found
SELECT +t."sending_at", t."status", NULL
FROM "podcasts" AS t
WHERE t."id" = ?

-- fail send: begin, claim.change, commit
-- claim.change
UPDATE "podcasts" AS t
SET "sending_at" = NULL,
      "status" = 'NEW'
WHERE t."id" = ?
  AND t."sending_at" = ?
  AND t."status" IN ('BUSY')
RETURNING +`sending_at`, NULL, NULL

-- release send: begin, claim.change, commit
-- claim.change
UPDATE "podcasts" AS t
SET "sending_at" = NULL,
      "status" = 'NEW',
      "tries" = CASE WHEN t."tries" > 0 THEN t."tries" - 1 ELSE 0 END
WHERE t."id" = ?
  AND t."sending_at" = ?
  AND t."status" IN ('BUSY')
RETURNING +`sending_at`, NULL, NULL

-- ready, held by send: move.write ×2, begin, move.write ×2, move.look, commit
-- move.write
UPDATE "podcasts" AS t
SET "status" = 'READY',
      "sending_at" = NULL,
      "summary" = ?
WHERE t."id" = ?
  AND t."status" = 'BUSY'
  AND t."sending_at" = ?
RETURNING NULL, NULL

-- move.write
UPDATE "podcasts" AS t
SET "status" = 'READY',
      "sending_at" = NULL,
      "summary" = ?
WHERE t."id" = ?
  AND t."status" = 'NEW'
  AND t."sending_at" = ?
RETURNING NULL, NULL

-- move.look
SELECT t."status" AS rp_before,
       NULL AS rp_revision,
       t."sending_at" AS rp_fence,
       CASE WHEN t."sending_at" = ? THEN 0 ELSE 1 END AS rp_unmet,
       NULL AS rp_key
FROM "podcasts" AS t
WHERE t."id" = ?

-- claim describe: begin, claim.due, claim.take, commit
-- claim.due
SELECT t."id", t."status" AS rp_before, NULL AS rp_key
FROM "podcasts" AS t
WHERE t."status" IN ('NEW', 'BUSY')
      AND (strftime('%Y-%m-%d %H:%M:%f', CASE WHEN t."ai_error" GLOB 'PROCESSING:?*:?*:[0-9]*' AND t."ai_error" NOT GLOB '*:*:*:*:*' AND substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) GLOB '*[0-9]' AND substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) NOT GLOB '*[^0-9.]*' AND substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) NOT GLOB '*.*.*' AND instr(substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) || '.', '.') <= 13 AND length(substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1)) - instr(substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) || '.', '.') <= 9 THEN strftime('%Y-%m-%d %H:%M:%f', CAST(substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) AS REAL), 'unixepoch') END, printf('%+.3f seconds', ?)) IS NULL OR strftime('%Y-%m-%d %H:%M:%f', CASE WHEN t."ai_error" GLOB 'PROCESSING:?*:?*:[0-9]*' AND t."ai_error" NOT GLOB '*:*:*:*:*' AND substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) GLOB '*[0-9]' AND substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) NOT GLOB '*[^0-9.]*' AND substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) NOT GLOB '*.*.*' AND instr(substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) || '.', '.') <= 13 AND length(substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1)) - instr(substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) || '.', '.') <= 9 THEN strftime('%Y-%m-%d %H:%M:%f', CAST(substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) AS REAL), 'unixepoch') END, printf('%+.3f seconds', ?)) <= ? OR strftime('%Y-%m-%d %H:%M:%f', CASE WHEN t."ai_error" GLOB 'PROCESSING:?*:?*:[0-9]*' AND t."ai_error" NOT GLOB '*:*:*:*:*' AND substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) GLOB '*[0-9]' AND substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) NOT GLOB '*[^0-9.]*' AND substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) NOT GLOB '*.*.*' AND instr(substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) || '.', '.') <= 13 AND length(substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1)) - instr(substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) || '.', '.') <= 9 THEN strftime('%Y-%m-%d %H:%M:%f', CAST(substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) AS REAL), 'unixepoch') END, printf('%+.3f seconds', ?)) > strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', ?, printf('%+.3f seconds', ?)), printf('%+.3f seconds', ?)))
ORDER BY t."id"
LIMIT ?

-- claim.take
UPDATE "podcasts" AS t
SET "status" = 'BUSY',
      "ai_error" = 'PROCESSING:AI_DESC:' || ? || ':' || printf('%.3f', (julianday(?) - 2440587.5) * 86400.0)
FROM json_each(?) AS w
WHERE t."id" = json_extract(w.value, '$[0]')
RETURNING `id`, +`ai_error`, NULL, NULL

-- claim describe by the store's clock: begin, claim.due, claim.take, commit
-- claim.due
SELECT t."id", t."status" AS rp_before, NULL AS rp_key
FROM "podcasts" AS t
WHERE t."status" IN ('NEW', 'BUSY')
      AND (strftime('%Y-%m-%d %H:%M:%f', CASE WHEN t."ai_error" GLOB 'PROCESSING:?*:?*:[0-9]*' AND t."ai_error" NOT GLOB '*:*:*:*:*' AND substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) GLOB '*[0-9]' AND substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) NOT GLOB '*[^0-9.]*' AND substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) NOT GLOB '*.*.*' AND instr(substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) || '.', '.') <= 13 AND length(substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1)) - instr(substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) || '.', '.') <= 9 THEN strftime('%Y-%m-%d %H:%M:%f', CAST(substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) AS REAL), 'unixepoch') END, printf('%+.3f seconds', ?)) IS NULL OR strftime('%Y-%m-%d %H:%M:%f', CASE WHEN t."ai_error" GLOB 'PROCESSING:?*:?*:[0-9]*' AND t."ai_error" NOT GLOB '*:*:*:*:*' AND substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) GLOB '*[0-9]' AND substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) NOT GLOB '*[^0-9.]*' AND substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) NOT GLOB '*.*.*' AND instr(substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) || '.', '.') <= 13 AND length(substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1)) - instr(substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) || '.', '.') <= 9 THEN strftime('%Y-%m-%d %H:%M:%f', CAST(substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) AS REAL), 'unixepoch') END, printf('%+.3f seconds', ?)) <= strftime('%Y-%m-%d %H:%M:%f', 'now') OR strftime('%Y-%m-%d %H:%M:%f', CASE WHEN t."ai_error" GLOB 'PROCESSING:?*:?*:[0-9]*' AND t."ai_error" NOT GLOB '*:*:*:*:*' AND substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) GLOB '*[0-9]' AND substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) NOT GLOB '*[^0-9.]*' AND substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) NOT GLOB '*.*.*' AND instr(substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) || '.', '.') <= 13 AND length(substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1)) - instr(substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) || '.', '.') <= 9 THEN strftime('%Y-%m-%d %H:%M:%f', CAST(substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) AS REAL), 'unixepoch') END, printf('%+.3f seconds', ?)) > strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', 'now'), printf('%+.3f seconds', ?)), printf('%+.3f seconds', ?)))
ORDER BY t."id"
LIMIT ?

-- claim.take
UPDATE "podcasts" AS t
SET "status" = 'BUSY',
      "ai_error" = 'PROCESSING:AI_DESC:' || ? || ':' || printf('%.3f', (julianday(strftime('%Y-%m-%d %H:%M:%f', 'now')) - 2440587.5) * 86400.0)
FROM json_each(?) AS w
WHERE t."id" = json_extract(w.value, '$[0]')
RETURNING `id`, +`ai_error`, NULL, NULL

-- claim_one describe: begin, claim.look, claim.take, commit
-- claim.look
SELECT t."status", CASE WHEN t."status" IN ('NEW', 'BUSY') THEN 0 ELSE 1 END
         + CASE WHEN (strftime('%Y-%m-%d %H:%M:%f', CASE WHEN t."ai_error" GLOB 'PROCESSING:?*:?*:[0-9]*' AND t."ai_error" NOT GLOB '*:*:*:*:*' AND substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) GLOB '*[0-9]' AND substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) NOT GLOB '*[^0-9.]*' AND substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) NOT GLOB '*.*.*' AND instr(substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) || '.', '.') <= 13 AND length(substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1)) - instr(substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) || '.', '.') <= 9 THEN strftime('%Y-%m-%d %H:%M:%f', CAST(substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) AS REAL), 'unixepoch') END, printf('%+.3f seconds', ?)) IS NULL OR strftime('%Y-%m-%d %H:%M:%f', CASE WHEN t."ai_error" GLOB 'PROCESSING:?*:?*:[0-9]*' AND t."ai_error" NOT GLOB '*:*:*:*:*' AND substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) GLOB '*[0-9]' AND substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) NOT GLOB '*[^0-9.]*' AND substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) NOT GLOB '*.*.*' AND instr(substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) || '.', '.') <= 13 AND length(substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1)) - instr(substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) || '.', '.') <= 9 THEN strftime('%Y-%m-%d %H:%M:%f', CAST(substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) AS REAL), 'unixepoch') END, printf('%+.3f seconds', ?)) <= ? OR strftime('%Y-%m-%d %H:%M:%f', CASE WHEN t."ai_error" GLOB 'PROCESSING:?*:?*:[0-9]*' AND t."ai_error" NOT GLOB '*:*:*:*:*' AND substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) GLOB '*[0-9]' AND substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) NOT GLOB '*[^0-9.]*' AND substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) NOT GLOB '*.*.*' AND instr(substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) || '.', '.') <= 13 AND length(substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1)) - instr(substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) || '.', '.') <= 9 THEN strftime('%Y-%m-%d %H:%M:%f', CAST(substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) AS REAL), 'unixepoch') END, printf('%+.3f seconds', ?)) > strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', ?, printf('%+.3f seconds', ?)), printf('%+.3f seconds', ?))) THEN 0 ELSE 2 END, NULL, NULL
FROM "podcasts" AS t
WHERE t."id" = ?

-- renew describe: begin, claim.change, claim.found, commit
-- claim.change
UPDATE "podcasts" AS t
SET "ai_error" = 'PROCESSING:AI_DESC:' || ? || ':' || printf('%.3f', (julianday(?) - 2440587.5) * 86400.0)
WHERE t."id" = ?
  AND t."ai_error" = ?
  AND t."status" IN ('BUSY')
RETURNING +`ai_error`, NULL, NULL

-- claim.found
SELECT +t."ai_error", t."status", NULL
FROM "podcasts" AS t
WHERE t."id" = ?

-- fail describe: begin, claim.change, commit
-- claim.change
UPDATE "podcasts" AS t
SET "ai_error" = NULL,
      "status" = 'NEW'
WHERE t."id" = ?
  AND t."ai_error" = ?
  AND t."status" IN ('BUSY')
RETURNING +`ai_error`, NULL, NULL

-- release describe: begin, claim.change, commit
-- ready, held by describe: move.write ×2, begin, move.write ×2, move.look, commit
-- move.write
UPDATE "podcasts" AS t
SET "status" = 'READY',
      "ai_error" = NULL,
      "summary" = ?
WHERE t."id" = ?
  AND t."status" = 'BUSY'
  AND t."ai_error" = ?
RETURNING NULL, NULL

-- move.write
UPDATE "podcasts" AS t
SET "status" = 'READY',
      "ai_error" = NULL,
      "summary" = ?
WHERE t."id" = ?
  AND t."status" = 'NEW'
  AND t."ai_error" = ?
RETURNING NULL, NULL

-- move.look
SELECT t."status" AS rp_before,
       NULL AS rp_revision,
       t."ai_error" AS rp_fence,
       CASE WHEN t."ai_error" = ? THEN 0 ELSE 1 END AS rp_unmet,
       NULL AS rp_key
FROM "podcasts" AS t
WHERE t."id" = ?

-- claim vet: begin, claim.due, claim.take, commit
-- claim.due
SELECT t."id", t."status" AS rp_before, NULL AS rp_key
FROM "podcasts" AS t
WHERE t."status" IN ('NEW')
      AND (t."vetted_until" IS NULL OR t."vetted_until" <= ? OR (t."vetted_until" > strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', ?, printf('%+.3f seconds', ?)), printf('%+.3f seconds', ?)) AND t."vet_fence" > CAST((julianday(?) - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) * 1000))
ORDER BY t."id"
LIMIT ?

-- claim.take
UPDATE "podcasts" AS t
SET "vetted_by" = ?,
      "vetted_until" = strftime('%Y-%m-%d %H:%M:%f', ?, printf('%+.3f seconds', ?)),
      "vet_fence" = max(COALESCE(t."vet_fence", 0) + 1, CAST((julianday(?) - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) * 1000)
FROM json_each(?) AS w
WHERE t."id" = json_extract(w.value, '$[0]')
RETURNING `id`, +`vet_fence`, NULL, NULL

-- claim vet by the store's clock: begin, claim.due, claim.take, commit
-- claim.due
SELECT t."id", t."status" AS rp_before, NULL AS rp_key
FROM "podcasts" AS t
WHERE t."status" IN ('NEW')
      AND (t."vetted_until" IS NULL OR t."vetted_until" <= strftime('%Y-%m-%d %H:%M:%f', 'now') OR (t."vetted_until" > strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', 'now'), printf('%+.3f seconds', ?)), printf('%+.3f seconds', ?)) AND t."vet_fence" > CAST((julianday(strftime('%Y-%m-%d %H:%M:%f', 'now')) - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) * 1000))
ORDER BY t."id"
LIMIT ?

-- claim.take
UPDATE "podcasts" AS t
SET "vetted_by" = ?,
      "vetted_until" = strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', 'now'), printf('%+.3f seconds', ?)),
      "vet_fence" = max(COALESCE(t."vet_fence", 0) + 1, CAST((julianday(strftime('%Y-%m-%d %H:%M:%f', 'now')) - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) * 1000)
FROM json_each(?) AS w
WHERE t."id" = json_extract(w.value, '$[0]')
RETURNING `id`, +`vet_fence`, NULL, NULL

-- claim_one vet: begin, claim.look, commit
-- claim.look
SELECT t."status", CASE WHEN t."status" IN ('NEW') THEN 0 ELSE 1 END
         + CASE WHEN (t."vetted_until" IS NULL OR t."vetted_until" <= ? OR (t."vetted_until" > strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', ?, printf('%+.3f seconds', ?)), printf('%+.3f seconds', ?)) AND t."vet_fence" > CAST((julianday(?) - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) * 1000)) THEN 0 ELSE 2 END, t."vetted_by", NULL
FROM "podcasts" AS t
WHERE t."id" = ?

-- renew vet: begin, claim.change, claim.found, commit
-- claim.change
UPDATE "podcasts" AS t
SET "vetted_until" = strftime('%Y-%m-%d %H:%M:%f', ?, printf('%+.3f seconds', ?))
WHERE t."id" = ?
  AND t."vet_fence" = ?
  AND t."status" IN ('NEW')
RETURNING +`vet_fence`, NULL, NULL

-- claim.found
SELECT +t."vet_fence", t."status", t."vetted_by"
FROM "podcasts" AS t
WHERE t."id" = ?

-- fail vet: begin, claim.change, commit
-- claim.change
UPDATE "podcasts" AS t
SET "vetted_by" = NULL,
      "vetted_until" = NULL,
      "vet_fence" = max(COALESCE(t."vet_fence", 0) + 1, CAST((julianday(?) - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) * 1000)
WHERE t."id" = ?
  AND t."vet_fence" = ?
  AND t."status" IN ('NEW')
RETURNING +`vet_fence`, NULL, NULL

-- release vet: begin, claim.change, commit
-- claim.change
UPDATE "podcasts" AS t
SET "vetted_by" = NULL,
      "vetted_until" = NULL,
      "vet_fence" = max(COALESCE(t."vet_fence", 0) + 1, CAST((julianday(strftime('%Y-%m-%d %H:%M:%f', 'now')) - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) * 1000)
WHERE t."id" = ?
  AND t."vet_fence" = ?
  AND t."status" IN ('NEW')
RETURNING +`vet_fence`, NULL, NULL

-- ready, held by vet: move.write ×2, begin, move.write ×2, move.look, commit
-- move.write
UPDATE "podcasts" AS t
SET "status" = 'READY',
      "vetted_by" = NULL,
      "vetted_until" = NULL,
      "summary" = ?
WHERE t."id" = ?
  AND t."status" = 'BUSY'
  AND t."vet_fence" = ?
RETURNING NULL, NULL

-- move.write
UPDATE "podcasts" AS t
SET "status" = 'READY',
      "vetted_by" = NULL,
      "vetted_until" = NULL,
      "summary" = ?
WHERE t."id" = ?
  AND t."status" = 'NEW'
  AND t."vet_fence" = ?
RETURNING NULL, NULL

-- move.look
SELECT t."status" AS rp_before,
       NULL AS rp_revision,
       t."vet_fence" AS rp_fence,
       CASE WHEN t."vet_fence" = ? THEN 0 ELSE 1 END AS rp_unmet,
       NULL AS rp_key
FROM "podcasts" AS t
WHERE t."id" = ?

-- ready by key: begin, move.held, move.write, commit
-- move.held
SELECT COALESCE(CAST(t."sending_at" AS text), CASE WHEN substr(t."ai_error", 1, 19) = 'PROCESSING:AI_DESC:' THEN t."ai_error" END, CAST(t."vetted_by" AS text))
FROM "podcasts" AS t
WHERE t."id" = ?

-- move.write
UPDATE "podcasts" AS t
SET "status" = 'READY',
      "sending_at" = NULL,
      "ai_error" = CASE WHEN substr(t."ai_error", 1, 19) = 'PROCESSING:AI_DESC:' THEN NULL ELSE t."ai_error" END,
      "vetted_by" = NULL,
      "vetted_until" = NULL,
      "vet_fence" = max(COALESCE(t."vet_fence", 0) + 1, CAST((julianday(strftime('%Y-%m-%d %H:%M:%f', 'now')) - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) * 1000),
      "summary" = ?
WHERE t."id" = ?
  AND t."status" = 'BUSY'
RETURNING NULL, NULL

-- ready many by key: begin, move.held, move.write, commit
-- move.write
UPDATE "podcasts" AS t
SET "status" = 'READY',
      "sending_at" = NULL,
      "ai_error" = CASE WHEN substr(t."ai_error", 1, 19) = 'PROCESSING:AI_DESC:' THEN NULL ELSE t."ai_error" END,
      "vetted_by" = NULL,
      "vetted_until" = NULL,
      "vet_fence" = max(COALESCE(t."vet_fence", 0) + 1, CAST((julianday(strftime('%Y-%m-%d %H:%M:%f', 'now')) - 2440587.5) * 86400000.0 + 0.5 AS INTEGER) * 1000)
WHERE t."id" = ?
  AND t."status" = 'BUSY'
RETURNING NULL, NULL

-- claims of a marker: claim.list
-- claim.list
SELECT strftime('%Y-%m-%d %H:%M:%f', CASE WHEN t."ai_error" GLOB 'PROCESSING:?*:?*:[0-9]*' AND t."ai_error" NOT GLOB '*:*:*:*:*' AND substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) GLOB '*[0-9]' AND substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) NOT GLOB '*[^0-9.]*' AND substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) NOT GLOB '*.*.*' AND instr(substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) || '.', '.') <= 13 AND length(substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1)) - instr(substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) || '.', '.') <= 9 THEN strftime('%Y-%m-%d %H:%M:%f', CAST(substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) AS REAL), 'unixepoch') END, printf('%+.3f seconds', ?)) AS rp_until, strftime('%Y-%m-%d %H:%M:%f', CASE WHEN t."ai_error" GLOB 'PROCESSING:?*:?*:[0-9]*' AND t."ai_error" NOT GLOB '*:*:*:*:*' AND substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) GLOB '*[0-9]' AND substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) NOT GLOB '*[^0-9.]*' AND substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) NOT GLOB '*.*.*' AND instr(substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) || '.', '.') <= 13 AND length(substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1)) - instr(substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) || '.', '.') <= 9 THEN strftime('%Y-%m-%d %H:%M:%f', CAST(substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) AS REAL), 'unixepoch') END, printf('%+.3f seconds', ?)) <= strftime('%Y-%m-%d %H:%M:%f', 'now') AS rp_stale, t."status", NULL, +t."ai_error", NULL, t."id"
FROM "podcasts" AS t
WHERE t."status" IN ('NEW', 'BUSY')
  AND strftime('%Y-%m-%d %H:%M:%f', CASE WHEN t."ai_error" GLOB 'PROCESSING:?*:?*:[0-9]*' AND t."ai_error" NOT GLOB '*:*:*:*:*' AND substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) GLOB '*[0-9]' AND substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) NOT GLOB '*[^0-9.]*' AND substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) NOT GLOB '*.*.*' AND instr(substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) || '.', '.') <= 13 AND length(substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1)) - instr(substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) || '.', '.') <= 9 THEN strftime('%Y-%m-%d %H:%M:%f', CAST(substr(t."ai_error", length(rtrim(t."ai_error", replace(t."ai_error", ':', ''))) + 1) AS REAL), 'unixepoch') END, printf('%+.3f seconds', ?)) IS NOT NULL
ORDER BY rp_until
LIMIT ?
