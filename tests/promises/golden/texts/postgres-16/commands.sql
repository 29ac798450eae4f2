-- move, won: move.one
-- move, won from its last source: move.one
-- move, already: move.one, move.who
-- move, refused: move.one, move.who
-- move, missing: move.one
-- move with columns, a guard and returning: move.one
-- move.one
WITH cur AS MATERIALIZED (
    SELECT t."cmd_id" AS rp_key_0,
           t."status"::text AS rp_before,
           t."rev" AS rp_revision,
           NULL::bigint AS rp_fence,
           t."cmd_id"::text AS rp_key,
           CASE WHEN t."error" is null THEN 0 ELSE 4 END AS rp_unmet
    FROM "commands" AS t
    WHERE t."cmd_id" = $1
    FOR NO KEY UPDATE
), changed AS (
    UPDATE "commands" AS t
    SET "status" = 'DONE',
      "rev" = COALESCE(t."rev", 0) + 1,
      "duration_ms" = $2
    FROM cur
    WHERE t."cmd_id" = cur.rp_key_0
      AND cur.rp_before IN ('QUEUED', 'SENT', 'ACK')
      AND cur.rp_unmet = 0
    RETURNING TRUE AS rp_won, t."rev" AS rp_revision, t."cmd_id", t."error"
), noted AS (
    INSERT INTO "raceproof_history" (lifecycle, key, move, outcome, before, after, revision, actor, reason, call, at)
    SELECT 'Command', cur.rp_key, 'finish', CASE WHEN changed.rp_won THEN 'moved' WHEN cur.rp_unmet & 1 = 1 THEN 'lost' WHEN cur.rp_before = 'DONE' AND cur.rp_unmet & ~0 = 0 THEN 'already' ELSE 'refused' END, cur.rp_before, 'DONE',
           COALESCE(changed.rp_revision, cur.rp_revision), $3::text, $4::text, $5::text, clock_timestamp()
    FROM cur LEFT JOIN changed ON TRUE
)
SELECT cur.rp_before, cur.rp_revision, cur.rp_fence, cur.rp_unmet, cur.rp_key,
       changed.rp_won, changed.rp_revision, changed."cmd_id", changed."error"
FROM cur LEFT JOIN changed ON TRUE

-- move with a revision: move.one, move.who
-- move at a given time: move.one
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
      "ack_at" = $2::timestamptz
    FROM cur
    WHERE t."cmd_id" = cur.rp_key_0
      AND cur.rp_before IN ('QUEUED', 'SENT')
      AND cur.rp_unmet = 0
    RETURNING TRUE AS rp_won, t."rev" AS rp_revision
), noted AS (
    INSERT INTO "raceproof_history" (lifecycle, key, move, outcome, before, after, revision, actor, reason, call, at)
    SELECT 'Command', cur.rp_key, 'ack', CASE WHEN changed.rp_won THEN 'moved' WHEN cur.rp_unmet & 1 = 1 THEN 'lost' WHEN cur.rp_before = 'ACK' AND cur.rp_unmet & ~0 = 0 THEN 'already' ELSE 'refused' END, cur.rp_before, 'ACK',
           COALESCE(changed.rp_revision, cur.rp_revision), $3::text, $4::text, $5::text, $2::timestamptz
    FROM cur LEFT JOIN changed ON TRUE
)
SELECT cur.rp_before, cur.rp_revision, cur.rp_fence, cur.rp_unmet, cur.rp_key,
       changed.rp_won, changed.rp_revision
FROM cur LEFT JOIN changed ON TRUE

-- move, the same call again: begin, move.lock, move.replay, move.one, move.who, commit
-- move_many by keys: table.columns, move.many, move.who_of_many, move.many
-- move_many with columns of each: move.many
-- move_many of what matches: move.matching
-- read: table.columns, move.read
-- history: move.history
-- move with a fragment: move.one
-- move.one
WITH cur AS MATERIALIZED (
    SELECT t."cmd_id" AS rp_key_0,
           t."status"::text AS rp_before,
           t."rev" AS rp_revision,
           NULL::bigint AS rp_fence,
           t."cmd_id"::text AS rp_key,
           CASE WHEN (t.rev < $1) THEN 0 ELSE 4 END AS rp_unmet
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

-- verify: verify.table, verify.columns, verify.labels, verify.strangers, verify.unique, verify.table, verify.columns, verify.guard, verify.guarded
