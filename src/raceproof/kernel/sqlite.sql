-- What SQLite knows of a table of the user's.

-- name: table.columns
SELECT name, type
FROM pragma_table_info({table_name}, {schema_name})
ORDER BY cid

-- Whether a row that was not found is there under another spelling of one of its UUIDs.
-- name: key.spelled
SELECT t.{column}
FROM {table} AS t
WHERE t.{column} IN ({spellings})
  AND {others?}
LIMIT 1
