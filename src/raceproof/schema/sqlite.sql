-- name: history
CREATE TABLE IF NOT EXISTS {history} (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    lifecycle TEXT NOT NULL,
    key       TEXT NOT NULL,
    move      TEXT NOT NULL,
    outcome   TEXT NOT NULL,
    before    TEXT,
    after     TEXT NOT NULL,
    revision  INTEGER,
    actor     TEXT,
    reason    TEXT,
    call      TEXT,
    at        TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now'))
);

-- name: history.index
CREATE INDEX IF NOT EXISTS {index_in_schema} ON {bare} (lifecycle, key, id);

-- The first deploy: a row that is in work and has no lease gets one, so that no new worker takes it from an old one.
-- name: claim.backfill
UPDATE {table} AS t
SET {take}
WHERE t.{status} IN ({held})
  AND {until} IS NULL
  AND {never_claimed};

-- name: claim.index
CREATE INDEX IF NOT EXISTS {index_name} ON {bare_table} ({index_columns})
WHERE {status} IN ({open});

-- At most one open attempt for an owner, even for writers that do not use the library.
-- name: attempt.index
CREATE UNIQUE INDEX IF NOT EXISTS {index_name} ON {bare_table} ({owner_columns})
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
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    source        TEXT NOT NULL,
    event_id      TEXT NOT NULL,
    ordering_key  TEXT,
    body          BLOB NOT NULL,
    headers       TEXT NOT NULL,
    status        TEXT NOT NULL,
    received_at   TEXT NOT NULL,
    ended_at      TEXT,
    claimed_by    TEXT,
    claimed_until TEXT,
    fence         INTEGER,
    attempts      INTEGER,
    rests_until   TEXT,
    UNIQUE (source, event_id)
);

-- name: inbox.index.work
CREATE INDEX IF NOT EXISTS {work_index} ON {bare_table} (id) WHERE status IN ('received', 'processing');

-- name: inbox.index.line
CREATE INDEX IF NOT EXISTS {line_index} ON {bare_table} (ordering_key, id)
WHERE status IN ('received', 'processing') AND ordering_key IS NOT NULL;

-- name: inbox.index.ended
CREATE INDEX IF NOT EXISTS {ended_index} ON {bare_table} (ended_at) WHERE status IN ('done', 'dead');

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
