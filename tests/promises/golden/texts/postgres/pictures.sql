-- begin a picture: delivery.take ×4
-- delivery.take
WITH cur AS MATERIALIZED (
    SELECT t."job_id" AS rp_key_0, CASE WHEN t."delivered_at" IS NOT NULL THEN 'delivered' WHEN (t."delivering_at" + make_interval(secs => $1::float8) <= $2::timestamptz OR t."delivering_at" > $2::timestamptz + make_interval(secs => $1::float8)) THEN 'uncertain' WHEN t."delivering_at" IS NOT NULL THEN 'sending' ELSE 'ready' END AS rp_state, NULL AS rp_holder, t."delivering_at" AS rp_since,
           (t."delivered_at" IS NULL AND (t."delivering_at" IS NULL OR (t."delivering_at" + make_interval(secs => $1::float8) <= $2::timestamptz OR t."delivering_at" > $2::timestamptz + make_interval(secs => $1::float8))) AND TRUE) IS TRUE AS rp_may,
           COALESCE(t."delivering_at" IS NOT NULL AND (t."delivering_at" + make_interval(secs => $1::float8) <= $2::timestamptz OR t."delivering_at" > $2::timestamptz + make_interval(secs => $1::float8)), FALSE) AS rp_doubt
    FROM "jobs" AS t
    WHERE t."job_id" = $3
    FOR NO KEY UPDATE OF t
), changed AS (
    UPDATE "jobs" AS t
    SET "delivering_at" = CASE WHEN t."delivering_at" > $2::timestamptz + make_interval(secs => $1::float8) THEN $2::timestamptz ELSE GREATEST($2::timestamptz, t."delivering_at" + INTERVAL '1 microsecond') END
    FROM cur
    WHERE t."job_id" = cur.rp_key_0
      AND cur.rp_may
    RETURNING t."delivering_at" AS rp_fence, NULL AS rp_attempts
)
SELECT cur.rp_state, cur.rp_holder, cur.rp_since, cur.rp_doubt, changed.rp_fence, changed.rp_attempts
FROM cur LEFT JOIN changed ON TRUE

-- begin a picture by the store's clock, returning: delivery.take
-- delivery.take
WITH cur AS MATERIALIZED (
    SELECT t."job_id" AS rp_key_0, CASE WHEN t."delivered_at" IS NOT NULL THEN 'delivered' WHEN (t."delivering_at" + make_interval(secs => $1::float8) <= statement_timestamp() OR t."delivering_at" > statement_timestamp() + make_interval(secs => $1::float8)) THEN 'uncertain' WHEN t."delivering_at" IS NOT NULL THEN 'sending' ELSE 'ready' END AS rp_state, NULL AS rp_holder, t."delivering_at" AS rp_since,
           (t."delivered_at" IS NULL AND (t."delivering_at" IS NULL OR (t."delivering_at" + make_interval(secs => $1::float8) <= statement_timestamp() OR t."delivering_at" > statement_timestamp() + make_interval(secs => $1::float8))) AND TRUE) IS TRUE AS rp_may,
           COALESCE(t."delivering_at" IS NOT NULL AND (t."delivering_at" + make_interval(secs => $1::float8) <= statement_timestamp() OR t."delivering_at" > statement_timestamp() + make_interval(secs => $1::float8)), FALSE) AS rp_doubt
    FROM "jobs" AS t
    WHERE t."job_id" = $2
    FOR NO KEY UPDATE OF t
), changed AS (
    UPDATE "jobs" AS t
    SET "delivering_at" = CASE WHEN t."delivering_at" > statement_timestamp() + make_interval(secs => $1::float8) THEN statement_timestamp() ELSE GREATEST(statement_timestamp(), t."delivering_at" + INTERVAL '1 microsecond') END
    FROM cur
    WHERE t."job_id" = cur.rp_key_0
      AND cur.rp_may
    RETURNING t."delivering_at" AS rp_fence, NULL AS rp_attempts, t."made_at"
)
SELECT cur.rp_state, cur.rp_holder, cur.rp_since, cur.rp_doubt, changed.rp_fence, changed.rp_attempts, changed."made_at"
FROM cur LEFT JOIN changed ON TRUE

-- begin a picture, refused: delivery.take
-- begin a picture, missing: delivery.take
-- delivery.take
WITH cur AS MATERIALIZED (
    SELECT t."job_id" AS rp_key_0, CASE WHEN t."delivered_at" IS NOT NULL THEN 'delivered' WHEN (t."delivering_at" + make_interval(secs => $1::float8) <= statement_timestamp() OR t."delivering_at" > statement_timestamp() + make_interval(secs => $1::float8)) THEN 'uncertain' WHEN t."delivering_at" IS NOT NULL THEN 'sending' ELSE 'ready' END AS rp_state, NULL AS rp_holder, t."delivering_at" AS rp_since,
           (t."delivered_at" IS NULL AND (t."delivering_at" IS NULL OR (t."delivering_at" + make_interval(secs => $1::float8) <= statement_timestamp() OR t."delivering_at" > statement_timestamp() + make_interval(secs => $1::float8))) AND TRUE) IS TRUE AS rp_may,
           COALESCE(t."delivering_at" IS NOT NULL AND (t."delivering_at" + make_interval(secs => $1::float8) <= statement_timestamp() OR t."delivering_at" > statement_timestamp() + make_interval(secs => $1::float8)), FALSE) AS rp_doubt
    FROM "jobs" AS t
    WHERE t."job_id" = $2
    FOR NO KEY UPDATE OF t
), changed AS (
    UPDATE "jobs" AS t
    SET "delivering_at" = CASE WHEN t."delivering_at" > statement_timestamp() + make_interval(secs => $1::float8) THEN statement_timestamp() ELSE GREATEST(statement_timestamp(), t."delivering_at" + INTERVAL '1 microsecond') END
    FROM cur
    WHERE t."job_id" = cur.rp_key_0
      AND cur.rp_may
    RETURNING t."delivering_at" AS rp_fence, NULL AS rp_attempts
)
SELECT cur.rp_state, cur.rp_holder, cur.rp_since, cur.rp_doubt, changed.rp_fence, changed.rp_attempts
FROM cur LEFT JOIN changed ON TRUE

-- sending a picture: delivery.mark
-- delivery.mark
UPDATE "jobs" AS t
SET "delivering_at" = CASE WHEN t."delivering_at" > $1::timestamptz + make_interval(secs => $2::float8) THEN $1::timestamptz ELSE GREATEST($1::timestamptz, t."delivering_at" + INTERVAL '1 microsecond') END
WHERE t."job_id" = $3
  AND t."delivering_at" = $4
  AND t."delivered_at" IS NULL
RETURNING t."delivering_at"

-- delivered a picture: delivery.mark
-- delivery.mark
UPDATE "jobs" AS t
SET "delivered_at" = $1::timestamptz,
      "delivering_at" = NULL
WHERE t."job_id" = $2
  AND t."delivering_at" = $3
  AND t."delivered_at" IS NULL
RETURNING t."delivering_at"

-- delivered a picture by the store's clock: delivery.mark
-- delivery.mark
UPDATE "jobs" AS t
SET "delivered_at" = statement_timestamp(),
      "delivering_at" = NULL
WHERE t."job_id" = $1
  AND t."delivering_at" = $2
  AND t."delivered_at" IS NULL
RETURNING t."delivering_at"

-- not sent a picture: delivery.mark
-- delivery.mark
UPDATE "jobs" AS t
SET "delivering_at" = NULL
WHERE t."job_id" = $1
  AND t."delivering_at" = $2
  AND t."delivered_at" IS NULL
RETURNING t."delivering_at"

-- uncertain about a picture: nothing
-- a picture arrived: delivery.resolve
-- delivery.resolve
UPDATE "jobs" AS t
SET "delivered_at" = $1::timestamptz,
      "delivering_at" = NULL
WHERE t."job_id" = $2
  AND t."delivered_at" IS NULL
  AND COALESCE(t."delivering_at" IS NOT NULL AND (t."delivering_at" + make_interval(secs => $3::float8) <= $1::timestamptz OR t."delivering_at" > $1::timestamptz + make_interval(secs => $3::float8)), FALSE)
RETURNING t."delivering_at"

-- a picture did not arrive: delivery.resolve, delivery.look
-- delivery.resolve
UPDATE "jobs" AS t
SET "delivering_at" = NULL
WHERE t."job_id" = $1
  AND t."delivered_at" IS NULL
  AND COALESCE(t."delivering_at" IS NOT NULL AND (t."delivering_at" + make_interval(secs => $2::float8) <= statement_timestamp() OR t."delivering_at" > statement_timestamp() + make_interval(secs => $2::float8)), FALSE)
RETURNING t."delivering_at"

-- delivery.look
SELECT CASE WHEN t."delivered_at" IS NOT NULL THEN 'delivered' WHEN (t."delivering_at" + make_interval(secs => $1::float8) <= statement_timestamp() OR t."delivering_at" > statement_timestamp() + make_interval(secs => $1::float8)) THEN 'uncertain' WHEN t."delivering_at" IS NOT NULL THEN 'sending' ELSE 'ready' END, NULL, t."delivering_at"
FROM "jobs" AS t
WHERE t."job_id" = $2
FOR KEY SHARE OF t

-- deliveries of a picture: delivery.list
-- delivery.list
SELECT CASE WHEN t."delivered_at" IS NOT NULL THEN 'delivered' WHEN (t."delivering_at" + make_interval(secs => $1::float8) <= statement_timestamp() OR t."delivering_at" > statement_timestamp() + make_interval(secs => $1::float8)) THEN 'uncertain' WHEN t."delivering_at" IS NOT NULL THEN 'sending' ELSE 'ready' END, NULL, t."delivering_at", NULL, NULL, t."job_id"
FROM "jobs" AS t
WHERE t."delivered_at" IS NULL
  AND t."delivering_at" IS NOT NULL
ORDER BY t."delivering_at"
LIMIT $2

-- uncertain deliveries of a picture: delivery.uncertain
-- delivery.uncertain
SELECT CASE WHEN t."delivered_at" IS NOT NULL THEN 'delivered' WHEN (t."delivering_at" + make_interval(secs => $1::float8) <= statement_timestamp() OR t."delivering_at" > statement_timestamp() + make_interval(secs => $1::float8)) THEN 'uncertain' WHEN t."delivering_at" IS NOT NULL THEN 'sending' ELSE 'ready' END, NULL, t."delivering_at", NULL, NULL, t."job_id"
FROM "jobs" AS t
WHERE t."delivered_at" IS NULL
  AND t."delivering_at" IS NOT NULL
  AND COALESCE(t."delivering_at" IS NOT NULL AND (t."delivering_at" + make_interval(secs => $1::float8) <= statement_timestamp() OR t."delivering_at" > statement_timestamp() + make_interval(secs => $1::float8)), FALSE)
ORDER BY t."delivering_at"
LIMIT $2

-- begin a receipt: delivery.take ×4
-- delivery.take
WITH cur AS MATERIALIZED (
    SELECT t."job_id" AS rp_key_0, CASE WHEN t."receipt_sent_at" IS NOT NULL THEN 'delivered' WHEN COALESCE(t."receipt_state" = 'uncertain' OR ((t."receipt_sending_at" + make_interval(secs => $1::float8) <= $2::timestamptz OR t."receipt_sending_at" > $2::timestamptz + make_interval(secs => $1::float8)) AND (t."receipt_state" IS NULL OR t."receipt_state" <> 'reserved')), FALSE) THEN 'uncertain' WHEN t."receipt_state" IS NOT NULL THEN t."receipt_state" WHEN (t."receipt_sending_at" + make_interval(secs => $1::float8) <= $2::timestamptz OR t."receipt_sending_at" > $2::timestamptz + make_interval(secs => $1::float8)) THEN 'uncertain' WHEN t."receipt_sending_at" IS NOT NULL THEN 'sending' ELSE 'ready' END AS rp_state, t."receipt_by" AS rp_holder, t."receipt_sending_at" AS rp_since,
           (t."receipt_sent_at" IS NULL AND (t."receipt_sending_at" IS NULL OR (t."receipt_sending_at" + make_interval(secs => $1::float8) <= $2::timestamptz OR t."receipt_sending_at" > $2::timestamptz + make_interval(secs => $1::float8)) OR t."receipt_state" = 'uncertain') AND NOT COALESCE(t."receipt_state" = 'uncertain' OR ((t."receipt_sending_at" + make_interval(secs => $1::float8) <= $2::timestamptz OR t."receipt_sending_at" > $2::timestamptz + make_interval(secs => $1::float8)) AND (t."receipt_state" IS NULL OR t."receipt_state" <> 'reserved')), FALSE)) IS TRUE AS rp_may,
           COALESCE(t."receipt_state" = 'uncertain' OR ((t."receipt_sending_at" + make_interval(secs => $1::float8) <= $2::timestamptz OR t."receipt_sending_at" > $2::timestamptz + make_interval(secs => $1::float8)) AND (t."receipt_state" IS NULL OR t."receipt_state" <> 'reserved')), FALSE) AS rp_doubt
    FROM "jobs" AS t
    WHERE t."job_id" = $3
    FOR NO KEY UPDATE OF t
), changed AS (
    UPDATE "jobs" AS t
    SET "receipt_sending_at" = CASE WHEN t."receipt_sending_at" > $2::timestamptz + make_interval(secs => $1::float8) THEN $2::timestamptz ELSE GREATEST($2::timestamptz, t."receipt_sending_at" + INTERVAL '1 microsecond') END,
      "receipt_state" = CASE WHEN COALESCE(t."receipt_state" = 'uncertain' OR ((t."receipt_sending_at" + make_interval(secs => $1::float8) <= $2::timestamptz OR t."receipt_sending_at" > $2::timestamptz + make_interval(secs => $1::float8)) AND (t."receipt_state" IS NULL OR t."receipt_state" <> 'reserved')), FALSE) THEN 'sending' WHEN FALSE THEN t."receipt_state" ELSE $4 END,
      "receipt_by" = $5,
      "receipt_tries" = COALESCE(t."receipt_tries", 0) + 1
    FROM cur
    WHERE t."job_id" = cur.rp_key_0
      AND cur.rp_may
    RETURNING t."receipt_sending_at" AS rp_fence, t."receipt_tries" AS rp_attempts
)
SELECT cur.rp_state, cur.rp_holder, cur.rp_since, cur.rp_doubt, changed.rp_fence, changed.rp_attempts
FROM cur LEFT JOIN changed ON TRUE

-- begin a receipt by the store's clock, returning: delivery.take
-- delivery.take
WITH cur AS MATERIALIZED (
    SELECT t."job_id" AS rp_key_0, CASE WHEN t."receipt_sent_at" IS NOT NULL THEN 'delivered' WHEN COALESCE(t."receipt_state" = 'uncertain' OR ((t."receipt_sending_at" + make_interval(secs => $1::float8) <= statement_timestamp() OR t."receipt_sending_at" > statement_timestamp() + make_interval(secs => $1::float8)) AND (t."receipt_state" IS NULL OR t."receipt_state" <> 'reserved')), FALSE) THEN 'uncertain' WHEN t."receipt_state" IS NOT NULL THEN t."receipt_state" WHEN (t."receipt_sending_at" + make_interval(secs => $1::float8) <= statement_timestamp() OR t."receipt_sending_at" > statement_timestamp() + make_interval(secs => $1::float8)) THEN 'uncertain' WHEN t."receipt_sending_at" IS NOT NULL THEN 'sending' ELSE 'ready' END AS rp_state, t."receipt_by" AS rp_holder, t."receipt_sending_at" AS rp_since,
           (t."receipt_sent_at" IS NULL AND (t."receipt_sending_at" IS NULL OR (t."receipt_sending_at" + make_interval(secs => $1::float8) <= statement_timestamp() OR t."receipt_sending_at" > statement_timestamp() + make_interval(secs => $1::float8)) OR t."receipt_state" = 'uncertain') AND NOT COALESCE(t."receipt_state" = 'uncertain' OR ((t."receipt_sending_at" + make_interval(secs => $1::float8) <= statement_timestamp() OR t."receipt_sending_at" > statement_timestamp() + make_interval(secs => $1::float8)) AND (t."receipt_state" IS NULL OR t."receipt_state" <> 'reserved')), FALSE)) IS TRUE AS rp_may,
           COALESCE(t."receipt_state" = 'uncertain' OR ((t."receipt_sending_at" + make_interval(secs => $1::float8) <= statement_timestamp() OR t."receipt_sending_at" > statement_timestamp() + make_interval(secs => $1::float8)) AND (t."receipt_state" IS NULL OR t."receipt_state" <> 'reserved')), FALSE) AS rp_doubt
    FROM "jobs" AS t
    WHERE t."job_id" = $2
    FOR NO KEY UPDATE OF t
), changed AS (
    UPDATE "jobs" AS t
    SET "receipt_sending_at" = CASE WHEN t."receipt_sending_at" > statement_timestamp() + make_interval(secs => $1::float8) THEN statement_timestamp() ELSE GREATEST(statement_timestamp(), t."receipt_sending_at" + INTERVAL '1 microsecond') END,
      "receipt_state" = CASE WHEN COALESCE(t."receipt_state" = 'uncertain' OR ((t."receipt_sending_at" + make_interval(secs => $1::float8) <= statement_timestamp() OR t."receipt_sending_at" > statement_timestamp() + make_interval(secs => $1::float8)) AND (t."receipt_state" IS NULL OR t."receipt_state" <> 'reserved')), FALSE) THEN 'sending' WHEN FALSE THEN t."receipt_state" ELSE $3 END,
      "receipt_by" = $4,
      "receipt_tries" = COALESCE(t."receipt_tries", 0) + 1
    FROM cur
    WHERE t."job_id" = cur.rp_key_0
      AND cur.rp_may
    RETURNING t."receipt_sending_at" AS rp_fence, t."receipt_tries" AS rp_attempts, t."made_at"
)
SELECT cur.rp_state, cur.rp_holder, cur.rp_since, cur.rp_doubt, changed.rp_fence, changed.rp_attempts, changed."made_at"
FROM cur LEFT JOIN changed ON TRUE

-- begin a receipt, refused: delivery.take
-- begin a receipt, missing: delivery.take
-- delivery.take
WITH cur AS MATERIALIZED (
    SELECT t."job_id" AS rp_key_0, CASE WHEN t."receipt_sent_at" IS NOT NULL THEN 'delivered' WHEN COALESCE(t."receipt_state" = 'uncertain' OR ((t."receipt_sending_at" + make_interval(secs => $1::float8) <= statement_timestamp() OR t."receipt_sending_at" > statement_timestamp() + make_interval(secs => $1::float8)) AND (t."receipt_state" IS NULL OR t."receipt_state" <> 'reserved')), FALSE) THEN 'uncertain' WHEN t."receipt_state" IS NOT NULL THEN t."receipt_state" WHEN (t."receipt_sending_at" + make_interval(secs => $1::float8) <= statement_timestamp() OR t."receipt_sending_at" > statement_timestamp() + make_interval(secs => $1::float8)) THEN 'uncertain' WHEN t."receipt_sending_at" IS NOT NULL THEN 'sending' ELSE 'ready' END AS rp_state, t."receipt_by" AS rp_holder, t."receipt_sending_at" AS rp_since,
           (t."receipt_sent_at" IS NULL AND (t."receipt_sending_at" IS NULL OR (t."receipt_sending_at" + make_interval(secs => $1::float8) <= statement_timestamp() OR t."receipt_sending_at" > statement_timestamp() + make_interval(secs => $1::float8)) OR t."receipt_state" = 'uncertain') AND NOT COALESCE(t."receipt_state" = 'uncertain' OR ((t."receipt_sending_at" + make_interval(secs => $1::float8) <= statement_timestamp() OR t."receipt_sending_at" > statement_timestamp() + make_interval(secs => $1::float8)) AND (t."receipt_state" IS NULL OR t."receipt_state" <> 'reserved')), FALSE)) IS TRUE AS rp_may,
           COALESCE(t."receipt_state" = 'uncertain' OR ((t."receipt_sending_at" + make_interval(secs => $1::float8) <= statement_timestamp() OR t."receipt_sending_at" > statement_timestamp() + make_interval(secs => $1::float8)) AND (t."receipt_state" IS NULL OR t."receipt_state" <> 'reserved')), FALSE) AS rp_doubt
    FROM "jobs" AS t
    WHERE t."job_id" = $2
    FOR NO KEY UPDATE OF t
), changed AS (
    UPDATE "jobs" AS t
    SET "receipt_sending_at" = CASE WHEN t."receipt_sending_at" > statement_timestamp() + make_interval(secs => $1::float8) THEN statement_timestamp() ELSE GREATEST(statement_timestamp(), t."receipt_sending_at" + INTERVAL '1 microsecond') END,
      "receipt_state" = CASE WHEN COALESCE(t."receipt_state" = 'uncertain' OR ((t."receipt_sending_at" + make_interval(secs => $1::float8) <= statement_timestamp() OR t."receipt_sending_at" > statement_timestamp() + make_interval(secs => $1::float8)) AND (t."receipt_state" IS NULL OR t."receipt_state" <> 'reserved')), FALSE) THEN 'sending' WHEN FALSE THEN t."receipt_state" ELSE $3 END,
      "receipt_by" = $4,
      "receipt_tries" = COALESCE(t."receipt_tries", 0) + 1
    FROM cur
    WHERE t."job_id" = cur.rp_key_0
      AND cur.rp_may
    RETURNING t."receipt_sending_at" AS rp_fence, t."receipt_tries" AS rp_attempts
)
SELECT cur.rp_state, cur.rp_holder, cur.rp_since, cur.rp_doubt, changed.rp_fence, changed.rp_attempts
FROM cur LEFT JOIN changed ON TRUE

-- sending a receipt: delivery.mark
-- delivery.mark
UPDATE "jobs" AS t
SET "receipt_sending_at" = CASE WHEN t."receipt_sending_at" > $1::timestamptz + make_interval(secs => $2::float8) THEN $1::timestamptz ELSE GREATEST($1::timestamptz, t."receipt_sending_at" + INTERVAL '1 microsecond') END,
      "receipt_state" = 'sending'
WHERE t."job_id" = $3
  AND t."receipt_sending_at" = $4
  AND t."receipt_sent_at" IS NULL
RETURNING t."receipt_sending_at"

-- delivered a receipt: delivery.mark
-- delivery.mark
UPDATE "jobs" AS t
SET "receipt_sent_at" = $1::timestamptz,
      "receipt_sending_at" = NULL,
      "receipt_state" = 'delivered',
      "receipt_error" = $2
WHERE t."job_id" = $3
  AND t."receipt_sending_at" = $4
  AND t."receipt_sent_at" IS NULL
RETURNING t."receipt_sending_at"

-- delivered a receipt by the store's clock: delivery.mark
-- delivery.mark
UPDATE "jobs" AS t
SET "receipt_sent_at" = statement_timestamp(),
      "receipt_sending_at" = NULL,
      "receipt_state" = 'delivered',
      "receipt_error" = $1
WHERE t."job_id" = $2
  AND t."receipt_sending_at" = $3
  AND t."receipt_sent_at" IS NULL
RETURNING t."receipt_sending_at"

-- not sent a receipt: delivery.mark
-- delivery.mark
UPDATE "jobs" AS t
SET "receipt_sending_at" = NULL,
      "receipt_state" = 'failed',
      "receipt_error" = $1
WHERE t."job_id" = $2
  AND t."receipt_sending_at" = $3
  AND t."receipt_sent_at" IS NULL
RETURNING t."receipt_sending_at"

-- uncertain about a receipt: delivery.mark
-- delivery.mark
UPDATE "jobs" AS t
SET "receipt_sending_at" = t."receipt_sending_at",
      "receipt_state" = 'uncertain',
      "receipt_error" = $1
WHERE t."job_id" = $2
  AND t."receipt_sending_at" = $3
  AND t."receipt_sent_at" IS NULL
RETURNING t."receipt_sending_at"

-- a receipt arrived: delivery.resolve
-- delivery.resolve
UPDATE "jobs" AS t
SET "receipt_sent_at" = $1::timestamptz,
      "receipt_sending_at" = NULL,
      "receipt_state" = 'delivered',
      "receipt_error" = $2
WHERE t."job_id" = $3
  AND t."receipt_sent_at" IS NULL
  AND COALESCE(t."receipt_state" = 'uncertain' OR ((t."receipt_sending_at" + make_interval(secs => $4::float8) <= $1::timestamptz OR t."receipt_sending_at" > $1::timestamptz + make_interval(secs => $4::float8)) AND (t."receipt_state" IS NULL OR t."receipt_state" <> 'reserved')), FALSE)
RETURNING t."receipt_sending_at"

-- a receipt did not arrive: delivery.resolve, delivery.look
-- delivery.resolve
UPDATE "jobs" AS t
SET "receipt_sending_at" = NULL,
      "receipt_state" = 'failed',
      "receipt_error" = $1
WHERE t."job_id" = $2
  AND t."receipt_sent_at" IS NULL
  AND COALESCE(t."receipt_state" = 'uncertain' OR ((t."receipt_sending_at" + make_interval(secs => $3::float8) <= statement_timestamp() OR t."receipt_sending_at" > statement_timestamp() + make_interval(secs => $3::float8)) AND (t."receipt_state" IS NULL OR t."receipt_state" <> 'reserved')), FALSE)
RETURNING t."receipt_sending_at"

-- delivery.look
SELECT CASE WHEN t."receipt_sent_at" IS NOT NULL THEN 'delivered' WHEN COALESCE(t."receipt_state" = 'uncertain' OR ((t."receipt_sending_at" + make_interval(secs => $1::float8) <= statement_timestamp() OR t."receipt_sending_at" > statement_timestamp() + make_interval(secs => $1::float8)) AND (t."receipt_state" IS NULL OR t."receipt_state" <> 'reserved')), FALSE) THEN 'uncertain' WHEN t."receipt_state" IS NOT NULL THEN t."receipt_state" WHEN (t."receipt_sending_at" + make_interval(secs => $1::float8) <= statement_timestamp() OR t."receipt_sending_at" > statement_timestamp() + make_interval(secs => $1::float8)) THEN 'uncertain' WHEN t."receipt_sending_at" IS NOT NULL THEN 'sending' ELSE 'ready' END, t."receipt_by", t."receipt_sending_at"
FROM "jobs" AS t
WHERE t."job_id" = $2
FOR KEY SHARE OF t

-- deliveries of a receipt: delivery.list
-- delivery.list
SELECT CASE WHEN t."receipt_sent_at" IS NOT NULL THEN 'delivered' WHEN COALESCE(t."receipt_state" = 'uncertain' OR ((t."receipt_sending_at" + make_interval(secs => $1::float8) <= statement_timestamp() OR t."receipt_sending_at" > statement_timestamp() + make_interval(secs => $1::float8)) AND (t."receipt_state" IS NULL OR t."receipt_state" <> 'reserved')), FALSE) THEN 'uncertain' WHEN t."receipt_state" IS NOT NULL THEN t."receipt_state" WHEN (t."receipt_sending_at" + make_interval(secs => $1::float8) <= statement_timestamp() OR t."receipt_sending_at" > statement_timestamp() + make_interval(secs => $1::float8)) THEN 'uncertain' WHEN t."receipt_sending_at" IS NOT NULL THEN 'sending' ELSE 'ready' END, t."receipt_by", t."receipt_sending_at", t."receipt_tries", t."receipt_error", t."job_id"
FROM "jobs" AS t
WHERE t."receipt_sent_at" IS NULL
  AND (t."receipt_sending_at" IS NOT NULL OR t."receipt_state" = 'uncertain')
ORDER BY t."receipt_sending_at"
LIMIT $2

-- uncertain deliveries of a receipt: delivery.uncertain
-- delivery.uncertain
SELECT CASE WHEN t."receipt_sent_at" IS NOT NULL THEN 'delivered' WHEN COALESCE(t."receipt_state" = 'uncertain' OR ((t."receipt_sending_at" + make_interval(secs => $1::float8) <= statement_timestamp() OR t."receipt_sending_at" > statement_timestamp() + make_interval(secs => $1::float8)) AND (t."receipt_state" IS NULL OR t."receipt_state" <> 'reserved')), FALSE) THEN 'uncertain' WHEN t."receipt_state" IS NOT NULL THEN t."receipt_state" WHEN (t."receipt_sending_at" + make_interval(secs => $1::float8) <= statement_timestamp() OR t."receipt_sending_at" > statement_timestamp() + make_interval(secs => $1::float8)) THEN 'uncertain' WHEN t."receipt_sending_at" IS NOT NULL THEN 'sending' ELSE 'ready' END, t."receipt_by", t."receipt_sending_at", t."receipt_tries", t."receipt_error", t."job_id"
FROM "jobs" AS t
WHERE t."receipt_sent_at" IS NULL
  AND (t."receipt_sending_at" IS NOT NULL OR t."receipt_state" = 'uncertain')
  AND COALESCE(t."receipt_state" = 'uncertain' OR ((t."receipt_sending_at" + make_interval(secs => $1::float8) <= statement_timestamp() OR t."receipt_sending_at" > statement_timestamp() + make_interval(secs => $1::float8)) AND (t."receipt_state" IS NULL OR t."receipt_state" <> 'reserved')), FALSE)
ORDER BY t."receipt_sending_at"
LIMIT $2

-- reserve the permit of a receipt: delivery.take
