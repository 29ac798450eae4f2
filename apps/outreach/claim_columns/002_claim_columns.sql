-- Columns of their own for the claims of each stage. Rows under a marker stay its holder's until the marker ends.
ALTER TABLE campaign_media_discoveries ADD COLUMN enrichment_claimed_by text;
ALTER TABLE campaign_media_discoveries ADD COLUMN enrichment_claimed_until {moment};
ALTER TABLE campaign_media_discoveries ADD COLUMN enrichment_fence bigint;
ALTER TABLE campaign_media_discoveries ADD COLUMN ai_description_claimed_by text;
ALTER TABLE campaign_media_discoveries ADD COLUMN ai_description_claimed_until {moment};
ALTER TABLE campaign_media_discoveries ADD COLUMN ai_description_fence bigint;
ALTER TABLE campaign_media_discoveries ADD COLUMN vetting_claimed_by text;
ALTER TABLE campaign_media_discoveries ADD COLUMN vetting_claimed_until {moment};
ALTER TABLE campaign_media_discoveries ADD COLUMN vetting_fence bigint;
ALTER TABLE campaign_media_discoveries ADD COLUMN matching_claimed_by text;
ALTER TABLE campaign_media_discoveries ADD COLUMN matching_claimed_until {moment};
ALTER TABLE campaign_media_discoveries ADD COLUMN matching_fence bigint;

DROP VIEW held_by_columns;
CREATE VIEW held_by_columns AS
    SELECT id, 'enrichment' AS stage FROM campaign_media_discoveries WHERE enrichment_claimed_until > {now}
    UNION ALL
    SELECT id, 'ai_description' FROM campaign_media_discoveries WHERE ai_description_claimed_until > {now}
    UNION ALL
    SELECT id, 'vetting' FROM campaign_media_discoveries WHERE vetting_claimed_until > {now}
    UNION ALL
    SELECT id, 'matching' FROM campaign_media_discoveries WHERE matching_claimed_until > {now};
