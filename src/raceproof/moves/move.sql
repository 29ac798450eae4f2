-- Moves, the same on every SQL database; how one row is decided is in the file of each.
-- {braces} are filled from the declaration, {$names} are parameters. `raceproof sql` prints the finished texts.

-- The keys of all rows that match the guards and are at a source of the move, in key order.
-- name: move.matching
SELECT {t_keys}
FROM {table} AS t
WHERE t.{status} IN ({sources})
  AND {tenant_matches?}
  AND {guards?}
ORDER BY {t_keys}
LIMIT {$limit}

-- What an earlier call with this id did, if it moved the row.
-- name: move.replay
SELECT before, revision
FROM {history}
WHERE lifecycle = {lifecycle}
  AND key = {$key}
  AND call = {$call}
  AND move = {$move}
  AND outcome = 'moved'
ORDER BY id DESC
LIMIT 1

-- Who moved the row last; asked only for a row that a caller has lost.
-- name: move.who
SELECT after, revision, actor
FROM {history}
WHERE lifecycle = {lifecycle}
  AND key = {$key}
  AND outcome = 'moved'
ORDER BY id DESC
LIMIT 1
