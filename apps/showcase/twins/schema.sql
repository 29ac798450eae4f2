-- Both sides have these tables. What begins with "seen" was seen from outside, or by a trigger, and is never changed.

CREATE TABLE pictures (
    picture_id     TEXT PRIMARY KEY,
    delivery_state TEXT,
    delivering_at  TEXT,
    delivered_at   TEXT,
    delivered_by   TEXT
);

-- Every picture that arrived in a chat. It cannot be taken back.
CREATE TABLE seen_pictures (id INTEGER PRIMARY KEY, picture_id TEXT NOT NULL, sender TEXT NOT NULL, at REAL NOT NULL);
CREATE INDEX seen_pictures_of ON seen_pictures (picture_id);

-- Pictures that are finished, and since when.
CREATE TABLE seen_orders (picture_id TEXT PRIMARY KEY, at REAL NOT NULL);

CREATE TABLE commands (
    cmd_id TEXT PRIMARY KEY,
    status TEXT NOT NULL DEFAULT 'QUEUED'
);

-- Every status that was written, with the one that was there.
CREATE TABLE seen_statuses (id INTEGER PRIMARY KEY, cmd_id TEXT NOT NULL, before TEXT NOT NULL, after TEXT NOT NULL);

CREATE TRIGGER statuses_are_seen AFTER UPDATE OF status ON commands
BEGIN
    INSERT INTO seen_statuses (cmd_id, before, after) VALUES (NEW.cmd_id, OLD.status, NEW.status);
END;

CREATE TABLE slots (
    slot   TEXT PRIMARY KEY,
    status TEXT NOT NULL DEFAULT 'DUE',
    ran_by TEXT
);

-- Who leads without raceproof; with it, that is the table of leases.
CREATE TABLE heartbeat (holder TEXT NOT NULL, at REAL NOT NULL);
INSERT INTO heartbeat VALUES ('nobody', 0);

-- Every run of the leader's job that was written down, with who led at that moment.
CREATE TABLE seen_runs (id INTEGER PRIMARY KEY, slot TEXT NOT NULL, ran_by TEXT NOT NULL, leader TEXT);

CREATE TRIGGER runs_are_seen AFTER UPDATE OF ran_by ON slots
BEGIN
    INSERT INTO seen_runs (slot, ran_by, leader)
    VALUES (NEW.slot, NEW.ran_by, COALESCE((SELECT holder FROM raceproof_lease WHERE name = 'reports'),
                                           (SELECT holder FROM heartbeat)));
END;

CREATE TABLE jobs (
    job_id        TEXT PRIMARY KEY,
    status        TEXT NOT NULL DEFAULT 'QUEUED',
    result        TEXT,
    claimed_by    TEXT,
    claimed_until,
    fence         INTEGER
);

-- Every result that was written, with what was there before and whose job it was at that moment.
CREATE TABLE seen_results (id INTEGER PRIMARY KEY, job_id TEXT NOT NULL, before TEXT, after TEXT NOT NULL, holder TEXT);

CREATE TRIGGER results_are_seen AFTER UPDATE OF result ON jobs WHEN NEW.result IS NOT NULL
BEGIN
    INSERT INTO seen_results (job_id, before, after, holder)
    VALUES (NEW.job_id, OLD.result, NEW.result, OLD.claimed_by);
END;

-- What was done about each update of a webhook.
CREATE TABLE processed (id INTEGER PRIMARY KEY, update_id TEXT NOT NULL, worker TEXT NOT NULL);
CREATE INDEX processed_of ON processed (update_id);

-- Updates that were answered with 200: their sender has forgotten them.
CREATE TABLE seen_accepted (update_id TEXT PRIMARY KEY, at REAL NOT NULL);

CREATE TABLE attempts (
    attempt_id    TEXT PRIMARY KEY,
    user_id       TEXT NOT NULL,
    status        TEXT NOT NULL DEFAULT 'open',
    superseded_by TEXT,
    superseded_at TEXT,
    started_at    TEXT
);
CREATE INDEX attempts_of_user ON attempts (user_id);

CREATE TABLE sessions (user_id TEXT PRIMARY KEY, attempt_id TEXT NOT NULL);

-- Every session that was saved, and whether its user had begun a newer attempt by then.
CREATE TABLE seen_sessions (id INTEGER PRIMARY KEY, attempt_id TEXT NOT NULL, stale INTEGER NOT NULL);

CREATE TRIGGER sessions_are_seen AFTER INSERT ON sessions
BEGIN
    INSERT INTO seen_sessions (attempt_id, stale)
    VALUES (NEW.attempt_id, EXISTS (SELECT 1 FROM attempts AS newer, attempts AS own
                                    WHERE own.attempt_id = NEW.attempt_id AND newer.user_id = own.user_id
                                      AND newer.rowid > own.rowid));
END;

-- Whom raceproof has held off, as its code was told.
CREATE TABLE seen_held_off (id INTEGER PRIMARY KEY, scenario TEXT NOT NULL, key TEXT NOT NULL, actor TEXT NOT NULL, why TEXT NOT NULL);
CREATE INDEX seen_held_off_of ON seen_held_off (scenario);
