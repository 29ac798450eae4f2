-- Attempts on SQLite. There is one writer at a time: a start takes the write lock first (BEGIN IMMEDIATE, or attempt.lock in
-- a transaction of the caller's), so nothing can change between its statements.

-- name: attempt.lock
UPDATE {table} SET {status} = {status} WHERE 0

-- The open attempts of the owner, and the row of this key, whoever has it; each of this tenant.
-- name: attempt.look
SELECT t.{status}, {owner_text}, {fresh}, t.{status} IN ({open}), {t_keys}
FROM {table} AS t
WHERE (
        t.{owner} = {$owner}
        AND {tenant_matches?}
        AND t.{status} IN ({open})
      )
   OR ({key_matches})

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
CREATE UNIQUE INDEX IF NOT EXISTS {index_name} ON {bare_table} ({owner_columns})
WHERE {status} IN ({open});
