-- Which rows can be claimed, on every SQL database: the one place that says so. Every statement that looks for rows to claim,
-- or says why a row cannot be claimed, is made of these conditions.

-- name: claim.claimable
t.{status} IN ({open})
      -- P3: it has no holder, or the lease has ended by the store's clock (P13: so the dead need no reaper)
      AND {free}
      AND {backed_off?}
      AND {tenant_matches?}
      AND {guards?}
      -- rows with one ordering key are claimed one after the other
      AND {first_of_line?}
