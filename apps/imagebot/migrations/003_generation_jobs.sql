-- Orders, with the columns of the claim by which their tasks are created; see lifecycle.py.
CREATE TABLE generation_jobs (
    job_id           text PRIMARY KEY,
    user_id          bigint NOT NULL,
    chat_id          bigint NOT NULL,
    status           text NOT NULL,
    model            text,
    aspect_ratio     text,
    prompt           text,
    price            bigint,
    progress_message bigint,                  -- the message that says how far it is
    external_task_id text UNIQUE,             -- at KIE
    result_urls      text,                    -- a JSON list
    error_text       text,
    made_at          {moment} NOT NULL,
    confirmed_at     {moment},
    submitted_at     {moment},
    ready_at         {moment},
    ended_at         {moment},
    delivered_at     {moment},
    claimed_by       text,
    claimed_until    {moment},
    fence            bigint,
    claims           integer NOT NULL DEFAULT 0,
    rests_until      {moment}
);
CREATE INDEX jobs_of_user ON generation_jobs (user_id, made_at);
CREATE INDEX jobs_by_status ON generation_jobs (status, made_at);
