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

-- The open attempts of the owner, and the row of this key, whoever has it; each of this tenant.
-- name: attempt.look
SELECT t.{status}::text, {owner_text}, {fresh}, t.{status} IN ({open}), {t_keys}
FROM {table} AS t
WHERE (
        t.{owner} = {$owner}
        AND {tenant_matches?}
        AND t.{status} IN ({open})
      )
   OR ({key_matches})
-- P9: nobody ends or changes them while this is decided
FOR NO KEY UPDATE OF t

-- name: attempt.insert
INSERT INTO {table} ({columns})
VALUES ({values})
ON CONFLICT DO NOTHING
RETURNING {key_text}

-- name: attempt.note
INSERT INTO {history} (lifecycle, key, move, outcome, before, after, revision, actor, at)
VALUES ({lifecycle}, {$key}, 'attempt', 'started', NULL, {initial}, {first_revision}, {$by}, {now})

-- The whole row in one statement: found first and read then, it could be superseded in between.
-- name: attempt.current
SELECT {row}
FROM {table} AS t
WHERE t.{owner} = {$owner}
  AND {tenant_matches?}
  AND t.{status} IN ({open})
  AND {fresh}

-- Open attempts whose time is over, of one tenant who is the owner.
-- name: attempt.expired_of
SELECT {t_keys}
FROM {table} AS t
WHERE t.{status} IN ({open})
  AND NOT {fresh}
  AND t.{owner} = {$owner}
LIMIT {$limit}

-- Open attempts whose time is over.
-- name: attempt.expired
SELECT {t_keys}
FROM {table} AS t
WHERE t.{status} IN ({open})
  AND NOT {fresh}
  AND {tenant_matches?}
LIMIT {$limit}

-- At most one open attempt for an owner, also for those who do not ask us.
-- name: attempt.index
CREATE UNIQUE INDEX IF NOT EXISTS {index_name} ON {table} ({owner_columns})
WHERE {status} IN ({open});
