-- Beside an adopted table: the attempts that it has no columns for, and what every stage has come to.
CREATE TABLE stage_attempts (
    stage       text NOT NULL,
    subject_id  bigint NOT NULL,           -- of a podcast for enrichment and description, of a discovery for the others
    attempts    integer NOT NULL DEFAULT 0,
    rests_until {moment},
    error       text,
    PRIMARY KEY (stage, subject_id)
);
CREATE VIEW resting AS
    SELECT stage, subject_id FROM stage_attempts WHERE attempts >= 5 OR rests_until > {now};

CREATE VIEW discovery_stages AS
    SELECT t.id, t.campaign_id, t.media_id, t.discovery_keyword, t.discovered_at, t.created_at, t.updated_at,
           t.enrichment_status, t.enrichment_completed_at, t.enrichment_error,
           COALESCE(enriching.attempts, 0) AS enrichment_attempts,
           CASE WHEN COALESCE(m.ai_description, '') <> '' THEN 'completed'
                WHEN describing.attempts >= 5 THEN 'failed'
                WHEN t.enrichment_error LIKE 'PROCESSING:AI_DESC:%' THEN 'in_progress'
                ELSE 'pending' END AS ai_description_status,
           COALESCE(describing.attempts, 0) AS ai_description_attempts,
           CASE WHEN t.vetting_status = 'pending' AND t.vetting_error LIKE 'PROCESSING:VETTING:%' THEN 'in_progress'
                ELSE t.vetting_status END AS vetting_status,
           CAST(t.vetting_score AS double precision) AS vetting_score, t.vetting_reasoning,
           CAST(t.vetting_criteria_met AS text) AS vetting_criteria_met,
           CAST(t.topic_match_analysis AS text) AS topic_match_analysis, t.vetted_at,
           t.vetting_error, COALESCE(vetting.attempts, 0) AS vetting_attempts,
           CASE WHEN t.vetting_status <> 'completed' THEN 'pending'
                WHEN COALESCE(t.match_created, {false}) OR COALESCE(t.vetting_score, 0) < 50 THEN 'completed'
                WHEN matching.attempts >= 5 THEN 'failed'
                WHEN t.vetting_error LIKE 'PROCESSING:MATCHING:%' THEN 'in_progress'
                ELSE 'pending' END AS matching_status,
           matching.error AS matching_error, COALESCE(matching.attempts, 0) AS matching_attempts,
           COALESCE(t.match_created, {false}) AS match_created, t.match_suggestion_id, t.review_status
    FROM campaign_media_discoveries AS t
    JOIN media AS m ON m.id = t.media_id
    LEFT JOIN stage_attempts AS enriching ON enriching.stage = 'enrichment' AND enriching.subject_id = t.media_id
    LEFT JOIN stage_attempts AS describing ON describing.stage = 'ai_description' AND describing.subject_id = t.media_id
    LEFT JOIN stage_attempts AS vetting ON vetting.stage = 'vetting' AND vetting.subject_id = t.id
    LEFT JOIN stage_attempts AS matching ON matching.stage = 'matching' AND matching.subject_id = t.id;

-- The next lock overwrites an error that stands there, as the note's own code does.
INSERT INTO error_texts (discovery_id, error_column, text, kept_at)
    SELECT id, 'enrichment_error', enrichment_error, {now} FROM campaign_media_discoveries
    WHERE enrichment_error <> '' AND enrichment_error NOT LIKE 'PROCESSING:%'
    UNION ALL
    SELECT id, 'vetting_error', vetting_error, {now} FROM campaign_media_discoveries
    WHERE vetting_error <> '' AND vetting_error NOT LIKE 'PROCESSING:%';
