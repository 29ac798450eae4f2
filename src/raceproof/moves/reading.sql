-- Rows and histories for people and tools, on every SQL database. Nothing is decided here.

-- name: move.read
SELECT {columns}
FROM {table} AS t
WHERE {key_matches}

-- name: move.history
SELECT move, outcome, before, after, revision, actor, reason, call, at
FROM {history}
WHERE lifecycle = {lifecycle}
  AND key = {$key}
ORDER BY id DESC
LIMIT {$limit}
