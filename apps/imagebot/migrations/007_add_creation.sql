-- createTask has no idempotency key: who asks KIE for a task, since when, and how it ended.
ALTER TABLE generation_jobs ADD COLUMN creating_at {moment};
ALTER TABLE generation_jobs ADD COLUMN task_created_at {moment};
ALTER TABLE generation_jobs ADD COLUMN creation_state text;
ALTER TABLE generation_jobs ADD COLUMN created_by text;
ALTER TABLE generation_jobs ADD COLUMN creation_error text;
ALTER TABLE generation_jobs ADD COLUMN creation_attempts integer;
