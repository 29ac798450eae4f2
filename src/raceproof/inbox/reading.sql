-- The inbox as people read it, on every SQL database. Nothing is decided here.

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
