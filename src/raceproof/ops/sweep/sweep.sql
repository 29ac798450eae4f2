-- What a sweep looks for on every SQL database.

-- One page of the history, in the order in which it was written: its end, its rows, how many are old, how many of those ours.
-- name: history.page
SELECT max(page.id), count(*), count(*) FILTER (WHERE page.old), count(*) FILTER (WHERE page.old AND page.mine)
FROM (
    SELECT h.id, h.at < {until} AS old, {mine} AS mine
    FROM {history} AS h
    WHERE h.id > {$last}
    ORDER BY h.id
    LIMIT {$limit}
) AS page

-- The old rows of that page.
-- name: history.forget
DELETE FROM {history} AS h
WHERE h.id > {$last}
  AND h.id <= {$end}
  AND h.at < {until}
  AND {mine}

-- Unheld rows that are out of attempts, and could be claimed otherwise.
-- name: claim.spent
SELECT {since}, {status_text}, {attempts}, {t_keys}
FROM {table} AS t
WHERE {claimable}
      AND {spent}
ORDER BY {order}
LIMIT {$limit}

-- How many events ended so long ago that they can be forgotten.
-- name: inbox.ended
SELECT count(*)
FROM {table} AS t
WHERE t.status IN ('done', 'dead')
  AND t.ended_at < {until}
