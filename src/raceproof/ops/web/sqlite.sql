-- What the dashboard reads from SQLite. Each statement looks at a bounded number of rows, whatever the size of the table:
-- either an index leads to them, or a window of the primary key bounds them.

-- name: web.indexes
SELECT l.name, c.name, l.partial
FROM pragma_index_list({$bare}, {$schema}) AS l, pragma_index_info(l.name, {$schema}) AS c
ORDER BY l.name, c.seqno

-- name: web.last
SELECT max(h.id) FROM {table} AS h

-- name: web.clock
SELECT strftime('%Y-%m-%d %H:%M:%f', 'now')

-- name: web.audit
CREATE TABLE IF NOT EXISTS {table} (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    call    TEXT NOT NULL,
    at      TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')),
    actor   TEXT NOT NULL,
    action  TEXT NOT NULL,
    target  TEXT NOT NULL,
    key     TEXT NOT NULL,
    reason  TEXT NOT NULL,
    outcome TEXT NOT NULL,
    detail  TEXT NOT NULL,
    tenant  TEXT
);

-- For a table that was made before lines had a tenant.
-- name: web.audit_tenant
ALTER TABLE {table} ADD COLUMN tenant TEXT;
