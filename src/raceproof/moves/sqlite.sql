-- Moves on SQLite. There is one writer at a time. A move without history is one move.write, which decides by itself; what
-- takes more statements takes the write lock first (BEGIN IMMEDIATE, or move.lock in a transaction of the caller's), so
-- nothing can change between them.
-- {braces} are filled from the declaration, {$names} are parameters. `raceproof sql` prints the finished texts.

-- Takes the write lock of the caller's transaction without touching a row; a snapshot that is already stale fails here.
-- name: move.lock
UPDATE {table} SET {status} = {status} WHERE 0

-- One source at a time, because SQLite's RETURNING cannot say what a column was before.
-- name: move.write
UPDATE {table} AS t
SET {assignments}
WHERE {key_matches}
  -- P1: the row leaves only a status from which this move is declared
  AND t.{status} = {source}
  -- P4: and only if the caller's fence, revision and further guards hold
  AND {guards?}
RETURNING {written_revision}, {written_key_text}{written_returning}

-- What the row is, for the answer to a call that did not move it.
-- name: move.look
SELECT t.{status} AS rp_before,
       {revision} AS rp_revision,
       {fence} AS rp_fence,
       {unmet} AS rp_unmet,
       {key_text} AS rp_key
FROM {table} AS t
WHERE {key_matches}

-- Who holds the row, before a move that ends the claim.
-- name: move.held
SELECT {fenced_off}
FROM {table} AS t
WHERE {key_matches}

-- name: move.note
INSERT INTO {history} (lifecycle, key, move, outcome, before, after, revision, actor, reason, call, at)
VALUES ({lifecycle}, {$key}, {move}, {$outcome}, {$before}, {target}, {$found_revision}, {$by}, {$reason}, {$call}, {now})
