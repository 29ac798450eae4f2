CREATE TABLE IF NOT EXISTS "raceproof_history" (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    lifecycle text NOT NULL,
    key       text NOT NULL,
    move      text NOT NULL,
    outcome   text NOT NULL,
    before    text,
    after     text NOT NULL,
    revision  bigint,
    actor     text,
    reason    text,
    call      text,
    at        timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE INDEX IF NOT EXISTS "raceproof_history_by_key" ON "raceproof_history" (lifecycle, key, id);

ALTER TABLE "commands" ADD COLUMN IF NOT EXISTS "sent_at" timestamptz;

ALTER TABLE "commands" ADD COLUMN IF NOT EXISTS "ack_at" timestamptz;

ALTER TABLE "commands" ADD COLUMN IF NOT EXISTS "rev" bigint;

ALTER TABLE "jobs" ADD COLUMN IF NOT EXISTS "claimed_by" text;

ALTER TABLE "jobs" ADD COLUMN IF NOT EXISTS "claimed_until" timestamptz;

ALTER TABLE "jobs" ADD COLUMN IF NOT EXISTS "fence" bigint;

ALTER TABLE "jobs" ADD COLUMN IF NOT EXISTS "attempts" bigint;

ALTER TABLE "jobs" ADD COLUMN IF NOT EXISTS "not_before" timestamptz;

CREATE INDEX IF NOT EXISTS "jobs_work" ON "jobs" ("made_at")
WHERE "status" IN ('QUEUED', 'RUNNING');

ALTER TABLE "logins" ADD COLUMN IF NOT EXISTS "superseded_at" timestamptz;

CREATE TABLE IF NOT EXISTS "shop"."parcel_history" (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    lifecycle text NOT NULL,
    key       text NOT NULL,
    move      text NOT NULL,
    outcome   text NOT NULL,
    before    text,
    after     text NOT NULL,
    revision  bigint,
    actor     text,
    reason    text,
    call      text,
    at        timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE INDEX IF NOT EXISTS "parcel_history_by_key" ON "shop"."parcel_history" (lifecycle, key, id);

ALTER TABLE "shop"."parcels" ADD COLUMN IF NOT EXISTS "started_at" timestamptz;

ALTER TABLE "shop"."parcels" ADD COLUMN IF NOT EXISTS "returned_at" timestamptz;

ALTER TABLE "shop"."parcels" ADD COLUMN IF NOT EXISTS "ready_at" timestamptz;

ALTER TABLE "shop"."parcels" ADD COLUMN IF NOT EXISTS "gone_at" timestamptz;

ALTER TABLE "shop"."parcels" ADD COLUMN IF NOT EXISTS "rev" bigint;

ALTER TABLE "shop"."parcels" ADD COLUMN IF NOT EXISTS "claimed_by" text;

ALTER TABLE "shop"."parcels" ADD COLUMN IF NOT EXISTS "claimed_until" timestamptz;

ALTER TABLE "shop"."parcels" ADD COLUMN IF NOT EXISTS "fence" bigint;

ALTER TABLE "shop"."parcels" ADD COLUMN IF NOT EXISTS "tries" bigint;

ALTER TABLE "shop"."parcels" ADD COLUMN IF NOT EXISTS "rests_until" timestamptz;

CREATE INDEX IF NOT EXISTS "parcels_pack" ON "shop"."parcels" ("shop", "due", "weight")
WHERE "stage" IN ('NEW', 'BUSY');

CREATE INDEX IF NOT EXISTS "parcels_pack_line" ON "shop"."parcels" ("shop", "lane", "due", "weight", "depot", "number")
WHERE "stage" IN ('NEW', 'BUSY');

ALTER TABLE "podcasts" ADD COLUMN IF NOT EXISTS "sending_at" timestamptz;

ALTER TABLE "podcasts" ADD COLUMN IF NOT EXISTS "tries" bigint;

ALTER TABLE "podcasts" ADD COLUMN IF NOT EXISTS "ai_error" text;

ALTER TABLE "podcasts" ADD COLUMN IF NOT EXISTS "vetted_by" text;

ALTER TABLE "podcasts" ADD COLUMN IF NOT EXISTS "vetted_until" timestamptz;

ALTER TABLE "podcasts" ADD COLUMN IF NOT EXISTS "vet_fence" bigint;

CREATE INDEX IF NOT EXISTS "podcasts_send" ON "podcasts" ("id")
WHERE "status" IN ('NEW', 'BUSY');

CREATE INDEX IF NOT EXISTS "podcasts_describe" ON "podcasts" ("id")
WHERE "status" IN ('NEW', 'BUSY');

CREATE INDEX IF NOT EXISTS "podcasts_vet" ON "podcasts" ("id")
WHERE "status" IN ('NEW');

CREATE OR REPLACE FUNCTION "raceproof_guard_command_10f5f77e"() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $raceproof$
/* raceproof 6f3a88738ca4e6ca */
DECLARE
    found text := CASE WHEN TG_OP = 'UPDATE' THEN OLD."status"::text END;
    wanted text := NEW."status"::text;
    excuse text := nullif(current_setting('raceproof.override', true), '');
BEGIN
    IF TG_OP = 'UPDATE' AND wanted IS NOT DISTINCT FROM found THEN
        RETURN NULL;
    END IF;
    IF TG_OP = 'INSERT' AND wanted IN ('QUEUED') THEN
        RETURN NULL;
    END IF;
    IF TG_OP = 'UPDATE' AND (found, wanted) IN (('ACK', 'DONE'), ('ACK', 'ERROR'), ('QUEUED', 'ACK'), ('QUEUED', 'DONE'), ('QUEUED', 'ERROR'), ('QUEUED', 'SEND_FAILED'), ('QUEUED', 'SENT'), ('SEND_FAILED', 'SENT'), ('SENT', 'ACK'), ('SENT', 'DONE'), ('SENT', 'ERROR')) THEN
        RETURN NULL;
    END IF;
    IF excuse IS NOT NULL THEN
        INSERT INTO "raceproof_history" (lifecycle, key, move, outcome, before, after, actor, reason)
        VALUES ('Command', NEW."cmd_id"::text, 'override', 'moved', found, wanted, session_user, excuse);
        RETURN NULL;
    END IF;
    RAISE EXCEPTION USING
        ERRCODE = '23514',
        SCHEMA = TG_TABLE_SCHEMA,
        TABLE = TG_TABLE_NAME,
        CONSTRAINT = 'raceproof_guard_command',
        MESSAGE = 'Command' || ' may not go from ' || coalesce(found, '(new)') || ' to ' || coalesce(wanted, 'NULL'),
        DETAIL = jsonb_build_object('lifecycle', 'Command', 'key', NEW."cmd_id"::text, 'from', found, 'to', wanted)::text,
        HINT = 'Only declared moves are possible here.' || ' In need: SET LOCAL raceproof.override = ''why''; it is recorded.';
END
$raceproof$;
DO $raceproof$
BEGIN
    EXECUTE format('ALTER FUNCTION %s() SET search_path = pg_catalog, %I, pg_temp', '"raceproof_guard_command_10f5f77e"', current_schema());
END
$raceproof$;
DROP TRIGGER IF EXISTS "raceproof_guard_command" ON "commands";
CREATE TRIGGER "raceproof_guard_command" AFTER INSERT OR UPDATE ON "commands"
    FOR EACH ROW EXECUTE FUNCTION "raceproof_guard_command_10f5f77e"();

CREATE OR REPLACE FUNCTION "shop"."raceproof_guard_parcel_84b5cdbf"() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $raceproof$
/* raceproof 7f1f60fafeb362ed */
DECLARE
    found text := CASE WHEN TG_OP = 'UPDATE' THEN OLD."stage"::text END;
    wanted text := NEW."stage"::text;
    excuse text := nullif(current_setting('raceproof.override', true), '');
BEGIN
    IF TG_OP = 'UPDATE' AND wanted IS NOT DISTINCT FROM found THEN
        RETURN NULL;
    END IF;
    IF TG_OP = 'INSERT' AND wanted IN ('NEW') THEN
        RETURN NULL;
    END IF;
    IF TG_OP = 'UPDATE' AND (found, wanted) IN (('BUSY', 'GONE'), ('BUSY', 'NEW'), ('BUSY', 'READY'), ('NEW', 'BUSY'), ('NEW', 'GONE'), ('NEW', 'READY')) THEN
        RETURN NULL;
    END IF;
    IF excuse IS NOT NULL THEN
        INSERT INTO "shop"."parcel_history" (lifecycle, key, move, outcome, before, after, actor, reason)
        VALUES ('Parcel', replace(replace(NEW."shop"::text, '%', '%25'), ':', '%3A') || ':' || replace(replace(NEW."depot"::text, '%', '%25'), ':', '%3A') || ':' || replace(replace(NEW."number"::text, '%', '%25'), ':', '%3A'), 'override', 'moved', found, wanted, session_user, excuse);
        RETURN NULL;
    END IF;
    RAISE EXCEPTION USING
        ERRCODE = '23514',
        SCHEMA = TG_TABLE_SCHEMA,
        TABLE = TG_TABLE_NAME,
        CONSTRAINT = 'raceproof_guard_parcel',
        MESSAGE = 'Parcel' || ' may not go from ' || coalesce(found, '(new)') || ' to ' || coalesce(wanted, 'NULL'),
        DETAIL = jsonb_build_object('lifecycle', 'Parcel', 'key', replace(replace(NEW."shop"::text, '%', '%25'), ':', '%3A') || ':' || replace(replace(NEW."depot"::text, '%', '%25'), ':', '%3A') || ':' || replace(replace(NEW."number"::text, '%', '%25'), ':', '%3A'), 'from', found, 'to', wanted)::text,
        HINT = 'Only declared moves are possible here.' || ' In need: SET LOCAL raceproof.override = ''why''; it is recorded.';
END
$raceproof$;
DROP TRIGGER IF EXISTS "raceproof_guard_parcel" ON "shop"."parcels";
CREATE TRIGGER "raceproof_guard_parcel" AFTER INSERT OR UPDATE ON "shop"."parcels"
    FOR EACH ROW EXECUTE FUNCTION "shop"."raceproof_guard_parcel_84b5cdbf"();

CREATE INDEX IF NOT EXISTS "jobs_work" ON "jobs" ("made_at")
WHERE "status" IN ('QUEUED', 'RUNNING');

CREATE INDEX IF NOT EXISTS "parcels_pack" ON "shop"."parcels" ("shop", "due", "weight")
WHERE "stage" IN ('NEW', 'BUSY');
CREATE INDEX IF NOT EXISTS "parcels_pack_line" ON "shop"."parcels" ("shop", "lane", "due", "weight", "depot", "number")
WHERE "stage" IN ('NEW', 'BUSY');

CREATE INDEX IF NOT EXISTS "podcasts_vet" ON "podcasts" ("id")
WHERE "status" IN ('NEW');

CREATE UNIQUE INDEX IF NOT EXISTS "logins_one_open" ON "logins" ("user_id")
WHERE "status" IN ('pending', 'scanned');

CREATE TABLE IF NOT EXISTS "raceproof_lease" (
    name    text PRIMARY KEY,
    holder  text NOT NULL,
    epoch   bigint NOT NULL,
    until   timestamptz,
    since   timestamptz NOT NULL,
    session boolean NOT NULL
);

CREATE TABLE IF NOT EXISTS "raceproof_inbox" (
    id            bigint GENERATED ALWAYS AS IDENTITY,
    source        text NOT NULL,
    event_id      text NOT NULL,
    ordering_key  text,
    body          bytea NOT NULL,
    headers       text NOT NULL,
    status        text NOT NULL,
    received_at   timestamptz NOT NULL,
    ended_at      timestamptz,
    claimed_by    text,
    claimed_until timestamptz,
    fence         bigint,
    attempts      integer,
    rests_until   timestamptz,
    PRIMARY KEY (source, event_id)
);
CREATE INDEX IF NOT EXISTS "raceproof_inbox_work" ON "raceproof_inbox" (id) WHERE status IN ('received', 'processing');
CREATE INDEX IF NOT EXISTS "raceproof_inbox_line" ON "raceproof_inbox" (ordering_key, id)
WHERE status IN ('received', 'processing') AND ordering_key IS NOT NULL;
CREATE INDEX IF NOT EXISTS "raceproof_inbox_ended" ON "raceproof_inbox" (ended_at) WHERE status IN ('done', 'dead');
