-- What the doctor asks PostgreSQL. Every query ends after a bounded number of rows.

-- Rows at one end of the table whose status is not declared.
-- name: doctor.strangers
SELECT found.rp_status, {found_keys}
FROM (
    SELECT t.{status}::text AS rp_status, {t_keys}
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
        SELECT t.{owner}::text AS rp_owner, t.{status}::text AS rp_status, {began} AS rp_began, {t_keys}
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

-- name: doctor.clock
SELECT extract(epoch FROM clock_timestamp())::float8

-- name: doctor.session
SELECT pg_backend_pid()

-- name: doctor.server
SELECT pg_is_in_recovery(), current_database()::text, session_user::text

-- The settings that promises depend on, and their sources, for this session.
-- name: doctor.settings
SELECT name, setting, source
FROM pg_settings
WHERE name IN (
    'default_transaction_read_only', 'fsync', 'full_page_writes', 'synchronous_commit', 'synchronous_standby_names',
    'zero_damaged_pages'
)

-- The same for roles, and for this database, as others log in.
-- name: doctor.role_settings
SELECT d.datname::text, r.rolname::text, c.setting
FROM pg_db_role_setting AS s
LEFT JOIN pg_database AS d ON d.oid = s.setdatabase
LEFT JOIN pg_roles AS r ON r.oid = s.setrole
CROSS JOIN unnest(s.setconfig) AS c (setting)
WHERE (s.setdatabase = 0 OR d.datname = current_database())
  AND split_part(c.setting, '=', 1) IN ('synchronous_commit', 'zero_damaged_pages')
ORDER BY d.datname NULLS FIRST, r.rolname NULLS FIRST
LIMIT {$limit}

-- The server that a standby follows, for those who may know.
-- name: doctor.upstream
SELECT sender_host, sender_port
FROM pg_stat_wal_receiver
WHERE sender_host IS NOT NULL

-- The standbys of a primary, without backups and subscribers; those who may not know see only that there are some.
-- name: doctor.standbys
SELECT r.application_name, r.client_addr::text, r.state, r.sync_state
FROM pg_stat_replication AS r
WHERE r.application_name IS DISTINCT FROM 'pg_basebackup'
  AND r.application_name IS DISTINCT FROM 'pg_receivewal'
  AND NOT EXISTS (SELECT 1 FROM pg_replication_slots AS s WHERE s.active_pid = r.pid AND s.slot_type = 'logical')
ORDER BY r.application_name, r.pid
LIMIT {$limit}

-- A table and its partitions, as far as they are UNLOGGED.
-- name: doctor.unlogged
SELECT c.oid::regclass::text
FROM pg_class AS c
WHERE c.relpersistence = 'u'
  AND (c.oid = to_regclass({$table}::text)
       OR c.oid IN (SELECT relid FROM pg_partition_tree(to_regclass({$table}::text))))
ORDER BY c.oid

-- A row at a status that is not declared goes to where rows begin.
-- name: repair.status
UPDATE {table}
SET {status} = {first}
    , {revision?} = COALESCE({revision}, 0) + 1
WHERE {which};

-- name: repair.strangers
{status} IS NULL OR {status}::text NOT IN ({statuses})

-- What the guards want to hear for it.
-- name: repair.excuse
SET LOCAL raceproof.override = {why};

-- Guards that keep no history hear nothing.
-- name: repair.disable
ALTER TABLE {table} DISABLE TRIGGER {trigger};

-- name: repair.enable
ALTER TABLE {table} ENABLE TRIGGER {trigger};

-- name: repair.enum
DO {tag} BEGIN
    EXECUTE (
        SELECT format('ALTER TYPE %s ADD VALUE IF NOT EXISTS %L', atttypid::regtype, {label})
        FROM pg_attribute
        WHERE attrelid = {relation}::regclass
          AND attname = {column}
    );
END {tag};

-- How many rows are at each status, and since when the oldest: of the first rows of a table, or of those that an index finds.
-- name: snapshot.states
SELECT part.rp_status, count(*), min(part.rp_since)
FROM (
    SELECT t.{status}::text AS rp_status, {since} AS rp_since
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
