-- Attempts, the same on every SQL database; what locks the owner is in the file of each.

-- The open attempts of the owner, and the row of this key, whoever has it; each of this tenant.
-- name: attempt.look
SELECT {status_text}, {owner_text}, {fresh}, t.{status} IN ({open}), {t_keys}
FROM {table} AS t
WHERE (
        t.{owner} = {$owner}
        AND {tenant_matches?}
        AND t.{status} IN ({open})
      )
   OR ({key_matches})
-- P9: no other transaction ends or changes them while this is decided
{lock_rows?}

-- name: attempt.insert
INSERT INTO {table} ({columns})
VALUES ({values})
ON CONFLICT DO NOTHING
RETURNING {key_text}

-- name: attempt.note
INSERT INTO {history} (lifecycle, key, move, outcome, before, after, revision, actor, at)
VALUES ({lifecycle}, {$key}, 'attempt', 'started', NULL, {initial}, {first_revision}, {$by}, {now})
