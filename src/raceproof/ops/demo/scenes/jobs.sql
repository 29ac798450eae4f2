-- The stale worker: the same jobs in two tables, and every result that was written.

CREATE TABLE jobs (
    job_id        TEXT PRIMARY KEY,
    status        TEXT NOT NULL DEFAULT 'QUEUED',
    result        TEXT,
    claimed_by    TEXT,
    claimed_until TEXT,
    fence         INTEGER
);

CREATE TABLE jobs_unguarded (
    job_id        TEXT PRIMARY KEY,
    status        TEXT NOT NULL DEFAULT 'QUEUED',
    result        TEXT,
    claimed_by    TEXT,
    claimed_until REAL
);

-- Every result that was written, with what was there before and whose job it was at that moment.
CREATE TABLE results (
    id     INTEGER PRIMARY KEY,
    side   TEXT NOT NULL,
    job_id TEXT NOT NULL,
    before TEXT,
    after  TEXT NOT NULL,
    holder TEXT
);

CREATE TRIGGER results_of_jobs AFTER UPDATE OF result ON jobs
BEGIN
    INSERT INTO results (side, job_id, before, after, holder)
    VALUES ('raceproof', NEW.job_id, OLD.result, NEW.result, OLD.claimed_by);
END;

CREATE TRIGGER results_of_jobs_unguarded AFTER UPDATE OF result ON jobs_unguarded
BEGIN
    INSERT INTO results (side, job_id, before, after, holder)
    VALUES ('unguarded', NEW.job_id, OLD.result, NEW.result, OLD.claimed_by);
END;

-- What raceproof answered to workers that came too late.
CREATE TABLE late (
    id     INTEGER PRIMARY KEY,
    job_id TEXT NOT NULL,
    worker TEXT NOT NULL,
    answer TEXT NOT NULL
);

CREATE VIEW items AS
SELECT 'raceproof' AS side, job_id AS key FROM jobs
UNION ALL
SELECT 'unguarded', job_id FROM jobs_unguarded;

CREATE VIEW wrong AS
SELECT id, side, job_id AS key, after AS actor,
       CASE WHEN before IS NULL THEN 'finished ' || holder || '''s job'
            ELSE 'wrote over the result of ' || before END AS what
FROM results
WHERE after IS NOT holder;

CREATE VIEW refused AS
SELECT id, job_id AS key, worker AS actor, 'came too late: ' || answer AS what
FROM late;
