-- An error text is never lost, and keeping it never fails what replaces it. Filled for each stage by triggers.py.

-- name: keep
-- A text that is replaced is kept; when a marker goes without an end, the last error comes back in its place; a row that
-- was dead-lettered says why.
CREATE OR REPLACE FUNCTION outreach_keep_{stage}() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF (OLD.{error} LIKE 'PROCESSING:{kind}:%' AND NEW.{error} IS NULL AND NEW.{status} <> 'completed')
       OR (NEW.{status} = 'failed' AND OLD.{status} <> 'failed' AND (NEW.{error} IS NULL OR NEW.{error} LIKE 'PROCESSING:%'))
    THEN
        NEW.{error} := (
            SELECT text FROM error_texts
            WHERE discovery_id = OLD.id AND error_column = '{error}' AND text NOT LIKE 'PROCESSING:%'
            ORDER BY kept_at DESC, id DESC LIMIT 1
        );
    END IF;
    IF NEW.{status} = 'failed' AND NEW.{error} IS NULL THEN
        NEW.{error} := 'given up: its workers died, the last one at the last attempt';
    END IF;
    IF OLD.{error} IS NOT NULL
       AND NEW.{error} IS DISTINCT FROM OLD.{error}
       AND OLD.{error} !~ '^PROCESSING:[A-Z][^:]*:[^:]+:[12][0-9]{3}'
    THEN
        BEGIN
            -- whoever changes a row has its lock, so no other session keeps the same text of it meanwhile
            UPDATE error_texts SET kept_at = clock_timestamp()
            WHERE discovery_id = OLD.id AND error_column = '{error}' AND text = OLD.{error};
            IF NOT FOUND THEN
                INSERT INTO error_texts (discovery_id, error_column, text, kept_at)
                VALUES (OLD.id, '{error}', OLD.{error}, clock_timestamp());
            END IF;
        EXCEPTION WHEN OTHERS THEN
            -- a claim, a failure or a result counts for more than a text
            RAISE WARNING 'an error text of discovery % could not be kept: %', OLD.id, SQLERRM;
        END;
    END IF;
    RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER outreach_keep_{stage} BEFORE UPDATE ON campaign_media_discoveries
    FOR EACH ROW EXECUTE FUNCTION outreach_keep_{stage}();

-- name: pass_over
-- A row that is held by columns is passed over by whoever writes markers, an older version's own SQL included. Whoever dead-letters
-- a row ends its own lock: one that leaves a living lock in place does not see it, in the other form. And a lock in one form ends
-- what stands there in the other, which was stale: its late holder finds its fence gone.
CREATE OR REPLACE FUNCTION outreach_held_{stage}() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF NEW.{error} LIKE 'PROCESSING:{kind}:%'
       AND NEW.{error} IS DISTINCT FROM OLD.{error}
       AND OLD.{stage}_claimed_until > clock_timestamp()
    THEN
        RETURN NULL;
    END IF;
    IF NEW.{status} = 'failed'
       AND OLD.{status} = 'in_progress'
       AND (
           (NEW.{stage}_claimed_until = OLD.{stage}_claimed_until AND OLD.{stage}_claimed_until > clock_timestamp())
           OR (
               NEW.{error} = OLD.{error}
               AND to_timestamp(
                   substring(OLD.{error} FROM '^PROCESSING:{kind}:[^:]+:([0-9]{1,12}([.][0-9]{1,9})?)$')::float8
               ) BETWEEN clock_timestamp() - make_interval(secs => {stale}) AND clock_timestamp() + interval '1 day'
           )
       )
    THEN
        RETURN NULL;
    END IF;
    IF NEW.{error} LIKE 'PROCESSING:{kind}:%' AND NEW.{error} IS DISTINCT FROM OLD.{error} AND OLD.{stage}_claimed_until IS NOT NULL
    THEN
        NEW.{stage}_claimed_by := NULL;
        NEW.{stage}_claimed_until := NULL;
        NEW.{stage}_fence := GREATEST(OLD.{stage}_fence + 1, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint);
    ELSIF NEW.{stage}_fence IS DISTINCT FROM OLD.{stage}_fence
        AND NEW.{stage}_claimed_until IS NOT NULL
        AND NEW.{error} LIKE 'PROCESSING:{kind}:%'
    THEN
        NEW.{error} := NULL;
    END IF;
    RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER outreach_held_{stage} BEFORE UPDATE ON campaign_media_discoveries
    FOR EACH ROW EXECUTE FUNCTION outreach_held_{stage}();
