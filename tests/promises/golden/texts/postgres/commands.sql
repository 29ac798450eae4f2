-- move, won: move.fast
-- move.fast
WITH changed AS (
    UPDATE "commands" AS t
    SET "status" = 'SENT',
      "rev" = COALESCE(t."rev", 0) + 1,
      "sent_at" = clock_timestamp()
    WHERE t."cmd_id" = $1
      AND t."status" IN ('QUEUED', 'SEND_FAILED')
    RETURNING old."status"::text AS rp_before, t."rev" AS rp_revision, t."cmd_id"::text AS rp_key
), noted AS (
    INSERT INTO "raceproof_history" (lifecycle, key, move, outcome, before, after, revision, actor, reason, call, at)
    SELECT 'Command', rp_key, 'send', 'moved', rp_before, 'SENT', rp_revision, $2::text, $3::text, $4::text, clock_timestamp()
    FROM changed
)
SELECT rp_before, rp_revision
FROM changed

-- move, won from its last source: move.fast
-- move, already: move.fast, move.one, move.who
-- move.one
WITH cur AS MATERIALIZED (
    SELECT t."cmd_id" AS rp_key_0,
           t."status"::text AS rp_before,
           t."rev" AS rp_revision,
           NULL::bigint AS rp_fence,
           t."cmd_id"::text AS rp_key,
           0 AS rp_unmet
    FROM "commands" AS t
    WHERE t."cmd_id" = $1
    FOR NO KEY UPDATE
), changed AS (
    UPDATE "commands" AS t
    SET "status" = 'SENT',
      "rev" = COALESCE(t."rev", 0) + 1,
      "sent_at" = clock_timestamp()
    FROM cur
    WHERE t."cmd_id" = cur.rp_key_0
      AND cur.rp_before IN ('QUEUED', 'SEND_FAILED')
      AND cur.rp_unmet = 0
    RETURNING TRUE AS rp_won, t."rev" AS rp_revision
), noted AS (
    INSERT INTO "raceproof_history" (lifecycle, key, move, outcome, before, after, revision, actor, reason, call, at)
    SELECT 'Command', cur.rp_key, 'send', CASE WHEN changed.rp_won THEN 'moved' WHEN cur.rp_unmet & 1 = 1 THEN 'lost' WHEN cur.rp_before = 'SENT' AND cur.rp_unmet & ~0 = 0 THEN 'already' ELSE 'refused' END, cur.rp_before, 'SENT',
           COALESCE(changed.rp_revision, cur.rp_revision), $2::text, $3::text, $4::text, clock_timestamp()
    FROM cur LEFT JOIN changed ON TRUE
)
SELECT cur.rp_before, cur.rp_revision, cur.rp_fence, cur.rp_unmet, cur.rp_key,
       changed.rp_won, changed.rp_revision
FROM cur LEFT JOIN changed ON TRUE

-- move.who
SELECT after, revision, actor
FROM "raceproof_history"
WHERE lifecycle = 'Command'
  AND key = $1
  AND outcome = 'moved'
ORDER BY id DESC
LIMIT 1

-- move, refused: move.fast, move.one, move.who
-- move.fast
WITH changed AS (
    UPDATE "commands" AS t
    SET "status" = 'ACK',
      "rev" = COALESCE(t."rev", 0) + 1,
      "ack_at" = clock_timestamp()
    WHERE t."cmd_id" = $1
      AND t."status" IN ('QUEUED', 'SENT')
    RETURNING old."status"::text AS rp_before, t."rev" AS rp_revision, t."cmd_id"::text AS rp_key
), noted AS (
    INSERT INTO "raceproof_history" (lifecycle, key, move, outcome, before, after, revision, actor, reason, call, at)
    SELECT 'Command', rp_key, 'ack', 'moved', rp_before, 'ACK', rp_revision, $2::text, $3::text, $4::text, clock_timestamp()
    FROM changed
)
SELECT rp_before, rp_revision
FROM changed

-- move.one
WITH cur AS MATERIALIZED (
    SELECT t."cmd_id" AS rp_key_0,
           t."status"::text AS rp_before,
           t."rev" AS rp_revision,
           NULL::bigint AS rp_fence,
           t."cmd_id"::text AS rp_key,
           0 AS rp_unmet
    FROM "commands" AS t
    WHERE t."cmd_id" = $1
    FOR NO KEY UPDATE
), changed AS (
    UPDATE "commands" AS t
    SET "status" = 'ACK',
      "rev" = COALESCE(t."rev", 0) + 1,
      "ack_at" = clock_timestamp()
    FROM cur
    WHERE t."cmd_id" = cur.rp_key_0
      AND cur.rp_before IN ('QUEUED', 'SENT')
      AND cur.rp_unmet = 0
    RETURNING TRUE AS rp_won, t."rev" AS rp_revision
), noted AS (
    INSERT INTO "raceproof_history" (lifecycle, key, move, outcome, before, after, revision, actor, reason, call, at)
    SELECT 'Command', cur.rp_key, 'ack', CASE WHEN changed.rp_won THEN 'moved' WHEN cur.rp_unmet & 1 = 1 THEN 'lost' WHEN cur.rp_before = 'ACK' AND cur.rp_unmet & ~0 = 0 THEN 'already' ELSE 'refused' END, cur.rp_before, 'ACK',
           COALESCE(changed.rp_revision, cur.rp_revision), $2::text, $3::text, $4::text, clock_timestamp()
    FROM cur LEFT JOIN changed ON TRUE
)
SELECT cur.rp_before, cur.rp_revision, cur.rp_fence, cur.rp_unmet, cur.rp_key,
       changed.rp_won, changed.rp_revision
FROM cur LEFT JOIN changed ON TRUE

-- move, missing: move.fast, move.one
-- move with columns, a guard and returning: move.fast
-- move.fast
WITH changed AS (
    UPDATE "commands" AS t
    SET "status" = 'DONE',
      "rev" = COALESCE(t."rev", 0) + 1,
      "duration_ms" = $1
    WHERE t."cmd_id" = $2
      AND t."status" IN ('QUEUED', 'SENT', 'ACK')
      AND t."error" is null
    RETURNING old."status"::text AS rp_before, t."rev" AS rp_revision, t."cmd_id"::text AS rp_key, t."cmd_id", t."error"
), noted AS (
    INSERT INTO "raceproof_history" (lifecycle, key, move, outcome, before, after, revision, actor, reason, call, at)
    SELECT 'Command', rp_key, 'finish', 'moved', rp_before, 'DONE', rp_revision, $3::text, $4::text, $5::text, clock_timestamp()
    FROM changed
)
SELECT rp_before, rp_revision, changed."cmd_id", changed."error"
FROM changed

-- move with a revision: move.fast, move.one, move.who
-- move.fast
WITH changed AS (
    UPDATE "commands" AS t
    SET "status" = 'ERROR',
      "rev" = COALESCE(t."rev", 0) + 1,
      "error" = $1
    WHERE t."cmd_id" = $2
      AND t."status" IN ('QUEUED', 'SENT', 'ACK')
      AND t."rev" = $3
    RETURNING old."status"::text AS rp_before, t."rev" AS rp_revision, t."cmd_id"::text AS rp_key
), noted AS (
    INSERT INTO "raceproof_history" (lifecycle, key, move, outcome, before, after, revision, actor, reason, call, at)
    SELECT 'Command', rp_key, 'fail', 'moved', rp_before, 'ERROR', rp_revision, $4::text, $5::text, $6::text, clock_timestamp()
    FROM changed
)
SELECT rp_before, rp_revision
FROM changed

-- move.one
WITH cur AS MATERIALIZED (
    SELECT t."cmd_id" AS rp_key_0,
           t."status"::text AS rp_before,
           t."rev" AS rp_revision,
           NULL::bigint AS rp_fence,
           t."cmd_id"::text AS rp_key,
           CASE WHEN t."rev" = $1 THEN 0 ELSE 2 END AS rp_unmet
    FROM "commands" AS t
    WHERE t."cmd_id" = $2
    FOR NO KEY UPDATE
), changed AS (
    UPDATE "commands" AS t
    SET "status" = 'ERROR',
      "rev" = COALESCE(t."rev", 0) + 1,
      "error" = $3
    FROM cur
    WHERE t."cmd_id" = cur.rp_key_0
      AND cur.rp_before IN ('QUEUED', 'SENT', 'ACK')
      AND cur.rp_unmet = 0
    RETURNING TRUE AS rp_won, t."rev" AS rp_revision
), noted AS (
    INSERT INTO "raceproof_history" (lifecycle, key, move, outcome, before, after, revision, actor, reason, call, at)
    SELECT 'Command', cur.rp_key, 'fail', CASE WHEN changed.rp_won THEN 'moved' WHEN cur.rp_unmet & 1 = 1 THEN 'lost' WHEN cur.rp_before = 'ERROR' AND cur.rp_unmet & ~0 = 0 THEN 'already' ELSE 'refused' END, cur.rp_before, 'ERROR',
           COALESCE(changed.rp_revision, cur.rp_revision), $4::text, $5::text, $6::text, clock_timestamp()
    FROM cur LEFT JOIN changed ON TRUE
)
SELECT cur.rp_before, cur.rp_revision, cur.rp_fence, cur.rp_unmet, cur.rp_key,
       changed.rp_won, changed.rp_revision
FROM cur LEFT JOIN changed ON TRUE

-- move at a given time: move.fast
-- move.fast
WITH changed AS (
    UPDATE "commands" AS t
    SET "status" = 'ACK',
      "rev" = COALESCE(t."rev", 0) + 1,
      "ack_at" = $1::timestamptz
    WHERE t."cmd_id" = $2
      AND t."status" IN ('QUEUED', 'SENT')
    RETURNING old."status"::text AS rp_before, t."rev" AS rp_revision, t."cmd_id"::text AS rp_key
), noted AS (
    INSERT INTO "raceproof_history" (lifecycle, key, move, outcome, before, after, revision, actor, reason, call, at)
    SELECT 'Command', rp_key, 'ack', 'moved', rp_before, 'ACK', rp_revision, $3::text, $4::text, $5::text, $1::timestamptz
    FROM changed
)
SELECT rp_before, rp_revision
FROM changed

-- move, the same call again: begin, move.lock, move.replay, move.one, move.who, commit
-- move.lock
SELECT t."cmd_id"::text AS rp_key
FROM "commands" AS t
WHERE t."cmd_id" = $1
FOR NO KEY UPDATE

-- move.replay
SELECT before, revision
FROM "raceproof_history"
WHERE lifecycle = 'Command'
  AND key = $1
  AND call = $2
  AND move = $3
  AND outcome = 'moved'
ORDER BY id DESC
LIMIT 1

-- move_many by keys: table.columns, move.many, move.who_of_many, move.many
-- table.columns
SELECT attname::text, format_type(atttypid, atttypmod)
FROM pg_attribute
WHERE attrelid = '"commands"'::regclass
  AND attnum > 0
  AND NOT attisdropped
ORDER BY attnum

-- move.many
WITH wanted AS (
    SELECT w.*
    FROM unnest($1::text[],
      $2::text[],
      $3::text[],
      $4::text[]) WITH ORDINALITY AS w (rp_wanted_0, rp_by, rp_reason, rp_call, rp_ord)
), cur AS MATERIALIZED (
    SELECT w.*,
           t."cmd_id" AS rp_key_0,
           t."status"::text AS rp_before,
           t."rev" AS rp_revision,
           NULL::bigint AS rp_fence,
           t."cmd_id"::text AS rp_key,
           0 AS rp_unmet
    FROM "commands" AS t
    JOIN wanted AS w ON t."cmd_id" = w.rp_wanted_0
    ORDER BY t."cmd_id"
    FOR NO KEY UPDATE OF t
), changed AS (
    UPDATE "commands" AS t
    SET "status" = 'SENT',
      "rev" = COALESCE(t."rev", 0) + 1,
      "sent_at" = clock_timestamp()
    FROM cur
    WHERE t."cmd_id" = cur.rp_key_0
      AND cur.rp_before IN ('QUEUED', 'SEND_FAILED')
      AND cur.rp_unmet = 0
    RETURNING TRUE AS rp_won, cur.rp_ord, t."rev" AS rp_revision
), noted AS (
    INSERT INTO "raceproof_history" (lifecycle, key, move, outcome, before, after, revision, actor, reason, call, at)
    SELECT 'Command', cur.rp_key, 'send', CASE WHEN changed.rp_won THEN 'moved' WHEN cur.rp_unmet & 1 = 1 THEN 'lost' WHEN cur.rp_before = 'SENT' AND cur.rp_unmet & ~0 = 0 THEN 'already' ELSE 'refused' END, cur.rp_before, 'SENT',
           COALESCE(changed.rp_revision, cur.rp_revision), cur.rp_by::text, cur.rp_reason::text, cur.rp_call::text, clock_timestamp()
    FROM cur LEFT JOIN changed ON changed.rp_ord = cur.rp_ord
)
SELECT cur.rp_ord, cur.rp_before, cur.rp_revision, cur.rp_fence, cur.rp_unmet, cur.rp_key,
       changed.rp_won, changed.rp_revision
FROM cur LEFT JOIN changed ON changed.rp_ord = cur.rp_ord

-- move.who_of_many
SELECT DISTINCT ON (key) key, after, revision, actor
FROM "raceproof_history"
WHERE lifecycle = 'Command'
  AND key = ANY($1::text[])
  AND outcome = 'moved'
ORDER BY key, id DESC

-- move_many with columns of each: move.many
-- move.many
WITH wanted AS (
    SELECT w.*
    FROM unnest($1::text[],
      $2::text[],
      $3::text[],
      $4::text[],
      $5::text[]) WITH ORDINALITY AS w (rp_wanted_0, rp_set_0, rp_by, rp_reason, rp_call, rp_ord)
), cur AS MATERIALIZED (
    SELECT w.*,
           t."cmd_id" AS rp_key_0,
           t."status"::text AS rp_before,
           t."rev" AS rp_revision,
           NULL::bigint AS rp_fence,
           t."cmd_id"::text AS rp_key,
           0 AS rp_unmet
    FROM "commands" AS t
    JOIN wanted AS w ON t."cmd_id" = w.rp_wanted_0
    ORDER BY t."cmd_id"
    FOR NO KEY UPDATE OF t
), changed AS (
    UPDATE "commands" AS t
    SET "status" = 'ERROR',
      "rev" = COALESCE(t."rev", 0) + 1,
      "error" = cur.rp_set_0
    FROM cur
    WHERE t."cmd_id" = cur.rp_key_0
      AND cur.rp_before IN ('QUEUED', 'SENT', 'ACK')
      AND cur.rp_unmet = 0
    RETURNING TRUE AS rp_won, cur.rp_ord, t."rev" AS rp_revision, t."rev"
), noted AS (
    INSERT INTO "raceproof_history" (lifecycle, key, move, outcome, before, after, revision, actor, reason, call, at)
    SELECT 'Command', cur.rp_key, 'fail', CASE WHEN changed.rp_won THEN 'moved' WHEN cur.rp_unmet & 1 = 1 THEN 'lost' WHEN cur.rp_before = 'ERROR' AND cur.rp_unmet & ~0 = 0 THEN 'already' ELSE 'refused' END, cur.rp_before, 'ERROR',
           COALESCE(changed.rp_revision, cur.rp_revision), cur.rp_by::text, cur.rp_reason::text, cur.rp_call::text, clock_timestamp()
    FROM cur LEFT JOIN changed ON changed.rp_ord = cur.rp_ord
)
SELECT cur.rp_ord, cur.rp_before, cur.rp_revision, cur.rp_fence, cur.rp_unmet, cur.rp_key,
       changed.rp_won, changed.rp_revision, changed."rev"
FROM cur LEFT JOIN changed ON changed.rp_ord = cur.rp_ord

-- move_many of what matches: move.matching
-- move.matching
WITH cur AS MATERIALIZED (
    SELECT t."cmd_id" AS rp_key_0,
           t."status"::text AS rp_before,
           t."cmd_id"::text AS rp_key
    FROM "commands" AS t
    WHERE t."status" IN ('QUEUED')
      AND t."error" is null
    ORDER BY t."cmd_id"
    LIMIT $1
    FOR NO KEY UPDATE OF t
), changed AS (
    UPDATE "commands" AS t
    SET "status" = 'SEND_FAILED',
      "rev" = COALESCE(t."rev", 0) + 1,
      "error" = $2
    FROM cur
    WHERE t."cmd_id" = cur.rp_key_0
      AND cur.rp_before IN ('QUEUED')
    RETURNING TRUE AS rp_won, t."cmd_id" AS rp_key_0, t."rev" AS rp_revision
), noted AS (
    INSERT INTO "raceproof_history" (lifecycle, key, move, outcome, before, after, revision, actor, reason, call, at)
    SELECT 'Command', cur.rp_key, 'fail_sending', 'moved', cur.rp_before, 'SEND_FAILED',
           changed.rp_revision, $3::text, $4::text, $5::text, clock_timestamp()
    FROM cur JOIN changed ON changed.rp_key_0 = cur.rp_key_0
)
SELECT cur.rp_before, changed.rp_revision, changed.rp_key_0
FROM cur JOIN changed ON changed.rp_key_0 = cur.rp_key_0

-- read: table.columns, move.read
-- move.read
SELECT t."cmd_id", t."status", t."rev", t."sent_at", t."ack_at", t."duration_ms", t."error"
FROM "commands" AS t
WHERE t."cmd_id" = $1

-- history: move.history
-- move.history
SELECT move, outcome, before, after, revision, actor, reason, call, at
FROM "raceproof_history"
WHERE lifecycle = 'Command'
  AND key = $1
ORDER BY id DESC
LIMIT $2

-- move with a fragment: move.fast
-- move.fast
WITH changed AS (
    UPDATE "commands" AS t
    SET "status" = 'ERROR',
      "rev" = COALESCE(t."rev", 0) + 1,
      "error" = $1
    WHERE t."cmd_id" = $2
      AND t."status" IN ('QUEUED', 'SENT', 'ACK')
      AND (t.rev < $3)
    RETURNING old."status"::text AS rp_before, t."rev" AS rp_revision, t."cmd_id"::text AS rp_key
), noted AS (
    INSERT INTO "raceproof_history" (lifecycle, key, move, outcome, before, after, revision, actor, reason, call, at)
    SELECT 'Command', rp_key, 'fail', 'moved', rp_before, 'ERROR', rp_revision, $4::text, $5::text, $6::text, clock_timestamp()
    FROM changed
)
SELECT rp_before, rp_revision
FROM changed

-- verify: verify.table, verify.columns, verify.labels, verify.strangers, verify.unique, verify.table, verify.columns, verify.guard, verify.guarded
-- verify.table
SELECT to_regclass($1::text)::oid::bigint

-- verify.columns
SELECT attname::text, format_type(atttypid, atttypmod), attnotnull
FROM pg_attribute
WHERE attrelid = $1::bigint::oid
  AND attnum > 0
  AND NOT attisdropped

-- verify.labels
SELECT e.enumlabel::text
FROM pg_attribute a
JOIN pg_enum e ON e.enumtypid = a.atttypid
WHERE a.attrelid = $1::bigint::oid
  AND a.attname = $2::text

-- verify.strangers
SELECT DISTINCT t."status"::text
FROM "commands" AS t
WHERE t."status" IS NULL
   OR t."status"::text NOT IN ('QUEUED', 'SENT', 'ACK', 'DONE', 'ERROR', 'SEND_FAILED')
LIMIT 5

-- verify.unique
SELECT array_agg(a.attname::text)
FROM pg_index i
CROSS JOIN unnest(i.indkey::int[]) WITH ORDINALITY AS k (number, place)
LEFT JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number
WHERE i.indrelid = $1::bigint::oid
  AND i.indisunique
  AND i.indisvalid
  AND i.indpred IS NULL
  AND i.indexprs IS NULL
  AND k.place <= i.indnkeyatts
GROUP BY i.indexrelid

-- verify.guard
SELECT t.tgenabled::text, t.tgtype::int, t.tgqual IS NULL AND t.tgattr::text = '', p.prosrc
FROM pg_trigger t
JOIN pg_proc p ON p.oid = t.tgfoid
WHERE t.tgrelid = $1::bigint::oid
  AND t.tgname = $2::text

-- verify.guarded
SELECT p.proname::text
FROM pg_proc p
JOIN pg_class c ON c.relnamespace = p.pronamespace
WHERE c.oid = $1::bigint::oid
  AND starts_with(p.proname::text, 'raceproof_guard_')
ORDER BY 1
