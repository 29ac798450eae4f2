CREATE TABLE IF NOT EXISTS "raceproof_history" (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    lifecycle TEXT NOT NULL,
    key       TEXT NOT NULL,
    move      TEXT NOT NULL,
    outcome   TEXT NOT NULL,
    before    TEXT,
    after     TEXT NOT NULL,
    revision  INTEGER,
    actor     TEXT,
    reason    TEXT,
    call      TEXT,
    at        TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now'))
);

CREATE INDEX IF NOT EXISTS "raceproof_history_by_key" ON "raceproof_history" (lifecycle, key, id);

CREATE INDEX IF NOT EXISTS "jobs_work" ON "jobs" ("made_at")
WHERE "status" IN ('QUEUED', 'RUNNING');

CREATE TABLE IF NOT EXISTS "shop"."parcel_history" (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    lifecycle TEXT NOT NULL,
    key       TEXT NOT NULL,
    move      TEXT NOT NULL,
    outcome   TEXT NOT NULL,
    before    TEXT,
    after     TEXT NOT NULL,
    revision  INTEGER,
    actor     TEXT,
    reason    TEXT,
    call      TEXT,
    at        TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now'))
);

CREATE INDEX IF NOT EXISTS "shop"."parcel_history_by_key" ON "parcel_history" (lifecycle, key, id);

CREATE INDEX IF NOT EXISTS "shop"."parcels_pack" ON "parcels" ("shop", "due", "weight")
WHERE "stage" IN ('NEW', 'BUSY');

CREATE INDEX IF NOT EXISTS "shop"."parcels_pack_line" ON "parcels" ("shop", "lane", "due", "weight", "depot", "number")
WHERE "stage" IN ('NEW', 'BUSY');

CREATE INDEX IF NOT EXISTS "podcasts_send" ON "podcasts" ("id")
WHERE "status" IN ('NEW', 'BUSY');

CREATE INDEX IF NOT EXISTS "podcasts_describe" ON "podcasts" ("id")
WHERE "status" IN ('NEW', 'BUSY');

CREATE INDEX IF NOT EXISTS "podcasts_vet" ON "podcasts" ("id")
WHERE "status" IN ('NEW');

CREATE TABLE IF NOT EXISTS "raceproof_override" (
    lifecycle TEXT PRIMARY KEY,
    actor     TEXT,
    reason    TEXT NOT NULL CHECK (reason <> '')
);
DROP TRIGGER IF EXISTS "raceproof_guard_command_update";
CREATE TRIGGER "raceproof_guard_command_update" BEFORE UPDATE ON "commands" FOR EACH ROW
WHEN NEW."status" IS NOT OLD."status"
 AND (OLD."status" = 'ACK' AND NEW."status" IN ('DONE', 'ERROR')
   OR OLD."status" = 'QUEUED' AND NEW."status" IN ('ACK', 'DONE', 'ERROR', 'SEND_FAILED', 'SENT')
   OR OLD."status" = 'SEND_FAILED' AND NEW."status" IN ('SENT')
   OR OLD."status" = 'SENT' AND NEW."status" IN ('ACK', 'DONE', 'ERROR')) IS NOT TRUE
 AND NOT EXISTS (SELECT 1 FROM raceproof_override WHERE lifecycle = 'Command')
BEGIN
    /* raceproof 6f3a88738ca4e6ca */
    SELECT RAISE(ABORT, 'raceproof_guard_command: Command may not change its status like this');
END;
DROP TRIGGER IF EXISTS "raceproof_guard_command_insert";
CREATE TRIGGER "raceproof_guard_command_insert" BEFORE INSERT ON "commands" FOR EACH ROW
WHEN (NEW."status" IN ('QUEUED')) IS NOT TRUE
 AND NOT EXISTS (SELECT 1 FROM raceproof_override WHERE lifecycle = 'Command')
BEGIN
    /* raceproof 6f3a88738ca4e6ca */
    SELECT RAISE(ABORT, 'raceproof_guard_command: Command must start at QUEUED');
END;
DROP TRIGGER IF EXISTS "raceproof_guard_command_record_update";
CREATE TRIGGER "raceproof_guard_command_record_update" AFTER UPDATE ON "commands" FOR EACH ROW
WHEN NEW."status" IS NOT OLD."status"
 AND (OLD."status" = 'ACK' AND NEW."status" IN ('DONE', 'ERROR')
   OR OLD."status" = 'QUEUED' AND NEW."status" IN ('ACK', 'DONE', 'ERROR', 'SEND_FAILED', 'SENT')
   OR OLD."status" = 'SEND_FAILED' AND NEW."status" IN ('SENT')
   OR OLD."status" = 'SENT' AND NEW."status" IN ('ACK', 'DONE', 'ERROR')) IS NOT TRUE
BEGIN
    INSERT INTO "raceproof_history" (lifecycle, key, move, outcome, before, after, actor, reason)
    SELECT 'Command', CAST(NEW."cmd_id" AS TEXT), 'override', 'moved', OLD."status", NEW."status", actor, reason
    FROM raceproof_override WHERE lifecycle = 'Command';
    DELETE FROM raceproof_override WHERE lifecycle = 'Command';
END;
DROP TRIGGER IF EXISTS "raceproof_guard_command_record_insert";
CREATE TRIGGER "raceproof_guard_command_record_insert" AFTER INSERT ON "commands" FOR EACH ROW
WHEN (NEW."status" IN ('QUEUED')) IS NOT TRUE
BEGIN
    INSERT INTO "raceproof_history" (lifecycle, key, move, outcome, before, after, actor, reason)
    SELECT 'Command', CAST(NEW."cmd_id" AS TEXT), 'override', 'moved', NULL, NEW."status", actor, reason
    FROM raceproof_override WHERE lifecycle = 'Command';
    DELETE FROM raceproof_override WHERE lifecycle = 'Command';
END;

CREATE TABLE IF NOT EXISTS "shop"."raceproof_override" (
    lifecycle TEXT PRIMARY KEY,
    actor     TEXT,
    reason    TEXT NOT NULL CHECK (reason <> '')
);
DROP TRIGGER IF EXISTS "shop"."raceproof_guard_parcel_update";
CREATE TRIGGER "shop"."raceproof_guard_parcel_update" BEFORE UPDATE ON "parcels" FOR EACH ROW
WHEN NEW."stage" IS NOT OLD."stage"
 AND (OLD."stage" = 'BUSY' AND NEW."stage" IN ('GONE', 'NEW', 'READY')
   OR OLD."stage" = 'NEW' AND NEW."stage" IN ('BUSY', 'GONE', 'READY')) IS NOT TRUE
 AND NOT EXISTS (SELECT 1 FROM raceproof_override WHERE lifecycle = 'Parcel')
BEGIN
    /* raceproof 7f1f60fafeb362ed */
    SELECT RAISE(ABORT, 'raceproof_guard_parcel: Parcel may not change its stage like this');
END;
DROP TRIGGER IF EXISTS "shop"."raceproof_guard_parcel_insert";
CREATE TRIGGER "shop"."raceproof_guard_parcel_insert" BEFORE INSERT ON "parcels" FOR EACH ROW
WHEN (NEW."stage" IN ('NEW')) IS NOT TRUE
 AND NOT EXISTS (SELECT 1 FROM raceproof_override WHERE lifecycle = 'Parcel')
BEGIN
    /* raceproof 7f1f60fafeb362ed */
    SELECT RAISE(ABORT, 'raceproof_guard_parcel: Parcel must start at NEW');
END;
DROP TRIGGER IF EXISTS "shop"."raceproof_guard_parcel_record_update";
CREATE TRIGGER "shop"."raceproof_guard_parcel_record_update" AFTER UPDATE ON "parcels" FOR EACH ROW
WHEN NEW."stage" IS NOT OLD."stage"
 AND (OLD."stage" = 'BUSY' AND NEW."stage" IN ('GONE', 'NEW', 'READY')
   OR OLD."stage" = 'NEW' AND NEW."stage" IN ('BUSY', 'GONE', 'READY')) IS NOT TRUE
BEGIN
    INSERT INTO "parcel_history" (lifecycle, key, move, outcome, before, after, actor, reason)
    SELECT 'Parcel', replace(replace(CAST(NEW."shop" AS TEXT), '%', '%25'), ':', '%3A') || ':' || replace(replace(CAST(NEW."depot" AS TEXT), '%', '%25'), ':', '%3A') || ':' || replace(replace(CAST(NEW."number" AS TEXT), '%', '%25'), ':', '%3A'), 'override', 'moved', OLD."stage", NEW."stage", actor, reason
    FROM raceproof_override WHERE lifecycle = 'Parcel';
    DELETE FROM raceproof_override WHERE lifecycle = 'Parcel';
END;
DROP TRIGGER IF EXISTS "shop"."raceproof_guard_parcel_record_insert";
CREATE TRIGGER "shop"."raceproof_guard_parcel_record_insert" AFTER INSERT ON "parcels" FOR EACH ROW
WHEN (NEW."stage" IN ('NEW')) IS NOT TRUE
BEGIN
    INSERT INTO "parcel_history" (lifecycle, key, move, outcome, before, after, actor, reason)
    SELECT 'Parcel', replace(replace(CAST(NEW."shop" AS TEXT), '%', '%25'), ':', '%3A') || ':' || replace(replace(CAST(NEW."depot" AS TEXT), '%', '%25'), ':', '%3A') || ':' || replace(replace(CAST(NEW."number" AS TEXT), '%', '%25'), ':', '%3A'), 'override', 'moved', NULL, NEW."stage", actor, reason
    FROM raceproof_override WHERE lifecycle = 'Parcel';
    DELETE FROM raceproof_override WHERE lifecycle = 'Parcel';
END;

CREATE INDEX IF NOT EXISTS "jobs_work" ON "jobs" ("made_at")
WHERE "status" IN ('QUEUED', 'RUNNING');

CREATE INDEX IF NOT EXISTS "shop"."parcels_pack" ON "parcels" ("shop", "due", "weight")
WHERE "stage" IN ('NEW', 'BUSY');
CREATE INDEX IF NOT EXISTS "shop"."parcels_pack_line" ON "parcels" ("shop", "lane", "due", "weight", "depot", "number")
WHERE "stage" IN ('NEW', 'BUSY');

CREATE INDEX IF NOT EXISTS "podcasts_vet" ON "podcasts" ("id")
WHERE "status" IN ('NEW');

CREATE UNIQUE INDEX IF NOT EXISTS "logins_one_open" ON "logins" ("user_id")
WHERE "status" IN ('pending', 'scanned');

CREATE TABLE IF NOT EXISTS "raceproof_lease" (
    name    text PRIMARY KEY,
    holder  text NOT NULL,
    epoch   INTEGER NOT NULL,
    until   TEXT,
    since   TEXT NOT NULL,
    session INTEGER NOT NULL
);

CREATE TABLE IF NOT EXISTS "raceproof_inbox" (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    source        TEXT NOT NULL,
    event_id      TEXT NOT NULL,
    ordering_key  TEXT,
    body          BLOB NOT NULL,
    headers       TEXT NOT NULL,
    status        TEXT NOT NULL,
    received_at   TEXT NOT NULL,
    ended_at      TEXT,
    claimed_by    TEXT,
    claimed_until TEXT,
    fence         INTEGER,
    attempts      INTEGER,
    rests_until   TEXT,
    UNIQUE (source, event_id)
);
CREATE INDEX IF NOT EXISTS "raceproof_inbox_work" ON "raceproof_inbox" (id) WHERE status IN ('received', 'processing');
CREATE INDEX IF NOT EXISTS "raceproof_inbox_line" ON "raceproof_inbox" (ordering_key, id)
WHERE status IN ('received', 'processing') AND ordering_key IS NOT NULL;
CREATE INDEX IF NOT EXISTS "raceproof_inbox_ended" ON "raceproof_inbox" (ended_at) WHERE status IN ('done', 'dead');
