-- The statements of `sqlite.py` beside this file, which exist only for speed, under the write lock.
-- A row that they return has passed the guards of move.write; a row that they do not return is decided by move.write.

-- Many rows with one key column, which all set the same values.
-- name: move.write_many
UPDATE {table} AS t
SET {assignments}
WHERE t.{key} IN (SELECT value FROM json_each({$keys}))
  AND t.{status} = {source}
  AND {guards?}
RETURNING {key}, {written_revision}, {written_key_text}{written_returning}

-- The same for claimed rows, each with its fence: [[key, fence] …].
-- name: move.write_fenced
UPDATE {table} AS t
SET {assignments}
FROM json_each({$keys}) AS w
WHERE t.{key} = json_extract(w.value, '$[0]')
  AND t.{status} = {source}
  -- P4: and only if the row still carries the fence of its holder
  AND {guards}
RETURNING {key}, {written_revision}, {written_key_text}{written_returning}

-- The history of many rows: [[key, revision, call] …].
-- name: move.note_many
INSERT INTO {history} (lifecycle, key, move, outcome, before, after, revision, actor, reason, call, at)
SELECT {lifecycle}, json_extract(value, '$[0]'), {move}, 'moved', {$before}, {target},
       json_extract(value, '$[1]'), {$by}, {$reason}, json_extract(value, '$[2]'), {now}
FROM json_each({$rows})
