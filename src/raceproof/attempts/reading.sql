-- Attempts as callers and tools read them, on every SQL database. Nothing is decided here.

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
