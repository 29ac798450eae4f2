-- What PostgreSQL knows of a table of the user's.

-- Whether its rows are in several tables: then the place of a row says nothing alone. And whether it is known to have many
-- rows: then a plan that is kept is one for many.
-- name: table.kind
SELECT relkind = 'p' OR relhassubclass OR relkind NOT IN ('r', 'p'), reltuples >= 1000
FROM pg_class
WHERE oid = {regclass}::regclass

-- name: table.columns
SELECT attname::text, format_type(atttypid, atttypmod)
FROM pg_attribute
WHERE attrelid = {regclass}::regclass
  AND attnum > 0
  AND NOT attisdropped
ORDER BY attnum
