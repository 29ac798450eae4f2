-- Deliveries on PostgreSQL: a permit to send is decided by one statement, on the row as it is after the lock.
-- Whoever gets an answer has waited for the commit it rests on: every caller that loses locks the row, so that its own
-- commit waits for the synchronous standby too. A commit wait that was cancelled leaves rows that only the primary has.
-- {braces} are filled from the declaration, {$names} are parameters. `raceproof sql` prints the finished texts.

-- Take the permit, or learn who has it.
-- name: delivery.take
WITH cur AS MATERIALIZED (
    SELECT {keys}, {found_state} AS rp_state, {holder} AS rp_holder, {since} AS rp_since,
           -- it is not delivered, no process is sending it (or one has been for too long), and the policy allows another attempt
           ({open} AND {free} AND {policy}) IS TRUE AS rp_may,
           {doubt} AS rp_doubt
    FROM {table} AS t
    WHERE {key_matches}
    FOR NO KEY UPDATE OF t
), changed AS (
    UPDATE {table} AS t
    SET {take}
    FROM cur
    WHERE {t_is_cur}
      AND cur.rp_may
    RETURNING {fence} AS rp_fence, {attempts} AS rp_attempts{returning}
)
SELECT cur.rp_state, cur.rp_holder, cur.rp_since, cur.rp_doubt, changed.rp_fence, changed.rp_attempts{returned}
FROM cur LEFT JOIN changed ON TRUE

-- How the delivery stands; for the answer to a caller that lost, with a lock that waits for no writer.
-- name: delivery.look
SELECT {found_state}, {holder}, {since}
FROM {table} AS t
WHERE {key_matches}
{lock?}
