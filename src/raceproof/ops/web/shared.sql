-- What the dashboard reads in words that PostgreSQL and SQLite share; see postgres.sql and sqlite.sql for the rest.

-- The rows of one status, up to a number.
-- name: web.at_status
SELECT count(*)
FROM (SELECT 1 FROM {table} AS t WHERE t.{status} = {$value} LIMIT {$limit}) AS found

-- How many rows of each status are among the last ones by key.
-- name: web.sample
SELECT w.rp_status, count(*)
FROM (
    SELECT {status_text} AS rp_status
    FROM {table} AS t
    WHERE TRUE
      AND {tenant_matches?}
    ORDER BY {newest}
    LIMIT {$limit}
) AS w
GROUP BY w.rp_status

-- One page of rows, the last key first.
-- name: web.rows
SELECT {columns}
FROM {table} AS t
WHERE TRUE
  AND {before?}
  AND {tenant_matches?}
ORDER BY {newest}
LIMIT {$limit}

-- The same for the rows at one status, among a window of keys.
-- name: web.rows_at
SELECT {window_columns}
FROM (
    SELECT {columns}
    FROM {table} AS t
    WHERE TRUE
      AND {before?}
      AND {tenant_matches?}
    ORDER BY {newest}
    LIMIT {$window}
) AS w
WHERE w.rp_status = {$value}
LIMIT {$limit}

-- The key at which that window ends.
-- name: web.window_end
SELECT {t_keys}
FROM {table} AS t
WHERE TRUE
  AND {before?}
  AND {tenant_matches?}
ORDER BY {newest}
LIMIT 1 OFFSET {$window}

-- All rows of a status that has few, by its index.
-- name: web.few
SELECT {columns}
FROM {table} AS t
WHERE t.{status} = {$value}
  AND {tenant_matches?}
LIMIT {$limit}

-- Open rows of a claim that are held or out of attempts, among the first in the order of the claim.
-- name: web.open
SELECT w.*
FROM (
    SELECT {until} AS rp_until, {until} <= {now} AS rp_stale, {status_text} AS rp_status, {holder} AS rp_holder,
           {fence} AS rp_fence, {attempts} AS rp_attempts, {not_before} AS rp_not_before, {key_columns}
    FROM {table} AS t
    WHERE TRUE
      AND {is_open?}
      AND {tenant_matches?}
    ORDER BY {order}
    LIMIT {$window}
) AS w
WHERE w.rp_status IN ({open})
  AND (w.rp_until IS NOT NULL OR {spent})
LIMIT {$limit}

-- Deliveries that are under way or uncertain, by their index.
-- name: web.sending
SELECT {found_state}, {holder}, {since}, {attempts}, {error}, {t_keys}
FROM {table} AS t
WHERE {since} IS NOT NULL
  AND {open}
  AND {tenant_matches?}
ORDER BY {since}
LIMIT {$limit}

-- The same without an index, among a window of keys.
-- name: web.sending_in_window
SELECT w.*
FROM (
    SELECT {found_state} AS rp_state, {holder} AS rp_holder, {since} AS rp_since, {attempts} AS rp_attempts,
           {error} AS rp_error, {key_columns}
    FROM {table} AS t
    WHERE TRUE
      AND {tenant_matches?}
    ORDER BY {newest}
    LIMIT {$window}
) AS w
WHERE w.rp_state IN ({unfinished})
LIMIT {$limit}

-- How many deliveries are at each state, and by whom, among a window of keys.
-- name: web.delivery_states
SELECT w.rp_state, w.rp_holder, count(*)
FROM (
    SELECT {found_state} AS rp_state, {holder} AS rp_holder
    FROM {table} AS t
    WHERE TRUE
      AND {tenant_matches?}
    ORDER BY {newest}
    LIMIT {$window}
) AS w
GROUP BY w.rp_state, w.rp_holder

-- One page of a history, newest first; for who lost, the decision before it.
-- name: web.ledger
SELECT p.id, p.lifecycle, p.key, p.move, p.outcome, p.before, p.after, p.revision, p.actor, p.reason, p.call, p.at,
       v.move, v.actor, v.reason, v.at, v.outcome
FROM (
    SELECT w.*
    FROM (SELECT h.* FROM {table} AS h WHERE h.id < {$before} ORDER BY h.id DESC LIMIT {$window}) AS w
    WHERE w.lifecycle IN ({names})
      AND {of_tenant?}
      AND {chosen?}
    ORDER BY w.id DESC
    LIMIT {$limit}
) AS p
LEFT JOIN {table} AS v ON v.id = (
    SELECT o.id
    FROM {table} AS o
    WHERE o.lifecycle = p.lifecycle
      AND o.key = p.key
      AND o.id < p.id
      AND o.outcome IN ('moved', 'claimed', 'started')
    ORDER BY o.id DESC
    LIMIT 1
)
ORDER BY p.id DESC

-- How often each move was made or refused in the last minute and hour, among the newest entries of a history.
-- name: web.paces
SELECT w.lifecycle, w.move, w.outcome, count(*) FILTER (WHERE w.at >= {$minute}), count(*)
FROM (
    SELECT h.lifecycle, h.key, h.move, h.outcome, h.at
    FROM {table} AS h
    ORDER BY h.id DESC
    LIMIT {$window}
) AS w
WHERE w.lifecycle IN ({names})
  AND w.at >= {$hour}
  AND {of_tenant?}
GROUP BY w.lifecycle, w.move, w.outcome

-- When the oldest of those entries was written, if there are as many.
-- name: web.reach
SELECT h.at
FROM {table} AS h
ORDER BY h.id DESC
LIMIT 1 OFFSET {$window}

-- The newest entry of one tenant, among the last ones of a history.
-- name: web.last_of_tenant
SELECT max(w.id)
FROM (SELECT h.id, h.lifecycle, h.key FROM {table} AS h ORDER BY h.id DESC LIMIT {$window}) AS w
WHERE w.lifecycle IN ({names})
  AND {of_tenant?}

-- name: web.inbox_open
SELECT w.status, count(*), min(w.received_at)
FROM (
    SELECT t.status, t.received_at
    FROM {table} AS t
    WHERE t.status IN ('received', 'processing')
    ORDER BY t.id
    LIMIT {$window}
) AS w
GROUP BY w.status

-- name: web.inbox_ended
SELECT t.status, t.received_at, t.ended_at
FROM {table} AS t
WHERE t.status IN ('done', 'dead')
ORDER BY t.ended_at DESC
LIMIT {$window}

-- name: web.inbox_dead
SELECT w.source, w.event_id, w.status, w.attempts, w.received_at, w.claimed_by, w.ended_at
FROM (
    SELECT t.*
    FROM {table} AS t
    WHERE t.status IN ('done', 'dead')
    ORDER BY t.ended_at DESC
    LIMIT {$window}
) AS w
WHERE w.status = 'dead'
LIMIT {$limit}

-- name: web.inbox_first
SELECT t.source, t.event_id, t.status, t.attempts, t.received_at, t.claimed_by, t.rests_until
FROM {table} AS t
WHERE t.status IN ('received', 'processing')
ORDER BY t.id
LIMIT {$limit}

-- name: web.note
INSERT INTO {table} (call, actor, action, target, key, reason, outcome, detail{tenant_column})
VALUES ({$call}, {$actor}, {$action}, {$target}, {$key}, {$reason}, {$outcome}, {$detail}{tenant_value})
RETURNING id

-- name: web.noted
SELECT a.id, a.call, a.at, a.actor, a.action, a.target, a.key, a.reason, a.outcome, a.detail
FROM {table} AS a
WHERE a.id < {$before}
ORDER BY a.id DESC
LIMIT {$limit}

-- The same for one tenant, among a window of lines.
-- name: web.noted_of_tenant
SELECT w.id, w.call, w.at, w.actor, w.action, w.target, w.key, w.reason, w.outcome, w.detail
FROM (SELECT a.* FROM {table} AS a WHERE a.id < {$before} ORDER BY a.id DESC LIMIT {$window}) AS w
WHERE w.tenant = {$tenant}
ORDER BY w.id DESC
LIMIT {$limit}

-- The line at which that window ends.
-- name: web.noted_end
SELECT a.id
FROM {table} AS a
WHERE a.id < {$before}
ORDER BY a.id DESC
LIMIT 1 OFFSET {$window}
