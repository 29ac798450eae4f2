-- The inbox on SQLite: many events in one transaction, each kept once.

-- Takes the write lock of the caller's transaction without touching a row; a snapshot that is already stale fails here.
-- name: inbox.lock
UPDATE {table} SET status = status WHERE 0

-- name: inbox.receive
INSERT INTO {table} (source, event_id, ordering_key, body, headers, status, received_at)
VALUES ({$source}, {$event_id}, {$ordering_key}, {$body}, {$headers}, 'received', {now})
-- P8: the same event once, however often and by however many it is brought
ON CONFLICT (source, event_id) DO NOTHING
RETURNING source, event_id

-- What has ended long ago is forgotten, a bounded number at a time.
-- name: inbox.forget
DELETE FROM {table}
WHERE (source, event_id) IN (
    SELECT t.source, t.event_id
    FROM {table} AS t
    WHERE t.status IN ('done', 'dead')
      AND t.ended_at < {until}
    LIMIT {$limit}
)
RETURNING 1

-- name: inbox.counts
SELECT t.status, count(*), min(t.received_at)
FROM {table} AS t
GROUP BY t.status
ORDER BY t.status

-- name: inbox.list
SELECT t.source, t.event_id, t.status, t.attempts, t.received_at, t.claimed_by, length(t.body)
FROM {table} AS t
WHERE t.status = {$status}
ORDER BY t.id
LIMIT {$limit}

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
