-- An error text is never lost, and keeping it never fails what replaces it. Filled for each stage by triggers.py.

-- name: keep
-- A text that is replaced is kept; when a marker goes without an end, the last error comes back in its place; a row that
-- was dead-lettered says why.
DROP TRIGGER IF EXISTS outreach_keep_{stage};
CREATE TRIGGER outreach_keep_{stage} AFTER UPDATE OF {error} ON campaign_media_discoveries
WHEN OLD.{error} IS NOT NULL
 AND NEW.{error} IS NOT OLD.{error}
 AND OLD.{error} NOT GLOB 'PROCESSING:[A-Z]*:*:[12][0-9][0-9][0-9]*'
BEGIN
    DELETE FROM error_texts WHERE discovery_id = OLD.id AND error_column = '{error}' AND text = OLD.{error};
    INSERT INTO error_texts (discovery_id, error_column, text, kept_at)
    VALUES (OLD.id, '{error}', OLD.{error}, strftime('%Y-%m-%d %H:%M:%f', 'now'));
END;
DROP TRIGGER IF EXISTS outreach_restore_{stage};
CREATE TRIGGER outreach_restore_{stage} AFTER UPDATE OF {error} ON campaign_media_discoveries
WHEN OLD.{error} LIKE 'PROCESSING:{kind}:%'
 AND NEW.{error} IS NULL
 AND NEW.{status} NOT IN ('completed', 'failed')
BEGIN
    UPDATE campaign_media_discoveries SET {error} = (
        SELECT text FROM error_texts
        WHERE discovery_id = OLD.id AND error_column = '{error}' AND text NOT LIKE 'PROCESSING:%'
        ORDER BY kept_at DESC, id DESC LIMIT 1
    ) WHERE id = OLD.id;
END;
DROP TRIGGER IF EXISTS outreach_given_up_{stage};
CREATE TRIGGER outreach_given_up_{stage} AFTER UPDATE OF {status} ON campaign_media_discoveries
WHEN NEW.{status} = 'failed'
 AND OLD.{status} <> 'failed'
BEGIN
    UPDATE campaign_media_discoveries SET {error} = COALESCE((
        SELECT text FROM error_texts
        WHERE discovery_id = OLD.id AND error_column = '{error}' AND text NOT LIKE 'PROCESSING:%'
        ORDER BY kept_at DESC, id DESC LIMIT 1
    ), 'given up: its workers died, the last one at the last attempt')
    WHERE id = OLD.id AND ({error} IS NULL OR {error} LIKE 'PROCESSING:%');
END;

-- name: pass_over
-- A row that somebody holds by columns is passed over by whoever writes markers, an older version's own SQL included.
DROP TRIGGER IF EXISTS outreach_held_{stage};
CREATE TRIGGER outreach_held_{stage} BEFORE UPDATE OF {error} ON campaign_media_discoveries
WHEN NEW.{error} LIKE 'PROCESSING:{kind}:%'
 AND NEW.{error} IS NOT OLD.{error}
 AND OLD.{stage}_claimed_until > strftime('%Y-%m-%d %H:%M:%f', 'now')
BEGIN
    SELECT RAISE(IGNORE);
END;
-- Whoever dead-letters a row ends its own lock: one that leaves a living lock in place does not see it, in the other form.
DROP TRIGGER IF EXISTS outreach_spare_{stage};
CREATE TRIGGER outreach_spare_{stage} BEFORE UPDATE OF {status} ON campaign_media_discoveries
WHEN NEW.{status} = 'failed'
 AND OLD.{status} = 'in_progress'
 AND (
    (
        NEW.{stage}_claimed_until IS OLD.{stage}_claimed_until
        AND OLD.{stage}_claimed_until > strftime('%Y-%m-%d %H:%M:%f', 'now')
    )
    OR (
        NEW.{error} IS OLD.{error}
        AND OLD.{error} GLOB 'PROCESSING:{kind}:*:[0-9]*'
        AND CAST(
            substr(
                substr(OLD.{error}, length('PROCESSING:{kind}:') + 1),
                instr(substr(OLD.{error}, length('PROCESSING:{kind}:') + 1), ':') + 1
            ) AS REAL
        ) BETWEEN (julianday('now') - 2440587.5) * 86400.0 - {stale} AND (julianday('now') - 2440587.5) * 86400.0 + 86400
    )
 )
BEGIN
    SELECT RAISE(IGNORE);
END;
-- A lock in one form ends what stands there in the other, which was stale: its late holder finds its fence gone.
DROP TRIGGER IF EXISTS outreach_ends_columns_{stage};
CREATE TRIGGER outreach_ends_columns_{stage} AFTER UPDATE OF {error} ON campaign_media_discoveries
WHEN NEW.{error} LIKE 'PROCESSING:{kind}:%'
 AND NEW.{error} IS NOT OLD.{error}
 AND OLD.{stage}_claimed_until IS NOT NULL
BEGIN
    UPDATE campaign_media_discoveries
    SET {stage}_claimed_by = NULL,
        {stage}_claimed_until = NULL,
        {stage}_fence = max({stage}_fence + 1, CAST((julianday('now') - 2440587.5) * 86400000.0 AS INTEGER) * 1000)
    WHERE id = OLD.id;
END;
DROP TRIGGER IF EXISTS outreach_ends_marker_{stage};
CREATE TRIGGER outreach_ends_marker_{stage} AFTER UPDATE OF {stage}_fence ON campaign_media_discoveries
WHEN NEW.{stage}_fence IS NOT OLD.{stage}_fence
 AND NEW.{stage}_claimed_until IS NOT NULL
 AND NEW.{error} LIKE 'PROCESSING:{kind}:%'
BEGIN
    UPDATE campaign_media_discoveries SET {error} = NULL WHERE id = OLD.id;
END;
