-- move, won: begin, move.write, move.note, commit
-- move.write
UPDATE "commands" AS t
SET "status" = 'SENT',
      "rev" = COALESCE(t."rev", 0) + 1,
      "sent_at" = strftime('%Y-%m-%d %H:%M:%f', 'now')
WHERE t."cmd_id" = ?
  AND t."status" = 'QUEUED'
RETURNING `rev`, CAST("cmd_id" AS TEXT)

-- move.note
INSERT INTO "raceproof_history" (lifecycle, key, move, outcome, before, after, revision, actor, reason, call, at)
VALUES ('Command', ?, 'send', ?, ?, 'SENT', ?, ?, ?, ?, strftime('%Y-%m-%d %H:%M:%f', 'now'))

-- move, won from its last source: begin, move.write ×2, move.note, commit
-- move.write
UPDATE "commands" AS t
SET "status" = 'SENT',
      "rev" = COALESCE(t."rev", 0) + 1,
      "sent_at" = strftime('%Y-%m-%d %H:%M:%f', 'now')
WHERE t."cmd_id" = ?
  AND t."status" = 'SEND_FAILED'
RETURNING `rev`, CAST("cmd_id" AS TEXT)

-- move, already: begin, move.write ×2, move.look, move.who, move.note, commit
-- move.look
SELECT t."status" AS rp_before,
       t."rev" AS rp_revision,
       NULL AS rp_fence,
       0 AS rp_unmet,
       CAST(t."cmd_id" AS TEXT) AS rp_key
FROM "commands" AS t
WHERE t."cmd_id" = ?

-- move.who
SELECT after, revision, actor
FROM "raceproof_history"
WHERE lifecycle = 'Command'
  AND key = ?
  AND outcome = 'moved'
ORDER BY id DESC
LIMIT 1

-- move, refused: begin, move.write ×2, move.look, move.who, move.note, commit
-- move.write
UPDATE "commands" AS t
SET "status" = 'ACK',
      "rev" = COALESCE(t."rev", 0) + 1,
      "ack_at" = strftime('%Y-%m-%d %H:%M:%f', 'now')
WHERE t."cmd_id" = ?
  AND t."status" = 'QUEUED'
RETURNING `rev`, CAST("cmd_id" AS TEXT)

-- move.write
UPDATE "commands" AS t
SET "status" = 'ACK',
      "rev" = COALESCE(t."rev", 0) + 1,
      "ack_at" = strftime('%Y-%m-%d %H:%M:%f', 'now')
WHERE t."cmd_id" = ?
  AND t."status" = 'SENT'
RETURNING `rev`, CAST("cmd_id" AS TEXT)

-- move.note
INSERT INTO "raceproof_history" (lifecycle, key, move, outcome, before, after, revision, actor, reason, call, at)
VALUES ('Command', ?, 'ack', ?, ?, 'ACK', ?, ?, ?, ?, strftime('%Y-%m-%d %H:%M:%f', 'now'))

-- move, missing: begin, move.write ×2, move.look, commit
-- move with columns, a guard and returning: begin, move.write ×2, move.note, commit
-- move.write
UPDATE "commands" AS t
SET "status" = 'DONE',
      "rev" = COALESCE(t."rev", 0) + 1,
      "duration_ms" = ?
WHERE t."cmd_id" = ?
  AND t."status" = 'QUEUED'
  AND t."error" is null
RETURNING `rev`, CAST("cmd_id" AS TEXT), `cmd_id`, `error`

-- move.write
UPDATE "commands" AS t
SET "status" = 'DONE',
      "rev" = COALESCE(t."rev", 0) + 1,
      "duration_ms" = ?
WHERE t."cmd_id" = ?
  AND t."status" = 'SENT'
  AND t."error" is null
RETURNING `rev`, CAST("cmd_id" AS TEXT), `cmd_id`, `error`

-- move.note
INSERT INTO "raceproof_history" (lifecycle, key, move, outcome, before, after, revision, actor, reason, call, at)
VALUES ('Command', ?, 'finish', ?, ?, 'DONE', ?, ?, ?, ?, strftime('%Y-%m-%d %H:%M:%f', 'now'))

-- move with a revision: begin, move.write ×3, move.look, move.who, move.note, commit
-- move.write
UPDATE "commands" AS t
SET "status" = 'ERROR',
      "rev" = COALESCE(t."rev", 0) + 1,
      "error" = ?
WHERE t."cmd_id" = ?
  AND t."status" = 'QUEUED'
  AND t."rev" = ?
RETURNING `rev`, CAST("cmd_id" AS TEXT)

-- move.write
UPDATE "commands" AS t
SET "status" = 'ERROR',
      "rev" = COALESCE(t."rev", 0) + 1,
      "error" = ?
WHERE t."cmd_id" = ?
  AND t."status" = 'SENT'
  AND t."rev" = ?
RETURNING `rev`, CAST("cmd_id" AS TEXT)

-- move.write
UPDATE "commands" AS t
SET "status" = 'ERROR',
      "rev" = COALESCE(t."rev", 0) + 1,
      "error" = ?
WHERE t."cmd_id" = ?
  AND t."status" = 'ACK'
  AND t."rev" = ?
RETURNING `rev`, CAST("cmd_id" AS TEXT)

-- move.look
SELECT t."status" AS rp_before,
       t."rev" AS rp_revision,
       NULL AS rp_fence,
       CASE WHEN t."rev" = ? THEN 0 ELSE 2 END AS rp_unmet,
       CAST(t."cmd_id" AS TEXT) AS rp_key
FROM "commands" AS t
WHERE t."cmd_id" = ?

-- move.note
INSERT INTO "raceproof_history" (lifecycle, key, move, outcome, before, after, revision, actor, reason, call, at)
VALUES ('Command', ?, 'fail', ?, ?, 'ERROR', ?, ?, ?, ?, strftime('%Y-%m-%d %H:%M:%f', 'now'))

-- move at a given time: begin, move.write, move.note, commit
-- move.write
UPDATE "commands" AS t
SET "status" = 'ACK',
      "rev" = COALESCE(t."rev", 0) + 1,
      "ack_at" = ?
WHERE t."cmd_id" = ?
  AND t."status" = 'QUEUED'
RETURNING `rev`, CAST("cmd_id" AS TEXT)

-- move.note
INSERT INTO "raceproof_history" (lifecycle, key, move, outcome, before, after, revision, actor, reason, call, at)
VALUES ('Command', ?, 'ack', ?, ?, 'ACK', ?, ?, ?, ?, ?)

-- move, the same call again: begin, move.look, move.replay, move.write ×2, move.look, move.who, move.note, commit
-- move.replay
SELECT before, revision
FROM "raceproof_history"
WHERE lifecycle = 'Command'
  AND key = ?
  AND call = ?
  AND move = ?
  AND outcome = 'moved'
ORDER BY id DESC
LIMIT 1

-- move_many by keys: begin, move.write_many, move.note_many, move.write_many, move.write ×2, move.look, move.who, move.note, move.write ×2, move.look, commit
-- move.write_many
UPDATE "commands" AS t
SET "status" = 'SENT',
      "rev" = COALESCE(t."rev", 0) + 1,
      "sent_at" = strftime('%Y-%m-%d %H:%M:%f', 'now')
WHERE t."cmd_id" IN (SELECT value FROM json_each(?))
  AND t."status" = 'QUEUED'
RETURNING "cmd_id", `rev`, CAST("cmd_id" AS TEXT)

-- move.note_many
INSERT INTO "raceproof_history" (lifecycle, key, move, outcome, before, after, revision, actor, reason, call, at)
SELECT 'Command', json_extract(value, '$[0]'), 'send', 'moved', ?, 'SENT',
       json_extract(value, '$[1]'), ?, ?, json_extract(value, '$[2]'), strftime('%Y-%m-%d %H:%M:%f', 'now')
FROM json_each(?)

-- move.write_many
UPDATE "commands" AS t
SET "status" = 'SENT',
      "rev" = COALESCE(t."rev", 0) + 1,
      "sent_at" = strftime('%Y-%m-%d %H:%M:%f', 'now')
WHERE t."cmd_id" IN (SELECT value FROM json_each(?))
  AND t."status" = 'SEND_FAILED'
RETURNING "cmd_id", `rev`, CAST("cmd_id" AS TEXT)

-- move_many with columns of each: begin, move.write ×3, move.note, move.write, move.note, commit
-- move.write
UPDATE "commands" AS t
SET "status" = 'ERROR',
      "rev" = COALESCE(t."rev", 0) + 1,
      "error" = ?
WHERE t."cmd_id" = ?
  AND t."status" = 'QUEUED'
RETURNING `rev`, CAST("cmd_id" AS TEXT), `rev`

-- move.write
UPDATE "commands" AS t
SET "status" = 'ERROR',
      "rev" = COALESCE(t."rev", 0) + 1,
      "error" = ?
WHERE t."cmd_id" = ?
  AND t."status" = 'SENT'
RETURNING `rev`, CAST("cmd_id" AS TEXT), `rev`

-- move.write
UPDATE "commands" AS t
SET "status" = 'ERROR',
      "rev" = COALESCE(t."rev", 0) + 1,
      "error" = ?
WHERE t."cmd_id" = ?
  AND t."status" = 'ACK'
RETURNING `rev`, CAST("cmd_id" AS TEXT), `rev`

-- move_many of what matches: begin, move.matching, commit
-- move.matching
SELECT t."cmd_id"
FROM "commands" AS t
WHERE t."status" IN ('QUEUED')
  AND t."error" is null
ORDER BY t."cmd_id"
LIMIT ?

-- read: table.columns, move.read
-- table.columns
SELECT name, type
FROM pragma_table_info('commands', NULL)
ORDER BY cid

-- move.read
SELECT t."cmd_id", t."status", t."rev", t."sent_at", t."ack_at", t."duration_ms", t."error"
FROM "commands" AS t
WHERE t."cmd_id" = ?

-- history: move.history
-- move.history
SELECT move, outcome, before, after, revision, actor, reason, call, at
FROM "raceproof_history"
WHERE lifecycle = 'Command'
  AND key = ?
ORDER BY id DESC
LIMIT ?

-- move with a fragment: begin, move.write ×2, move.note, commit
-- move.write
UPDATE "commands" AS t
SET "status" = 'ERROR',
      "rev" = COALESCE(t."rev", 0) + 1,
      "error" = ?
WHERE t."cmd_id" = ?
  AND t."status" = 'QUEUED'
  AND (t.rev < ?)
RETURNING `rev`, CAST("cmd_id" AS TEXT)

-- move.write
UPDATE "commands" AS t
SET "status" = 'ERROR',
      "rev" = COALESCE(t."rev", 0) + 1,
      "error" = ?
WHERE t."cmd_id" = ?
  AND t."status" = 'SENT'
  AND (t.rev < ?)
RETURNING `rev`, CAST("cmd_id" AS TEXT)

-- verify: verify.columns, verify.strangers, verify.unique, verify.columns, verify.objects
-- verify.columns
SELECT name, type, pk
FROM pragma_table_info(?, ?)

-- verify.strangers
SELECT DISTINCT t."status"
FROM "commands" AS t
WHERE t."status" IS NULL
   OR t."status" NOT IN ('QUEUED', 'SENT', 'ACK', 'DONE', 'ERROR', 'SEND_FAILED')
LIMIT 5

-- verify.unique
SELECT (SELECT group_concat(coalesce(name, '(expression)'), char(0)) FROM pragma_index_info(list.name, ?))
FROM pragma_index_list(?, ?) AS list
WHERE list."unique"
  AND NOT list.partial

-- verify.objects
SELECT type, name, sql
FROM "sqlite_master"
WHERE type IN ('table', 'trigger')
  AND sql IS NOT NULL
