-- Claims that are held, and rows that wait, on every SQL database. Nothing is decided here.

-- Who holds what, the oldest first.
-- name: claim.list
SELECT {until} AS rp_until, {until} <= {now} AS rp_stale, {status_text}, {holder}, {fence_text}, {attempts}, {t_keys}
FROM {table} AS t
WHERE t.{status} IN ({open})
  AND {until} IS NOT NULL
  AND {tenant_matches?}
ORDER BY rp_until
LIMIT {$limit}

-- Inserts a row that waits, unless it is there.
-- name: claim.add
INSERT INTO {table} ({key_columns}, {status})
VALUES ({key_values}, {waiting})
ON CONFLICT DO NOTHING
