-- Leases, on every SQL database: each is one row, and every statement is one decision about it.
-- Whoever gets an answer has waited for the commit it rests on: every caller that loses locks the row, so that its own
-- commit waits for the synchronous standby too. A commit wait that was cancelled leaves rows that only the primary has.

-- Become the holder, if nobody is or the lease is over. An epoch is never used twice.
-- name: lease.acquire
INSERT INTO {table} AS t (name, holder, epoch, until, since, session)
VALUES ({$name}, {$by}, {clock}, {ends}, {now}, {$session})
ON CONFLICT (name) DO UPDATE
SET holder = EXCLUDED.holder,
    -- P10: grows with every change of holder, also where a lossy failover has forgotten the last ones
    epoch = {grown},
    until = EXCLUDED.until,
    since = EXCLUDED.since,
    session = EXCLUDED.session
-- the lease is over, or its holder's session is: who has the advisory lock knows that
WHERE t.until IS NULL
   OR t.until <= {now}
   -- P13: or the clock was set back since it was taken
   OR {ahead}
   OR (t.session AND {$locked})
-- only a lease that nobody ever held begins with the clock itself
RETURNING epoch, epoch <> {clock}

-- name: lease.renew
UPDATE {table} AS t
SET until = {ends},
    session = {$session}
WHERE t.name = {$name}
  -- P10: only the holder, and only in its own epoch
  AND t.holder = {$by}
  AND t.epoch = {$epoch}
  AND t.until IS NOT NULL
RETURNING epoch, FALSE

-- name: lease.release
UPDATE {table} AS t
SET until = NULL
WHERE t.name = {$name}
  AND t.holder = {$by}
  AND t.epoch = {$epoch}
RETURNING epoch, FALSE

-- Who holds it; for the answer to a caller that lost, with a lock that waits for no writer.
-- name: lease.look
SELECT t.holder, t.epoch, t.until, t.until > {now} AND NOT {ahead}
FROM {table} AS t
WHERE t.name = {$name}
{lock?}

-- name: lease.list
SELECT t.name, t.holder, t.epoch, t.until, t.until > {now}, t.since
FROM {table} AS t
ORDER BY t.name
