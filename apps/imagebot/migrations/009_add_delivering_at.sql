-- Atomic delivery lock: callback and poller compete for delivering_at, and delivered_at is set after the send.
ALTER TABLE generation_jobs ADD COLUMN delivering_at {moment};
ALTER TABLE generation_jobs ADD COLUMN delivery_state text;
ALTER TABLE generation_jobs ADD COLUMN delivered_by text;
ALTER TABLE generation_jobs ADD COLUMN delivery_error text;
ALTER TABLE generation_jobs ADD COLUMN delivery_attempts integer;
CREATE INDEX idx_jobs_delivery_lock ON generation_jobs (delivering_at) WHERE delivered_at IS NULL;
