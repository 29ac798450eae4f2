-- Deliveries as people and tools read them, on every SQL database. Nothing is decided here.

-- What is being sent or uncertain.
-- name: delivery.list
SELECT {found_state}, {holder}, {since}, {attempts}, {error}, {t_keys}
FROM {table} AS t
WHERE {open}
  AND {begun}
  AND {tenant_matches?}
ORDER BY {since}
LIMIT {$limit}

-- Only what is uncertain: before the limit, so that those that are being sent hide none.
-- name: delivery.uncertain
SELECT {found_state}, {holder}, {since}, {attempts}, {error}, {t_keys}
FROM {table} AS t
WHERE {open}
  AND {begun}
  AND {doubt}
  AND {tenant_matches?}
ORDER BY {since}
LIMIT {$limit}
