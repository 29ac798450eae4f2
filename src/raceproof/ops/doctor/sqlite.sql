-- What the doctor asks SQLite. Every query ends after a bounded number of rows.

-- Rows at one end of the table whose status is not declared.
-- name: doctor.strangers
SELECT found.rp_status, {found_keys}
FROM (
    SELECT t.{status} AS rp_status, {t_keys}
    FROM {table} AS t
    WHERE TRUE
      AND {of_tenant?}
    ORDER BY {order}
    LIMIT {$rows}
) AS found
WHERE found.rp_status IS NULL
   OR found.rp_status NOT IN ({statuses})
LIMIT {$limit}

-- Whether the table has so many rows.
-- name: doctor.size
SELECT count(*)
FROM (
    SELECT 1
    FROM {table} AS t
    WHERE TRUE
      AND {of_tenant?}
    LIMIT {$rows}
) AS part

-- The open attempts of owners who have several, the oldest first; the same name at two tenants is two owners.
-- name: doctor.owners
SELECT found.rp_owner, found.rp_status, found.rp_began, {found_keys}
FROM (
    SELECT part.*, count(*) OVER (PARTITION BY {part_owner}) AS rp_number
    FROM (
        SELECT t.{owner} AS rp_owner, t.{status} AS rp_status, {began} AS rp_began, {t_keys}
        FROM {table} AS t
        WHERE t.{status} IN ({open})
          AND t.{owner} IS NOT NULL
          AND {of_tenant?}
        LIMIT {$rows}
    ) AS part
) AS found
WHERE found.rp_number > 1
ORDER BY {found_owner}, found.rp_began, {found_keys}
LIMIT {$limit}

-- A row at a status that is not declared goes to where rows begin.
-- name: repair.status
UPDATE {table}
SET {status} = {first}
    , {revision?} = COALESCE({revision}, 0) + 1
WHERE {which};

-- name: repair.strangers
{status} IS NULL OR {status} NOT IN ({statuses})

-- What the guards want to hear for it; the guards remove it with the change that it excuses.
-- name: repair.excuse
INSERT OR REPLACE INTO {override} (lifecycle, actor, reason) VALUES ({lifecycle}, 'doctor', {why});

-- The row may have changed or gone since it was found: an override that excused nothing must not outlive its update.
-- name: repair.excused
DELETE FROM {override} WHERE lifecycle = {lifecycle};

-- An override that was committed without the change it was meant for.
-- name: doctor.overrides
SELECT actor, reason
FROM {override}
WHERE lifecycle = {$lifecycle}

-- How many rows are at each status, and since when the oldest: of the first rows of a table, or of those that an index finds.
-- name: snapshot.states
SELECT part.rp_status, count(*), min(part.rp_since)
FROM (
    SELECT t.{status} AS rp_status, {since} AS rp_since
    FROM {table} AS t
    WHERE TRUE
      AND t.{status} IN ({open?})
      AND {of_tenant?}
    LIMIT {$rows}
) AS part
GROUP BY part.rp_status

-- What was decided last, won and lost.
-- name: snapshot.races
SELECT h.lifecycle, h.key, h.move, h.outcome, h.before, h.after, h.actor, h.reason, h.at
FROM (SELECT e.* FROM {history} AS e ORDER BY e.id DESC LIMIT {$window}) AS h
WHERE TRUE
  AND {visible?}
ORDER BY h.id DESC
LIMIT {$limit}
