-- Claims, the same on every SQL database; how rows are found and taken is in the file of each.
-- {braces} are filled from the declaration, {$names} are parameters. `raceproof sql` prints the finished texts.

-- SQLite: takes the write lock of the caller's transaction without touching a row; a stale snapshot fails here.
-- name: claim.lock
UPDATE {table} SET {status} = {status} WHERE 0

-- Renew, give back, back off: one claim by its fence.
-- name: claim.change
UPDATE {table} AS t
SET {changes}
WHERE {key_matches}
  -- P5: only the current holder; P4: an older fence than the newest is refused
  AND {fence} = {$fence}
  AND t.{status} IN ({held})
RETURNING {written_fence}, {written_key_text}, {written_revision}

-- The row, for the answer to a caller that does not hold it, with a lock that waits for no writer.
-- name: claim.found
SELECT {fence_text}, {status_text}, {holder}
FROM {table} AS t
WHERE {key_matches}
{lock?}

-- name: claim.note
INSERT INTO {history} (lifecycle, key, move, outcome, before, after, revision, actor, reason, at)
VALUES ({lifecycle}, {$key}, {$move}, {$outcome}, {$before}, {$after}, {$found_revision}, {$by}, {$reason}, {now})
