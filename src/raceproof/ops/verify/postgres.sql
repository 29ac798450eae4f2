-- What PostgreSQL knows of the table, for comparison with the declaration.

-- name: verify.table
SELECT to_regclass({$table}::text)::oid::bigint

-- name: verify.columns
SELECT attname::text, format_type(atttypid, atttypmod), attnotnull
FROM pg_attribute
WHERE attrelid = {$relation}::bigint::oid
  AND attnum > 0
  AND NOT attisdropped

-- The columns of each unique index that has no WHERE.
-- name: verify.unique
SELECT array_agg(a.attname::text)
FROM pg_index i
CROSS JOIN unnest(i.indkey::int[]) WITH ORDINALITY AS k (number, place)
LEFT JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number
WHERE i.indrelid = {$relation}::bigint::oid
  AND i.indisunique
  AND i.indisvalid
  AND i.indpred IS NULL
  AND i.indexprs IS NULL
  AND k.place <= i.indnkeyatts
GROUP BY i.indexrelid

-- The columns and the WHERE of each unique index.
-- name: verify.unique_where
SELECT array_agg(a.attname::text ORDER BY k.place), pg_get_expr(i.indpred, i.indrelid)
FROM pg_index i
CROSS JOIN unnest(i.indkey::int[]) WITH ORDINALITY AS k (number, place)
LEFT JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number AND k.number > 0
WHERE i.indrelid = {$relation}::bigint::oid
  AND i.indisunique
  AND i.indisvalid
  AND k.place <= i.indnkeyatts
GROUP BY i.indexrelid, i.indpred, i.indrelid

-- Every index that can be searched: its columns in order (NULL for an expression), which of them fall, and its WHERE.
-- name: verify.indexes
SELECT array_agg(a.attname::text ORDER BY k.place), array_agg((k.option & 1) = 1 ORDER BY k.place),
       pg_get_expr(i.indpred, i.indrelid)
FROM pg_index i
JOIN pg_class c ON c.oid = i.indexrelid
JOIN pg_am m ON m.oid = c.relam AND m.amname = 'btree'
CROSS JOIN unnest(i.indkey::int[], i.indoption::int[]) WITH ORDINALITY AS k (number, option, place)
LEFT JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number AND k.number > 0
WHERE i.indrelid = {$relation}::bigint::oid
  AND i.indisvalid
  AND k.place <= i.indnkeyatts
GROUP BY i.indexrelid, i.indpred, i.indrelid

-- The labels of the status column, if its type is an enum.
-- name: verify.labels
SELECT e.enumlabel::text
FROM pg_attribute a
JOIN pg_enum e ON e.enumtypid = a.atttypid
WHERE a.attrelid = {$relation}::bigint::oid
  AND a.attname = {$column}::text

-- name: verify.strangers
SELECT DISTINCT t.{status}::text
FROM {table} AS t
WHERE t.{status} IS NULL
   OR t.{status}::text NOT IN ({statuses})
LIMIT 5

-- name: verify.guard
SELECT t.tgenabled::text, t.tgtype::int, t.tgqual IS NULL AND t.tgattr::text = '', p.prosrc
FROM pg_trigger t
JOIN pg_proc p ON p.oid = t.tgfoid
WHERE t.tgrelid = {$relation}::bigint::oid
  AND t.tgname = {$trigger}::text

-- The guards of other lifecycles beside this table, and functions whose triggers were dropped.
-- name: verify.guarded
SELECT p.proname::text
FROM pg_proc p
JOIN pg_class c ON c.relnamespace = p.pronamespace
WHERE c.oid = {$relation}::bigint::oid
  AND starts_with(p.proname::text, 'raceproof_guard_')
ORDER BY 1

-- name: trial.table
CREATE TEMP TABLE raceproof_trial ON COMMIT DROP AS
SELECT {columns} FROM {table} WITH NO DATA

-- name: trial.rows
INSERT INTO raceproof_trial ({status})
SELECT unnest(ARRAY[{statuses}]::{type}[])

-- name: trial.trigger
CREATE TRIGGER {trigger} AFTER INSERT OR UPDATE ON raceproof_trial
FOR EACH ROW EXECUTE FUNCTION {function}()

-- name: trial.insert
INSERT INTO raceproof_trial ({status}) VALUES ({after})

-- name: trial.update
UPDATE raceproof_trial SET {status} = {after} WHERE {status} = {before}

-- Rows with an undeclared status, for a person to look at.
-- name: verify.look
SELECT * FROM {table} WHERE {status} IS NULL OR {status} NOT IN ({statuses})
