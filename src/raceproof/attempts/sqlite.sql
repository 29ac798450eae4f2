-- Attempts on SQLite. There is one writer at a time: a start takes the write lock first (BEGIN IMMEDIATE, or attempt.lock in
-- a transaction of the caller's), so nothing can change between its statements.

-- name: attempt.lock
UPDATE {table} SET {status} = {status} WHERE 0
