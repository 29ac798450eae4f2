-- What every stage has come to, under the same names as over an adopted table; and the language that a campaign asks for.
ALTER TABLE campaigns ADD COLUMN language text;   -- such as en or pt-BR; none is told by the campaign's own words

CREATE VIEW discovery_stages AS
    SELECT id, campaign_id, media_id, discovery_keyword, discovered_at, created_at, updated_at,
           enrichment_status, enrichment_completed_at, enrichment_error, enrichment_attempts,
           ai_description_status, ai_description_attempts,
           vetting_status, vetting_score, vetting_reasoning, vetting_criteria_met, topic_match_analysis, vetted_at,
           vetting_error, vetting_attempts,
           matching_status, matching_error, matching_attempts,
           match_created, match_suggestion_id, review_status
    FROM campaign_media_discoveries;
