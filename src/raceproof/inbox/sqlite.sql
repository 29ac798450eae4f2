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
