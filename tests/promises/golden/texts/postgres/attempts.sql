-- start: begin, attempt.lock_owner, attempt.lock_key, attempt.look, attempt.insert, commit
-- attempt.lock_owner
SELECT pg_advisory_xact_lock(hashtextextended(concat_ws(':', 'Login', 'owner', COALESCE((SELECT s."user_id" FROM "logins" AS s LIMIT 0), $1)::text), 0))

-- attempt.lock_key
SELECT current_setting('transaction_isolation'),
       pg_advisory_xact_lock(hashtextextended(concat_ws(':', 'Login', 'key', COALESCE((SELECT s."login_id" FROM "logins" AS s LIMIT 0), $1)::text), 0))

-- attempt.look
SELECT t."status"::text, t."user_id"::text, (t."started_at" + make_interval(secs => $1::float8) > $2::timestamptz), t."status" IN ('pending', 'scanned'), t."login_id"
FROM "logins" AS t
WHERE (
        t."user_id" = $3
        AND t."status" IN ('pending', 'scanned')
      )
   OR (t."login_id" = $4)
FOR NO KEY UPDATE OF t

-- attempt.insert
INSERT INTO "logins" ("login_id", "user_id", "status", "started_at", "device")
VALUES ($1, $2, 'pending', $3::timestamptz, $4)
ON CONFLICT DO NOTHING
RETURNING "login_id"::text

-- start, superseding: begin, attempt.lock_owner, attempt.lock_key, attempt.look, move.one, attempt.insert, commit
-- move.one
WITH cur AS MATERIALIZED (
    SELECT t."login_id" AS rp_key_0,
           t."status"::text AS rp_before,
           NULL::bigint AS rp_revision,
           NULL::bigint AS rp_fence,
           NULL::text AS rp_key,
           0 AS rp_unmet
    FROM "logins" AS t
    WHERE t."login_id" = $1
    FOR NO KEY UPDATE
), changed AS (
    UPDATE "logins" AS t
    SET "status" = 'superseded',
      "superseded_at" = $2::timestamptz,
      "superseded_by" = $3
    FROM cur
    WHERE t."login_id" = cur.rp_key_0
      AND cur.rp_before IN ('pending', 'scanned')
      AND cur.rp_unmet = 0
    RETURNING TRUE AS rp_won, NULL::bigint AS rp_revision
)
SELECT cur.rp_before, cur.rp_revision, cur.rp_fence, cur.rp_unmet, cur.rp_key,
       changed.rp_won, changed.rp_revision
FROM cur LEFT JOIN changed ON TRUE

-- attempt.insert
INSERT INTO "logins" ("login_id", "user_id", "status", "started_at")
VALUES ($1, $2, 'pending', $3::timestamptz)
ON CONFLICT DO NOTHING
RETURNING "login_id"::text

-- start by the store's clock: begin, attempt.lock_owner, attempt.lock_key, attempt.look, attempt.insert, commit
-- attempt.look
SELECT t."status"::text, t."user_id"::text, (t."started_at" + make_interval(secs => $1::float8) > statement_timestamp()), t."status" IN ('pending', 'scanned'), t."login_id"
FROM "logins" AS t
WHERE (
        t."user_id" = $2
        AND t."status" IN ('pending', 'scanned')
      )
   OR (t."login_id" = $3)
FOR NO KEY UPDATE OF t

-- attempt.insert
INSERT INTO "logins" ("login_id", "user_id", "status", "started_at")
VALUES ($1, $2, 'pending', statement_timestamp())
ON CONFLICT DO NOTHING
RETURNING "login_id"::text

-- start, keeping: begin, attempt.lock_owner, attempt.lock_key, attempt.look, commit
-- start, rejecting: begin, attempt.lock_owner, attempt.lock_key, attempt.look, commit
-- current attempt: table.columns, attempt.current
-- table.columns
SELECT attname::text, format_type(atttypid, atttypmod)
FROM pg_attribute
WHERE attrelid = '"logins"'::regclass
  AND attnum > 0
  AND NOT attisdropped
ORDER BY attnum

-- attempt.current
SELECT t."login_id", t."user_id", t."status", t."started_at", t."superseded_by", t."superseded_at", t."device"
FROM "logins" AS t
WHERE t."user_id" = $1
  AND t."status" IN ('pending', 'scanned')
  AND (t."started_at" + make_interval(secs => $2::float8) > statement_timestamp())

-- current attempt at a given time: table.columns, attempt.current
-- attempt.current
SELECT t."login_id", t."user_id", t."status", t."started_at", t."superseded_by", t."superseded_at", t."device"
FROM "logins" AS t
WHERE t."user_id" = $1
  AND t."status" IN ('pending', 'scanned')
  AND (t."started_at" + make_interval(secs => $2::float8) > $3::timestamptz)
