-- Attempts on PostgreSQL. Starters of one owner go one after the other: the lock is taken in a statement of its own, so
-- that the next one sees what the last one has committed. It ends with the transaction, so a pooler may stand in front.
-- A transaction with one snapshot for all its statements does not see that: there the unique index has to refuse.
-- Whoever gets an answer has waited for the commit it rests on: every caller that loses locks the row, so that its own
-- commit waits for the synchronous standby too. A commit wait that was cancelled leaves rows that only the primary has.

-- The owner, as its column spells it: however the caller writes it, it is the same lock.
-- name: attempt.lock_owner
SELECT pg_advisory_xact_lock(hashtextextended(concat_ws(':', {lifecycle}, 'owner', {owner_spelled}), 0))

-- The key of the new attempt, in the same way.
-- name: attempt.lock_key
SELECT current_setting('transaction_isolation'),
       pg_advisory_xact_lock(hashtextextended(concat_ws(':', {lifecycle}, 'key', {key_spelled}), 0))

-- In a transaction of our own, before its first query.
-- name: attempt.isolation
SET TRANSACTION ISOLATION LEVEL READ COMMITTED

-- Nothing is written: without an index that allows an owner one open attempt at most, there is no plan for this.
-- name: attempt.refusable
EXPLAIN INSERT INTO {table} ({status})
SELECT t.{status} FROM {table} AS t WHERE FALSE
ON CONFLICT ({owner_columns}) WHERE {status} IN ({open}) DO NOTHING
