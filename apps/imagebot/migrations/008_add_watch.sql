-- The poller's claim, apart from the status.
ALTER TABLE generation_jobs ADD COLUMN watch text NOT NULL DEFAULT 'watched';
ALTER TABLE generation_jobs ADD COLUMN watched_by text;
ALTER TABLE generation_jobs ADD COLUMN watched_until {moment};
ALTER TABLE generation_jobs ADD COLUMN watch_fence bigint;
ALTER TABLE generation_jobs ADD COLUMN watch_after {moment};
UPDATE generation_jobs SET watch = 'left' WHERE delivered_at IS NOT NULL;
