-- The database of the demo: the same commands in two tables, and an audit that no side can avoid.

CREATE TABLE commands (
    cmd_id     TEXT PRIMARY KEY,
    due        REAL NOT NULL, -- seconds after the start of the race
    status     TEXT NOT NULL DEFAULT 'QUEUED',
    updated_by TEXT,
    rev        INTEGER NOT NULL DEFAULT 0
);

CREATE TABLE commands_unguarded (
    cmd_id     TEXT PRIMARY KEY,
    due        REAL NOT NULL,
    status     TEXT NOT NULL DEFAULT 'QUEUED',
    updated_by TEXT
);

-- Every write of a status, in the order in which the database made them.
CREATE TABLE audit (
    id     INTEGER PRIMARY KEY,
    side   TEXT NOT NULL,
    cmd_id TEXT NOT NULL,
    before TEXT NOT NULL,
    after  TEXT NOT NULL,
    actor  TEXT,
    at     TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now'))
);

CREATE INDEX audit_of_command ON audit (side, cmd_id);

-- An UPDATE that writes the status that is already there fires as well: two processes have then won the same move.
CREATE TRIGGER audit_commands AFTER UPDATE OF status ON commands
BEGIN
    INSERT INTO audit (side, cmd_id, before, after, actor)
    VALUES ('raceproof', NEW.cmd_id, OLD.status, NEW.status, NEW.updated_by);
END;

CREATE TRIGGER audit_commands_unguarded AFTER UPDATE OF status ON commands_unguarded
BEGIN
    INSERT INTO audit (side, cmd_id, before, after, actor)
    VALUES ('unguarded', NEW.cmd_id, OLD.status, NEW.status, NEW.updated_by);
END;
