-- Moves on PostgreSQL. One statement is one decision, right at READ COMMITTED in every interleaving:
-- `cur` locks the row and reads it as it is *after* the lock, `changed` writes only if the guards hold on that row,
-- `noted` keeps the history, and the last SELECT says what was found and what was done.
-- Whoever gets an answer has waited for the commit it rests on: every caller that loses locks the row, so that its own
-- commit waits for the synchronous standby too. A commit wait that was cancelled leaves rows that only the primary has.
-- {braces} are filled from the declaration, {$names} are parameters. `raceproof sql` prints the finished texts.

-- Locks first, so that the answer says what the row really was.
-- name: move.one
WITH cur AS MATERIALIZED (
    SELECT {keys},
           t.{status}::text AS rp_before,
           {revision} AS rp_revision,
           {fence} AS rp_fence,
           {key_text} AS rp_key,
           {unmet} AS rp_unmet{held}
    FROM {table} AS t
    WHERE {key_matches}
    -- NO KEY: a move never changes the key, so foreign keys that point at the row need not wait
    FOR NO KEY UPDATE
), changed AS (
    UPDATE {table} AS t
    SET {assignments}
    FROM cur
    WHERE {t_is_cur}
      -- P1: the row leaves only a status from which this move is declared
      AND cur.rp_before IN ({sources})
      -- P4: and only if the caller's fence, revision and further guards held when the row was locked
      AND cur.rp_unmet = 0
    RETURNING TRUE AS rp_won, {revision} AS rp_revision{returning}
){noted}
SELECT cur.rp_before, cur.rp_revision, cur.rp_fence, cur.rp_unmet, cur.rp_key,
       changed.rp_won, changed.rp_revision{returned}
FROM cur LEFT JOIN changed ON TRUE

-- The history row of a decision, written by the same statement that decides.
-- name: move.note
, noted AS (
    INSERT INTO {history} (lifecycle, key, move, outcome, before, after, revision, actor, reason, call, at)
    SELECT {lifecycle}, cur.rp_key, {move}, {outcome}, cur.rp_before, {target},
           {noted_revision}, {actor}::text, {reason}::text, {call}::text, {now}
    FROM cur {noted_join}
)

-- Locks the row, so that the next statement sees all that was committed before.
-- name: move.lock
SELECT {key_text} AS rp_key
FROM {table} AS t
WHERE {key_matches}
FOR NO KEY UPDATE
