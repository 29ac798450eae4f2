-- The deploy overlap: the same time slots in two tables, who leads, and every run of the leader's job.

CREATE TABLE slots (
    slot   TEXT PRIMARY KEY,
    status TEXT NOT NULL DEFAULT 'DUE',
    ran_by TEXT
);

CREATE TABLE slots_unguarded (
    slot   TEXT PRIMARY KEY,
    status TEXT NOT NULL DEFAULT 'DUE',
    ran_by TEXT
);

-- Who leads without raceproof; with it, that is the table of leases.
CREATE TABLE heartbeat (
    holder TEXT NOT NULL,
    at     REAL NOT NULL
);

INSERT INTO heartbeat VALUES ('nobody', 0);

-- Every run that was written down, with who led at that moment.
CREATE TABLE runs (
    id     INTEGER PRIMARY KEY,
    side   TEXT NOT NULL,
    slot   TEXT NOT NULL,
    ran_by TEXT NOT NULL,
    leader TEXT NOT NULL
);

CREATE INDEX runs_of_slot ON runs (side, slot);

CREATE TRIGGER runs_of_slots AFTER UPDATE OF ran_by ON slots
BEGIN
    INSERT INTO runs (side, slot, ran_by, leader)
    SELECT 'raceproof', NEW.slot, NEW.ran_by, holder FROM raceproof_lease WHERE name = 'reports';
END;

CREATE TRIGGER runs_of_slots_unguarded AFTER UPDATE OF ran_by ON slots_unguarded
BEGIN
    INSERT INTO runs (side, slot, ran_by, leader)
    SELECT 'unguarded', NEW.slot, NEW.ran_by, holder FROM heartbeat;
END;

-- What raceproof answered to an instance that did not lead any more.
CREATE TABLE late (
    id       INTEGER PRIMARY KEY,
    slot     TEXT NOT NULL,
    instance TEXT NOT NULL,
    answer   TEXT NOT NULL
);

CREATE VIEW items AS
SELECT 'raceproof' AS side, slot AS key FROM slots
UNION ALL
SELECT 'unguarded', slot FROM slots_unguarded;

CREATE VIEW wrong AS
SELECT id, side, slot AS key, ran_by AS actor, 'ran it, but ' || leader || ' leads' AS what
FROM runs
WHERE ran_by <> leader;

CREATE VIEW refused AS
SELECT id, slot AS key, instance AS actor, answer AS what
FROM late;
