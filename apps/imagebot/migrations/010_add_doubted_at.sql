-- Since when a delivery is uncertain: after UNCERTAIN_LIMIT the money goes back. Those of before count from now on.
ALTER TABLE generation_jobs ADD COLUMN doubted_at {moment};
UPDATE generation_jobs SET doubted_at = {now} WHERE status = 'uncertain';
CREATE INDEX jobs_waiting_for_an_end ON generation_jobs (status) WHERE status IN ('ready', 'uncertain');
