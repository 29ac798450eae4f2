-- Guards on PostgreSQL: the declared moves are the only ones possible, for raw SQL too.
-- AFTER, because only then no other trigger can change the row any more; without a column list, because another trigger may
-- change the status in a statement that does not name it.

-- name: guard
CREATE OR REPLACE FUNCTION {function}() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS {tag}
/* raceproof {hash} */
DECLARE
    found text := CASE WHEN TG_OP = 'UPDATE' THEN OLD.{status}::text END;
    wanted text := NEW.{status}::text;
    excuse text := nullif(current_setting('raceproof.override', true), '');
BEGIN
    IF TG_OP = 'UPDATE' AND wanted IS NOT DISTINCT FROM found THEN
        RETURN NULL;
    END IF;
    IF TG_OP = 'INSERT' AND wanted IN ({initial}) THEN
        RETURN NULL;
    END IF;
    IF TG_OP = 'UPDATE' AND (found, wanted) IN ({pairs}) THEN
        RETURN NULL;
    END IF;
    IF excuse IS NOT NULL THEN
        {record?}
        {returns?}
    END IF;
    RAISE EXCEPTION USING
        ERRCODE = '23514',
        SCHEMA = TG_TABLE_SCHEMA,
        TABLE = TG_TABLE_NAME,
        CONSTRAINT = {constraint},
        MESSAGE = {lifecycle} || ' may not go from ' || coalesce(found, '(new)') || ' to ' || coalesce(wanted, 'NULL'),
        DETAIL = jsonb_build_object('lifecycle', {lifecycle}, 'key', {new_key}, 'from', found, 'to', wanted)::text,
        HINT = 'Only declared moves are possible here.' || {hint};
END
{tag};

-- name: guard.replace
DROP TRIGGER IF EXISTS {trigger} ON {table};

-- name: guard.trigger
CREATE TRIGGER {trigger} AFTER INSERT OR UPDATE ON {table}
    FOR EACH ROW EXECUTE FUNCTION {function}();

-- name: record
INSERT INTO {history} (lifecycle, key, move, outcome, before, after, actor, reason)
        VALUES ({lifecycle}, {new_key}, 'override', 'moved', found, wanted, session_user, excuse);

-- A history without a schema is looked for where it was when the guards were installed, never in a caller's search_path.
-- name: pin
DO {tag}
BEGIN
    EXECUTE format('ALTER FUNCTION %s() SET search_path = pg_catalog, %I, pg_temp', {function_text}, current_schema());
END
{tag};

-- name: drop.function
DROP FUNCTION IF EXISTS {function}();
