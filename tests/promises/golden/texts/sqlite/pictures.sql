-- begin a picture: begin, delivery.look, delivery.take, commit, begin, delivery.look, delivery.take, commit, begin, delivery.look, delivery.take, commit, begin, delivery.look, delivery.take, commit
-- delivery.look
SELECT CASE WHEN t."delivered_at" IS NOT NULL THEN 'delivered' WHEN (strftime('%Y-%m-%d %H:%M:%f', t."delivering_at", printf('%+.3f seconds', ?)) <= ? OR t."delivering_at" > strftime('%Y-%m-%d %H:%M:%f', ?, printf('%+.3f seconds', ?))) THEN 'uncertain' WHEN t."delivering_at" IS NOT NULL THEN 'sending' ELSE 'ready' END, NULL, t."delivering_at", (t."delivered_at" IS NULL AND (t."delivering_at" IS NULL OR (strftime('%Y-%m-%d %H:%M:%f', t."delivering_at", printf('%+.3f seconds', ?)) <= ? OR t."delivering_at" > strftime('%Y-%m-%d %H:%M:%f', ?, printf('%+.3f seconds', ?)))) AND TRUE) IS TRUE, COALESCE(t."delivering_at" IS NOT NULL AND (strftime('%Y-%m-%d %H:%M:%f', t."delivering_at", printf('%+.3f seconds', ?)) <= ? OR t."delivering_at" > strftime('%Y-%m-%d %H:%M:%f', ?, printf('%+.3f seconds', ?))), FALSE)
FROM "jobs" AS t
WHERE t."job_id" = ?

-- delivery.take
UPDATE "jobs" AS t
SET "delivering_at" = CASE WHEN t."delivering_at" > strftime('%Y-%m-%d %H:%M:%f', ?, printf('%+.3f seconds', ?)) THEN ? ELSE max(?, COALESCE(strftime('%Y-%m-%d %H:%M:%f', t."delivering_at", printf('%+.3f seconds', 0.001)), '')) END || printf('%06d', abs(random() % 400000))
WHERE t."job_id" = ?
  AND t."delivered_at" IS NULL
  AND (t."delivering_at" IS NULL OR (strftime('%Y-%m-%d %H:%M:%f', t."delivering_at", printf('%+.3f seconds', ?)) <= ? OR t."delivering_at" > strftime('%Y-%m-%d %H:%M:%f', ?, printf('%+.3f seconds', ?))))
  AND TRUE
RETURNING +`delivering_at`, NULL

-- begin a picture by the store's clock, returning: begin, delivery.look, delivery.take, commit
-- delivery.look
SELECT CASE WHEN t."delivered_at" IS NOT NULL THEN 'delivered' WHEN (strftime('%Y-%m-%d %H:%M:%f', t."delivering_at", printf('%+.3f seconds', ?)) <= strftime('%Y-%m-%d %H:%M:%f', 'now') OR t."delivering_at" > strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', 'now'), printf('%+.3f seconds', ?))) THEN 'uncertain' WHEN t."delivering_at" IS NOT NULL THEN 'sending' ELSE 'ready' END, NULL, t."delivering_at", (t."delivered_at" IS NULL AND (t."delivering_at" IS NULL OR (strftime('%Y-%m-%d %H:%M:%f', t."delivering_at", printf('%+.3f seconds', ?)) <= strftime('%Y-%m-%d %H:%M:%f', 'now') OR t."delivering_at" > strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', 'now'), printf('%+.3f seconds', ?)))) AND TRUE) IS TRUE, COALESCE(t."delivering_at" IS NOT NULL AND (strftime('%Y-%m-%d %H:%M:%f', t."delivering_at", printf('%+.3f seconds', ?)) <= strftime('%Y-%m-%d %H:%M:%f', 'now') OR t."delivering_at" > strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', 'now'), printf('%+.3f seconds', ?))), FALSE)
FROM "jobs" AS t
WHERE t."job_id" = ?

-- delivery.take
UPDATE "jobs" AS t
SET "delivering_at" = CASE WHEN t."delivering_at" > strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', 'now'), printf('%+.3f seconds', ?)) THEN strftime('%Y-%m-%d %H:%M:%f', 'now') ELSE max(strftime('%Y-%m-%d %H:%M:%f', 'now'), COALESCE(strftime('%Y-%m-%d %H:%M:%f', t."delivering_at", printf('%+.3f seconds', 0.001)), '')) END || printf('%06d', abs(random() % 400000))
WHERE t."job_id" = ?
  AND t."delivered_at" IS NULL
  AND (t."delivering_at" IS NULL OR (strftime('%Y-%m-%d %H:%M:%f', t."delivering_at", printf('%+.3f seconds', ?)) <= strftime('%Y-%m-%d %H:%M:%f', 'now') OR t."delivering_at" > strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', 'now'), printf('%+.3f seconds', ?))))
  AND TRUE
RETURNING +`delivering_at`, NULL, `made_at`

-- begin a picture, refused: begin, delivery.look, commit
-- begin a picture, missing: begin, delivery.look, commit
-- sending a picture: delivery.mark
-- delivery.mark
UPDATE "jobs" AS t
SET "delivering_at" = CASE WHEN t."delivering_at" > strftime('%Y-%m-%d %H:%M:%f', ?, printf('%+.3f seconds', ?)) THEN ? ELSE max(?, COALESCE(strftime('%Y-%m-%d %H:%M:%f', t."delivering_at", printf('%+.3f seconds', 0.001)), '')) END || printf('%06d', abs(random() % 400000))
WHERE t."job_id" = ?
  AND t."delivering_at" = ?
  AND t."delivered_at" IS NULL
RETURNING +`delivering_at`

-- delivered a picture: delivery.mark
-- delivery.mark
UPDATE "jobs" AS t
SET "delivered_at" = ?,
      "delivering_at" = NULL
WHERE t."job_id" = ?
  AND t."delivering_at" = ?
  AND t."delivered_at" IS NULL
RETURNING +`delivering_at`

-- delivered a picture by the store's clock: delivery.mark
-- delivery.mark
UPDATE "jobs" AS t
SET "delivered_at" = strftime('%Y-%m-%d %H:%M:%f', 'now'),
      "delivering_at" = NULL
WHERE t."job_id" = ?
  AND t."delivering_at" = ?
  AND t."delivered_at" IS NULL
RETURNING +`delivering_at`

-- not sent a picture: delivery.mark
-- delivery.mark
UPDATE "jobs" AS t
SET "delivering_at" = NULL
WHERE t."job_id" = ?
  AND t."delivering_at" = ?
  AND t."delivered_at" IS NULL
RETURNING +`delivering_at`

-- uncertain about a picture: nothing
-- a picture arrived: delivery.resolve
-- delivery.resolve
UPDATE "jobs" AS t
SET "delivered_at" = ?,
      "delivering_at" = NULL
WHERE t."job_id" = ?
  AND t."delivered_at" IS NULL
  AND COALESCE(t."delivering_at" IS NOT NULL AND (strftime('%Y-%m-%d %H:%M:%f', t."delivering_at", printf('%+.3f seconds', ?)) <= ? OR t."delivering_at" > strftime('%Y-%m-%d %H:%M:%f', ?, printf('%+.3f seconds', ?))), FALSE)
RETURNING +`delivering_at`

-- a picture did not arrive: delivery.resolve, delivery.look
-- delivery.resolve
UPDATE "jobs" AS t
SET "delivering_at" = NULL
WHERE t."job_id" = ?
  AND t."delivered_at" IS NULL
  AND COALESCE(t."delivering_at" IS NOT NULL AND (strftime('%Y-%m-%d %H:%M:%f', t."delivering_at", printf('%+.3f seconds', ?)) <= strftime('%Y-%m-%d %H:%M:%f', 'now') OR t."delivering_at" > strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', 'now'), printf('%+.3f seconds', ?))), FALSE)
RETURNING +`delivering_at`

-- deliveries of a picture: delivery.list
-- delivery.list
SELECT CASE WHEN t."delivered_at" IS NOT NULL THEN 'delivered' WHEN (strftime('%Y-%m-%d %H:%M:%f', t."delivering_at", printf('%+.3f seconds', ?)) <= strftime('%Y-%m-%d %H:%M:%f', 'now') OR t."delivering_at" > strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', 'now'), printf('%+.3f seconds', ?))) THEN 'uncertain' WHEN t."delivering_at" IS NOT NULL THEN 'sending' ELSE 'ready' END, NULL, t."delivering_at", NULL, NULL, t."job_id"
FROM "jobs" AS t
WHERE t."delivered_at" IS NULL
  AND t."delivering_at" IS NOT NULL
ORDER BY t."delivering_at"
LIMIT ?

-- uncertain deliveries of a picture: delivery.uncertain
-- delivery.uncertain
SELECT CASE WHEN t."delivered_at" IS NOT NULL THEN 'delivered' WHEN (strftime('%Y-%m-%d %H:%M:%f', t."delivering_at", printf('%+.3f seconds', ?)) <= strftime('%Y-%m-%d %H:%M:%f', 'now') OR t."delivering_at" > strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', 'now'), printf('%+.3f seconds', ?))) THEN 'uncertain' WHEN t."delivering_at" IS NOT NULL THEN 'sending' ELSE 'ready' END, NULL, t."delivering_at", NULL, NULL, t."job_id"
FROM "jobs" AS t
WHERE t."delivered_at" IS NULL
  AND t."delivering_at" IS NOT NULL
  AND COALESCE(t."delivering_at" IS NOT NULL AND (strftime('%Y-%m-%d %H:%M:%f', t."delivering_at", printf('%+.3f seconds', ?)) <= strftime('%Y-%m-%d %H:%M:%f', 'now') OR t."delivering_at" > strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', 'now'), printf('%+.3f seconds', ?))), FALSE)
ORDER BY t."delivering_at"
LIMIT ?

-- begin a receipt: begin, delivery.look, delivery.take, commit, begin, delivery.look, delivery.take, commit, begin, delivery.look, delivery.take, commit, begin, delivery.look, delivery.take, commit
-- delivery.look
SELECT CASE WHEN t."receipt_sent_at" IS NOT NULL THEN 'delivered' WHEN COALESCE(t."receipt_state" = 'uncertain' OR ((strftime('%Y-%m-%d %H:%M:%f', t."receipt_sending_at", printf('%+.3f seconds', ?)) <= ? OR t."receipt_sending_at" > strftime('%Y-%m-%d %H:%M:%f', ?, printf('%+.3f seconds', ?))) AND (t."receipt_state" IS NULL OR t."receipt_state" <> 'reserved')), FALSE) THEN 'uncertain' WHEN t."receipt_state" IS NOT NULL THEN t."receipt_state" WHEN (strftime('%Y-%m-%d %H:%M:%f', t."receipt_sending_at", printf('%+.3f seconds', ?)) <= ? OR t."receipt_sending_at" > strftime('%Y-%m-%d %H:%M:%f', ?, printf('%+.3f seconds', ?))) THEN 'uncertain' WHEN t."receipt_sending_at" IS NOT NULL THEN 'sending' ELSE 'ready' END, t."receipt_by", t."receipt_sending_at", (t."receipt_sent_at" IS NULL AND (t."receipt_sending_at" IS NULL OR (strftime('%Y-%m-%d %H:%M:%f', t."receipt_sending_at", printf('%+.3f seconds', ?)) <= ? OR t."receipt_sending_at" > strftime('%Y-%m-%d %H:%M:%f', ?, printf('%+.3f seconds', ?))) OR t."receipt_state" = 'uncertain') AND NOT COALESCE(t."receipt_state" = 'uncertain' OR ((strftime('%Y-%m-%d %H:%M:%f', t."receipt_sending_at", printf('%+.3f seconds', ?)) <= ? OR t."receipt_sending_at" > strftime('%Y-%m-%d %H:%M:%f', ?, printf('%+.3f seconds', ?))) AND (t."receipt_state" IS NULL OR t."receipt_state" <> 'reserved')), FALSE)) IS TRUE, COALESCE(t."receipt_state" = 'uncertain' OR ((strftime('%Y-%m-%d %H:%M:%f', t."receipt_sending_at", printf('%+.3f seconds', ?)) <= ? OR t."receipt_sending_at" > strftime('%Y-%m-%d %H:%M:%f', ?, printf('%+.3f seconds', ?))) AND (t."receipt_state" IS NULL OR t."receipt_state" <> 'reserved')), FALSE)
FROM "jobs" AS t
WHERE t."job_id" = ?

-- delivery.take
UPDATE "jobs" AS t
SET "receipt_sending_at" = CASE WHEN t."receipt_sending_at" > strftime('%Y-%m-%d %H:%M:%f', ?, printf('%+.3f seconds', ?)) THEN ? ELSE max(?, COALESCE(strftime('%Y-%m-%d %H:%M:%f', t."receipt_sending_at", printf('%+.3f seconds', 0.001)), '')) END || printf('%06d', abs(random() % 400000)),
      "receipt_state" = CASE WHEN COALESCE(t."receipt_state" = 'uncertain' OR ((strftime('%Y-%m-%d %H:%M:%f', t."receipt_sending_at", printf('%+.3f seconds', ?)) <= ? OR t."receipt_sending_at" > strftime('%Y-%m-%d %H:%M:%f', ?, printf('%+.3f seconds', ?))) AND (t."receipt_state" IS NULL OR t."receipt_state" <> 'reserved')), FALSE) THEN 'sending' WHEN FALSE THEN t."receipt_state" ELSE ? END,
      "receipt_by" = ?,
      "receipt_tries" = COALESCE(t."receipt_tries", 0) + 1
WHERE t."job_id" = ?
  AND t."receipt_sent_at" IS NULL
  AND (t."receipt_sending_at" IS NULL OR (strftime('%Y-%m-%d %H:%M:%f', t."receipt_sending_at", printf('%+.3f seconds', ?)) <= ? OR t."receipt_sending_at" > strftime('%Y-%m-%d %H:%M:%f', ?, printf('%+.3f seconds', ?))) OR t."receipt_state" = 'uncertain')
  AND NOT COALESCE(t."receipt_state" = 'uncertain' OR ((strftime('%Y-%m-%d %H:%M:%f', t."receipt_sending_at", printf('%+.3f seconds', ?)) <= ? OR t."receipt_sending_at" > strftime('%Y-%m-%d %H:%M:%f', ?, printf('%+.3f seconds', ?))) AND (t."receipt_state" IS NULL OR t."receipt_state" <> 'reserved')), FALSE)
RETURNING +`receipt_sending_at`, `receipt_tries`

-- begin a receipt by the store's clock, returning: begin, delivery.look, delivery.take, commit
-- delivery.look
SELECT CASE WHEN t."receipt_sent_at" IS NOT NULL THEN 'delivered' WHEN COALESCE(t."receipt_state" = 'uncertain' OR ((strftime('%Y-%m-%d %H:%M:%f', t."receipt_sending_at", printf('%+.3f seconds', ?)) <= strftime('%Y-%m-%d %H:%M:%f', 'now') OR t."receipt_sending_at" > strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', 'now'), printf('%+.3f seconds', ?))) AND (t."receipt_state" IS NULL OR t."receipt_state" <> 'reserved')), FALSE) THEN 'uncertain' WHEN t."receipt_state" IS NOT NULL THEN t."receipt_state" WHEN (strftime('%Y-%m-%d %H:%M:%f', t."receipt_sending_at", printf('%+.3f seconds', ?)) <= strftime('%Y-%m-%d %H:%M:%f', 'now') OR t."receipt_sending_at" > strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', 'now'), printf('%+.3f seconds', ?))) THEN 'uncertain' WHEN t."receipt_sending_at" IS NOT NULL THEN 'sending' ELSE 'ready' END, t."receipt_by", t."receipt_sending_at", (t."receipt_sent_at" IS NULL AND (t."receipt_sending_at" IS NULL OR (strftime('%Y-%m-%d %H:%M:%f', t."receipt_sending_at", printf('%+.3f seconds', ?)) <= strftime('%Y-%m-%d %H:%M:%f', 'now') OR t."receipt_sending_at" > strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', 'now'), printf('%+.3f seconds', ?))) OR t."receipt_state" = 'uncertain') AND NOT COALESCE(t."receipt_state" = 'uncertain' OR ((strftime('%Y-%m-%d %H:%M:%f', t."receipt_sending_at", printf('%+.3f seconds', ?)) <= strftime('%Y-%m-%d %H:%M:%f', 'now') OR t."receipt_sending_at" > strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', 'now'), printf('%+.3f seconds', ?))) AND (t."receipt_state" IS NULL OR t."receipt_state" <> 'reserved')), FALSE)) IS TRUE, COALESCE(t."receipt_state" = 'uncertain' OR ((strftime('%Y-%m-%d %H:%M:%f', t."receipt_sending_at", printf('%+.3f seconds', ?)) <= strftime('%Y-%m-%d %H:%M:%f', 'now') OR t."receipt_sending_at" > strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', 'now'), printf('%+.3f seconds', ?))) AND (t."receipt_state" IS NULL OR t."receipt_state" <> 'reserved')), FALSE)
FROM "jobs" AS t
WHERE t."job_id" = ?

-- delivery.take
UPDATE "jobs" AS t
SET "receipt_sending_at" = CASE WHEN t."receipt_sending_at" > strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', 'now'), printf('%+.3f seconds', ?)) THEN strftime('%Y-%m-%d %H:%M:%f', 'now') ELSE max(strftime('%Y-%m-%d %H:%M:%f', 'now'), COALESCE(strftime('%Y-%m-%d %H:%M:%f', t."receipt_sending_at", printf('%+.3f seconds', 0.001)), '')) END || printf('%06d', abs(random() % 400000)),
      "receipt_state" = CASE WHEN COALESCE(t."receipt_state" = 'uncertain' OR ((strftime('%Y-%m-%d %H:%M:%f', t."receipt_sending_at", printf('%+.3f seconds', ?)) <= strftime('%Y-%m-%d %H:%M:%f', 'now') OR t."receipt_sending_at" > strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', 'now'), printf('%+.3f seconds', ?))) AND (t."receipt_state" IS NULL OR t."receipt_state" <> 'reserved')), FALSE) THEN 'sending' WHEN FALSE THEN t."receipt_state" ELSE ? END,
      "receipt_by" = ?,
      "receipt_tries" = COALESCE(t."receipt_tries", 0) + 1
WHERE t."job_id" = ?
  AND t."receipt_sent_at" IS NULL
  AND (t."receipt_sending_at" IS NULL OR (strftime('%Y-%m-%d %H:%M:%f', t."receipt_sending_at", printf('%+.3f seconds', ?)) <= strftime('%Y-%m-%d %H:%M:%f', 'now') OR t."receipt_sending_at" > strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', 'now'), printf('%+.3f seconds', ?))) OR t."receipt_state" = 'uncertain')
  AND NOT COALESCE(t."receipt_state" = 'uncertain' OR ((strftime('%Y-%m-%d %H:%M:%f', t."receipt_sending_at", printf('%+.3f seconds', ?)) <= strftime('%Y-%m-%d %H:%M:%f', 'now') OR t."receipt_sending_at" > strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', 'now'), printf('%+.3f seconds', ?))) AND (t."receipt_state" IS NULL OR t."receipt_state" <> 'reserved')), FALSE)
RETURNING +`receipt_sending_at`, `receipt_tries`, `made_at`

-- begin a receipt, refused: begin, delivery.look, commit
-- begin a receipt, missing: begin, delivery.look, commit
-- sending a receipt: delivery.mark
-- delivery.mark
UPDATE "jobs" AS t
SET "receipt_sending_at" = CASE WHEN t."receipt_sending_at" > strftime('%Y-%m-%d %H:%M:%f', ?, printf('%+.3f seconds', ?)) THEN ? ELSE max(?, COALESCE(strftime('%Y-%m-%d %H:%M:%f', t."receipt_sending_at", printf('%+.3f seconds', 0.001)), '')) END || printf('%06d', abs(random() % 400000)),
      "receipt_state" = 'sending'
WHERE t."job_id" = ?
  AND t."receipt_sending_at" = ?
  AND t."receipt_sent_at" IS NULL
RETURNING +`receipt_sending_at`

-- delivered a receipt: delivery.mark
-- delivery.mark
UPDATE "jobs" AS t
SET "receipt_sent_at" = ?,
      "receipt_sending_at" = NULL,
      "receipt_state" = 'delivered',
      "receipt_error" = ?
WHERE t."job_id" = ?
  AND t."receipt_sending_at" = ?
  AND t."receipt_sent_at" IS NULL
RETURNING +`receipt_sending_at`

-- delivered a receipt by the store's clock: delivery.mark
-- delivery.mark
UPDATE "jobs" AS t
SET "receipt_sent_at" = strftime('%Y-%m-%d %H:%M:%f', 'now'),
      "receipt_sending_at" = NULL,
      "receipt_state" = 'delivered',
      "receipt_error" = ?
WHERE t."job_id" = ?
  AND t."receipt_sending_at" = ?
  AND t."receipt_sent_at" IS NULL
RETURNING +`receipt_sending_at`

-- not sent a receipt: delivery.mark
-- delivery.mark
UPDATE "jobs" AS t
SET "receipt_sending_at" = NULL,
      "receipt_state" = 'failed',
      "receipt_error" = ?
WHERE t."job_id" = ?
  AND t."receipt_sending_at" = ?
  AND t."receipt_sent_at" IS NULL
RETURNING +`receipt_sending_at`

-- uncertain about a receipt: delivery.mark
-- delivery.mark
UPDATE "jobs" AS t
SET "receipt_sending_at" = t."receipt_sending_at",
      "receipt_state" = 'uncertain',
      "receipt_error" = ?
WHERE t."job_id" = ?
  AND t."receipt_sending_at" = ?
  AND t."receipt_sent_at" IS NULL
RETURNING +`receipt_sending_at`

-- a receipt arrived: delivery.resolve
-- delivery.resolve
UPDATE "jobs" AS t
SET "receipt_sent_at" = ?,
      "receipt_sending_at" = NULL,
      "receipt_state" = 'delivered',
      "receipt_error" = ?
WHERE t."job_id" = ?
  AND t."receipt_sent_at" IS NULL
  AND COALESCE(t."receipt_state" = 'uncertain' OR ((strftime('%Y-%m-%d %H:%M:%f', t."receipt_sending_at", printf('%+.3f seconds', ?)) <= ? OR t."receipt_sending_at" > strftime('%Y-%m-%d %H:%M:%f', ?, printf('%+.3f seconds', ?))) AND (t."receipt_state" IS NULL OR t."receipt_state" <> 'reserved')), FALSE)
RETURNING +`receipt_sending_at`

-- a receipt did not arrive: delivery.resolve, delivery.look
-- delivery.resolve
UPDATE "jobs" AS t
SET "receipt_sending_at" = NULL,
      "receipt_state" = 'failed',
      "receipt_error" = ?
WHERE t."job_id" = ?
  AND t."receipt_sent_at" IS NULL
  AND COALESCE(t."receipt_state" = 'uncertain' OR ((strftime('%Y-%m-%d %H:%M:%f', t."receipt_sending_at", printf('%+.3f seconds', ?)) <= strftime('%Y-%m-%d %H:%M:%f', 'now') OR t."receipt_sending_at" > strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', 'now'), printf('%+.3f seconds', ?))) AND (t."receipt_state" IS NULL OR t."receipt_state" <> 'reserved')), FALSE)
RETURNING +`receipt_sending_at`

-- deliveries of a receipt: delivery.list
-- delivery.list
SELECT CASE WHEN t."receipt_sent_at" IS NOT NULL THEN 'delivered' WHEN COALESCE(t."receipt_state" = 'uncertain' OR ((strftime('%Y-%m-%d %H:%M:%f', t."receipt_sending_at", printf('%+.3f seconds', ?)) <= strftime('%Y-%m-%d %H:%M:%f', 'now') OR t."receipt_sending_at" > strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', 'now'), printf('%+.3f seconds', ?))) AND (t."receipt_state" IS NULL OR t."receipt_state" <> 'reserved')), FALSE) THEN 'uncertain' WHEN t."receipt_state" IS NOT NULL THEN t."receipt_state" WHEN (strftime('%Y-%m-%d %H:%M:%f', t."receipt_sending_at", printf('%+.3f seconds', ?)) <= strftime('%Y-%m-%d %H:%M:%f', 'now') OR t."receipt_sending_at" > strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', 'now'), printf('%+.3f seconds', ?))) THEN 'uncertain' WHEN t."receipt_sending_at" IS NOT NULL THEN 'sending' ELSE 'ready' END, t."receipt_by", t."receipt_sending_at", t."receipt_tries", t."receipt_error", t."job_id"
FROM "jobs" AS t
WHERE t."receipt_sent_at" IS NULL
  AND (t."receipt_sending_at" IS NOT NULL OR t."receipt_state" = 'uncertain')
ORDER BY t."receipt_sending_at"
LIMIT ?

-- uncertain deliveries of a receipt: delivery.uncertain
-- delivery.uncertain
SELECT CASE WHEN t."receipt_sent_at" IS NOT NULL THEN 'delivered' WHEN COALESCE(t."receipt_state" = 'uncertain' OR ((strftime('%Y-%m-%d %H:%M:%f', t."receipt_sending_at", printf('%+.3f seconds', ?)) <= strftime('%Y-%m-%d %H:%M:%f', 'now') OR t."receipt_sending_at" > strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', 'now'), printf('%+.3f seconds', ?))) AND (t."receipt_state" IS NULL OR t."receipt_state" <> 'reserved')), FALSE) THEN 'uncertain' WHEN t."receipt_state" IS NOT NULL THEN t."receipt_state" WHEN (strftime('%Y-%m-%d %H:%M:%f', t."receipt_sending_at", printf('%+.3f seconds', ?)) <= strftime('%Y-%m-%d %H:%M:%f', 'now') OR t."receipt_sending_at" > strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', 'now'), printf('%+.3f seconds', ?))) THEN 'uncertain' WHEN t."receipt_sending_at" IS NOT NULL THEN 'sending' ELSE 'ready' END, t."receipt_by", t."receipt_sending_at", t."receipt_tries", t."receipt_error", t."job_id"
FROM "jobs" AS t
WHERE t."receipt_sent_at" IS NULL
  AND (t."receipt_sending_at" IS NOT NULL OR t."receipt_state" = 'uncertain')
  AND COALESCE(t."receipt_state" = 'uncertain' OR ((strftime('%Y-%m-%d %H:%M:%f', t."receipt_sending_at", printf('%+.3f seconds', ?)) <= strftime('%Y-%m-%d %H:%M:%f', 'now') OR t."receipt_sending_at" > strftime('%Y-%m-%d %H:%M:%f', strftime('%Y-%m-%d %H:%M:%f', 'now'), printf('%+.3f seconds', ?))) AND (t."receipt_state" IS NULL OR t."receipt_state" <> 'reserved')), FALSE)
ORDER BY t."receipt_sending_at"
LIMIT ?

-- reserve the permit of a receipt: begin, delivery.look, delivery.take, commit
