-- The inbox on PostgreSQL: many events in one statement, each kept once.
-- Whoever gets an answer has waited for the commit it rests on: a duplicate is locked before it is answered, so that this
-- commit waits for the synchronous standby too. A commit wait that was cancelled leaves rows that only the primary has.

-- name: inbox.receive
WITH lines AS MATERIALIZED (
    -- of one ordering key nobody is given an earlier place than what is committed already; always in the same order
    SELECT count(pg_advisory_xact_lock(hashtextextended({lock} || k, 0))) AS locked
    FROM (SELECT DISTINCT k FROM unnest({$ordering_keys}::text[]) AS k WHERE k IS NOT NULL ORDER BY k) AS keys
)
INSERT INTO {table} (source, event_id, ordering_key, body, headers, status, received_at)
-- a shorter array is filled up with NULL: what is the same for all events is sent once, or not at all
SELECT COALESCE(w.source, ({$sources}::text[])[1]), w.event_id, w.ordering_key, w.body, COALESCE(w.headers, '{{}}'),
       'received', {now}
FROM unnest({$sources}::text[], {$event_ids}::text[], {$ordering_keys}::text[], {$bodies}::bytea[], {$headers}::text[])
     WITH ORDINALITY AS w (source, event_id, ordering_key, body, headers, place)
JOIN lines ON lines.locked >= 0
ORDER BY w.place
-- P8: the same event once, however often and by however many it is brought
ON CONFLICT (source, event_id) DO NOTHING
RETURNING source, event_id

-- The events that were there already. What inbox.receive found writes nothing, and so waits for no standby; a second
-- statement also sees what was committed since the first began.
-- name: inbox.duplicates
SELECT t.source, t.event_id
FROM {table} AS t
JOIN unnest({$sources}::text[], {$event_ids}::text[]) AS w (source, event_id)
  ON t.source = COALESCE(w.source, ({$sources}::text[])[1])
 AND t.event_id = w.event_id
ORDER BY t.source, t.event_id
-- P8: waits for the commit of the first; KEY SHARE does not wait for whoever has the event locked
FOR KEY SHARE OF t

-- What has ended long ago is forgotten, a bounded number at a time.
-- name: inbox.forget
WITH old AS MATERIALIZED (
    SELECT t.source, t.event_id
    FROM {table} AS t
    WHERE t.status IN ('done', 'dead')
      AND t.ended_at < {until}
    LIMIT {$limit}
    -- P8: what somebody holds may be about to be revived; after the lock the row is looked at as it is then
    FOR UPDATE OF t SKIP LOCKED
)
DELETE FROM {table} AS t
USING old
WHERE t.source = old.source
  AND t.event_id = old.event_id
RETURNING 1
