-- What the dashboard reads from PostgreSQL. Each statement looks at a bounded number of rows, whatever the size of the table:
-- either an index leads to them, or a window of the primary key bounds them.

-- name: web.indexes
SELECT array_agg(a.attname::text ORDER BY k.place), bool_or(i.indpred IS NOT NULL)
FROM pg_index AS i
CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY AS k (number, place)
JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = k.number
WHERE i.indrelid = to_regclass({$table})
  AND i.indisvalid
GROUP BY i.indexrelid

-- What the server guesses: how many rows there are, and how often each status.
-- name: web.guess
SELECT c.reltuples, s.most_common_vals::text::text[], s.most_common_freqs
FROM pg_class AS c
JOIN pg_namespace AS n ON n.oid = c.relnamespace
LEFT JOIN pg_stats AS s ON s.schemaname = n.nspname AND s.tablename = c.relname AND s.attname = {$column}
WHERE c.oid = to_regclass({$table})

-- name: web.last
SELECT max(h.id) FROM {table} AS h

-- name: web.clock
SELECT clock_timestamp()

-- name: web.audit
CREATE TABLE IF NOT EXISTS {table} (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    call    text NOT NULL,
    at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor   text NOT NULL,
    action  text NOT NULL,
    target  text NOT NULL,
    key     text NOT NULL,
    reason  text NOT NULL,
    outcome text NOT NULL,
    detail  text NOT NULL,
    tenant  text
);

-- For a table that was made before lines had a tenant.
-- name: web.audit_tenant
ALTER TABLE {table} ADD COLUMN tenant text;

-- name: web.types
SELECT a.attname::text, format_type(a.atttypid, NULL)
FROM pg_attribute AS a
WHERE a.attrelid = to_regclass({$table})
  AND a.attnum > 0
  AND NOT a.attisdropped
