-- start: begin, attempt.lock_owner, attempt.lock_key, attempt.look, attempt.insert, commit
-- start, superseding: begin, attempt.lock_owner, attempt.lock_key, attempt.look, move.one, attempt.insert, commit
-- move.one
WITH cur AS MATERIALIZED (
    SELECT t."login_id" AS rp_key_0,
           t."status"::text AS rp_before,
           NULL::bigint AS rp_revision,
           NULL::bigint AS rp_fence,
           NULL::text AS rp_key,
           0 AS rp_unmet
    FROM "logins" AS t
    WHERE t."login_id" = $1
    FOR NO KEY UPDATE
), changed AS (
    UPDATE "logins" AS t
    SET "status" = 'superseded',
      "superseded_at" = $2::timestamptz,
      "superseded_by" = $3
    FROM cur
    WHERE t."login_id" = cur.rp_key_0
      AND cur.rp_before IN ('pending', 'scanned')
      AND cur.rp_unmet = 0
    RETURNING TRUE AS rp_won, NULL::bigint AS rp_revision
)
SELECT cur.rp_before, cur.rp_revision, cur.rp_fence, cur.rp_unmet, cur.rp_key,
       changed.rp_won, changed.rp_revision
FROM cur LEFT JOIN changed ON TRUE

-- start by the store's clock: begin, attempt.lock_owner, attempt.lock_key, attempt.look, attempt.insert, commit
-- start, keeping: begin, attempt.lock_owner, attempt.lock_key, attempt.look, commit
-- start, rejecting: begin, attempt.lock_owner, attempt.lock_key, attempt.look, commit
-- current attempt: move.types, attempt.current
-- current attempt at a given time: move.types, attempt.current
