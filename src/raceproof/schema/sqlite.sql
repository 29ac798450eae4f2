-- name: history
CREATE TABLE IF NOT EXISTS {history} (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    lifecycle TEXT NOT NULL,
    key       TEXT NOT NULL,
    move      TEXT NOT NULL,
    outcome   TEXT NOT NULL,
    before    TEXT,
    after     TEXT NOT NULL,
    revision  INTEGER,
    actor     TEXT,
    reason    TEXT,
    call      TEXT,
    at        TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now'))
);
CREATE INDEX IF NOT EXISTS {index_in_schema} ON {bare} (lifecycle, key, id);
