-- name: history
CREATE TABLE IF NOT EXISTS {history} (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    lifecycle text NOT NULL,
    key       text NOT NULL,
    move      text NOT NULL,
    outcome   text NOT NULL,
    before    text,
    after     text NOT NULL,
    revision  bigint,
    actor     text,
    reason    text,
    call      text,
    at        timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- name: history.index
CREATE INDEX IF NOT EXISTS {index} ON {history} (lifecycle, key, id);

-- The first deploy: a row that is in work and has no lease gets one, so that no new worker takes it from an old one.
-- name: claim.backfill
UPDATE {table} AS t
SET {take}
WHERE t.{status} IN ({held})
  AND {until} IS NULL
  AND {never_claimed};

-- name: claim.index
CREATE INDEX{concurrently} IF NOT EXISTS {index_name} ON {table} ({index_columns})
WHERE {status} IN ({open});

-- At most one open attempt for an owner, even for writers that do not use the library.
-- name: attempt.index
CREATE UNIQUE INDEX IF NOT EXISTS {index_name} ON {table} ({owner_columns})
WHERE {status} IN ({open});

-- name: lease.table
CREATE TABLE IF NOT EXISTS {table} (
    name    text PRIMARY KEY,
    holder  text NOT NULL,
    epoch   {number} NOT NULL,
    until   {time},
    since   {time} NOT NULL,
    session {boolean} NOT NULL
);

-- name: inbox.table
CREATE TABLE IF NOT EXISTS {table} (
    id            bigint GENERATED ALWAYS AS IDENTITY,
    source        text NOT NULL,
    event_id      text NOT NULL,
    ordering_key  text,
    body          bytea NOT NULL,
    headers       text NOT NULL,
    status        text NOT NULL,
    received_at   timestamptz NOT NULL,
    ended_at      timestamptz,
    claimed_by    text,
    claimed_until timestamptz,
    fence         bigint,
    attempts      integer,
    rests_until   timestamptz,
    PRIMARY KEY (source, event_id)
);

-- name: inbox.index.work
CREATE INDEX IF NOT EXISTS {work_index} ON {table} (id) WHERE status IN ('received', 'processing');

-- name: inbox.index.line
CREATE INDEX IF NOT EXISTS {line_index} ON {table} (ordering_key, id)
WHERE status IN ('received', 'processing') AND ordering_key IS NOT NULL;

-- name: inbox.index.ended
CREATE INDEX IF NOT EXISTS {ended_index} ON {table} (ended_at) WHERE status IN ('done', 'dead');

-- name: schedule.table
CREATE TABLE IF NOT EXISTS {table} (
    name          {text} PRIMARY KEY,
    status        {text} NOT NULL,
    claimed_by    {text},
    fence         {number},
    due_at        {time},
    began_at      {time},
    ended_at      {time},
    claimed_until {time}
);
