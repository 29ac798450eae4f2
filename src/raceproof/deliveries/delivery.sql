-- Deliveries, the same on every SQL database; how a permit is given is in the file of each.
-- {braces} are filled from the declaration, {$names} are parameters. `raceproof sql` prints the finished texts.

-- Record how the attempt ended.
-- name: delivery.mark
UPDATE {table} AS t
SET {marks}
WHERE {key_matches}
  -- P5: only the current winner's mark is accepted; P4: its timestamp is its fence
  AND {fence} = {$fence}
  AND {open}
RETURNING {written_fence}

-- A person has looked: it arrived, or it did not.
-- name: delivery.resolve
UPDATE {table} AS t
SET {marks}
WHERE {key_matches}
  AND {open}
  -- only a delivery whose outcome is unknown
  AND {doubt}
RETURNING {written_fence}
