-- Guards on SQLite: the declared moves are the only ones possible, for raw SQL too.
-- An override is a row in raceproof_override, written in the same transaction; it is good for one change and then gone.

-- name: override table
CREATE TABLE IF NOT EXISTS {override} (
    lifecycle TEXT PRIMARY KEY,
    actor     TEXT,
    reason    TEXT NOT NULL CHECK (reason <> '')
);

-- name: guard.update
CREATE TRIGGER {update_trigger} BEFORE UPDATE ON {table} FOR EACH ROW
WHEN NEW.{status} IS NOT OLD.{status}
 AND ({declared}) IS NOT TRUE
 AND NOT {excused}
BEGIN
    /* raceproof {hash} */
    SELECT RAISE(ABORT, {update_message});
END;

-- name: guard.insert
CREATE TRIGGER {insert_trigger} BEFORE INSERT ON {table} FOR EACH ROW
WHEN (NEW.{status} IN ({initial})) IS NOT TRUE
 AND NOT {excused}
BEGIN
    /* raceproof {hash} */
    SELECT RAISE(ABORT, {insert_message});
END;

-- name: guard.record_update
CREATE TRIGGER {record_update_trigger} AFTER UPDATE ON {table} FOR EACH ROW
WHEN NEW.{status} IS NOT OLD.{status}
 AND ({declared}) IS NOT TRUE
BEGIN
    INSERT INTO {history} (lifecycle, key, move, outcome, before, after, actor, reason)
    SELECT {lifecycle}, {new_key}, 'override', 'moved', OLD.{status}, NEW.{status}, actor, reason
    FROM raceproof_override WHERE lifecycle = {lifecycle};
    DELETE FROM raceproof_override WHERE lifecycle = {lifecycle};
END;

-- name: guard.record_insert
CREATE TRIGGER {record_insert_trigger} AFTER INSERT ON {table} FOR EACH ROW
WHEN (NEW.{status} IN ({initial})) IS NOT TRUE
BEGIN
    INSERT INTO {history} (lifecycle, key, move, outcome, before, after, actor, reason)
    SELECT {lifecycle}, {new_key}, 'override', 'moved', NULL, NEW.{status}, actor, reason
    FROM raceproof_override WHERE lifecycle = {lifecycle};
    DELETE FROM raceproof_override WHERE lifecycle = {lifecycle};
END;

-- name: drop
DROP TRIGGER IF EXISTS {trigger};

-- name: excused
EXISTS (SELECT 1 FROM raceproof_override WHERE lifecycle = {lifecycle})
