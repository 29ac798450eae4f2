-- What SQLite knows of the table, for comparison with the declaration.

-- name: verify.columns
SELECT name, type, pk
FROM pragma_table_info({$table}, {$schema})

-- The columns of each unique index that has no WHERE; a rowid key has no index and shows in verify.columns.
-- name: verify.unique
SELECT (SELECT group_concat(coalesce(name, '(expression)'), char(0)) FROM pragma_index_info(list.name, {$schema}))
FROM pragma_index_list({$table}, {$schema}) AS list
WHERE list."unique"
  AND NOT list.partial

-- The columns of each unique index, and its text.
-- name: verify.unique_where
SELECT (SELECT group_concat(coalesce(name, '(expression)'), char(0)) FROM pragma_index_info(list.name, {$schema})),
       CASE WHEN list.partial THEN o.sql END
FROM pragma_index_list({$table}, {$schema}) AS list
LEFT JOIN {catalog} AS o ON o.type = 'index' AND o.name = list.name
WHERE list."unique"

-- The columns of every index in their order (NULL for an expression), which of them fall, and its text.
-- name: verify.indexes
SELECT list.name, info.name, info."desc", o.sql, list.partial
FROM pragma_index_list({$table}, {$schema}) AS list
JOIN pragma_index_xinfo(list.name, {$schema}) AS info ON info.key
LEFT JOIN {catalog} AS o ON o.type = 'index' AND o.name = list.name
ORDER BY list.name, info.seqno

-- name: verify.strangers
SELECT DISTINCT t.{status}
FROM {table} AS t
WHERE t.{status} IS NULL
   OR t.{status} NOT IN ({statuses})
LIMIT 5

-- name: verify.objects
SELECT type, name, sql
FROM {catalog}
WHERE type IN ('table', 'trigger')
  AND sql IS NOT NULL

-- Rows with an undeclared status, for a person to look at.
-- name: verify.look
SELECT * FROM {table} WHERE {status} IS NULL OR {status} NOT IN ({statuses})

-- name: trial.table
CREATE TABLE {copy} ({columns})

-- name: trial.override
CREATE TABLE raceproof_override (lifecycle, actor, reason)

-- name: trial.insert
INSERT INTO {copy} ({status}) VALUES ({$after})

-- name: trial.update
UPDATE {copy} SET {status} = {$after} WHERE {status} = {$before}

-- name: copy.attach
ATTACH ':memory:' AS {schema}
