-- name: history
CREATE TABLE IF NOT EXISTS {history} (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    lifecycle text NOT NULL,
    key       text NOT NULL,
    move      text NOT NULL,
    outcome   text NOT NULL,
    before    text,
    after     text NOT NULL,
    revision  bigint,
    actor     text,
    reason    text,
    call      text,
    at        timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX IF NOT EXISTS {index} ON {history} (lifecycle, key, id);
