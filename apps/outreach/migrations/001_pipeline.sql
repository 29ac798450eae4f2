-- Campaigns, podcasts, and what a campaign has found; see lifecycle.py. Locks live in the error columns: PROCESSING:KIND:UUID:TIME.
CREATE TABLE campaigns (
    id         {identity},
    name       text NOT NULL UNIQUE,
    keywords   text NOT NULL,                     -- JSON, a list of words
    ideal_podcast_description text NOT NULL,
    created_at {moment} NOT NULL
);

CREATE TABLE media (
    id              {identity},
    rss_url         text NOT NULL UNIQUE,
    name            text NOT NULL,
    description     text NOT NULL DEFAULT '',
    website         text,
    language        text,
    categories      text NOT NULL DEFAULT '[]',   -- JSON, a list of words
    host_names      text NOT NULL DEFAULT '[]',   -- JSON, [{name, confidence}]
    audience        integer,                      -- ratings or reviews, where a directory tells
    social          integer NOT NULL DEFAULT 0,   -- links to social networks
    episode_count   integer NOT NULL DEFAULT 0,
    latest_episode_at {moment},
    quality_score   double precision,             -- 0 to 100
    quality_parts   text NOT NULL DEFAULT '{}',   -- JSON, {recency, frequency, audience, social}
    enriched_at     {moment},
    ai_description  text,
    ai_described_at {moment},
    ai_described_by text,                         -- the model, or `built in`
    created_at      {moment} NOT NULL,
    updated_at      {moment} NOT NULL
);

CREATE TABLE episodes (
    id           {identity},
    media_id     bigint NOT NULL REFERENCES media (id),
    guid         text NOT NULL,
    title        text NOT NULL,
    summary      text NOT NULL,
    published_at {moment},
    seconds      integer,
    transcript_url       text,
    transcript           text,
    transcription_status text NOT NULL DEFAULT 'none',   -- pending once a feed names a transcript
    transcription_error  text,
    attempts             integer NOT NULL DEFAULT 0,
    rests_until          {moment},
    claimed_by           text,
    claimed_until        {moment},
    fence                bigint,
    UNIQUE (media_id, guid)
);

-- Feeds that came as files: kept here, so that any instance can read them.
CREATE TABLE stored_feeds (
    url        text PRIMARY KEY,
    body       {bytes} NOT NULL,
    stored_at  {moment} NOT NULL
);

CREATE TABLE campaign_media_discoveries (
    id                {identity},
    campaign_id       bigint NOT NULL REFERENCES campaigns (id),
    media_id          bigint NOT NULL REFERENCES media (id),
    discovery_keyword text,
    discovered_at     {moment} NOT NULL,
    created_at        {moment} NOT NULL,
    updated_at        {moment} NOT NULL,

    enrichment_status       text NOT NULL DEFAULT 'pending',
    enrichment_completed_at {moment},
    enrichment_error        text,
    enrichment_attempts     integer NOT NULL DEFAULT 0,
    enrichment_rests_until  {moment},

    ai_description_status      text NOT NULL DEFAULT 'pending',
    ai_description_attempts    integer NOT NULL DEFAULT 0,
    ai_description_rests_until {moment},

    vetting_status       text NOT NULL DEFAULT 'pending',
    vetting_score        double precision,        -- 0 to 100
    vetting_reasoning    text,
    vetting_criteria_met text,                    -- JSON, [{criterion, weight, score, why}]
    topic_match_analysis text,
    vetted_at            {moment},
    vetting_error        text,
    vetting_attempts     integer NOT NULL DEFAULT 0,
    vetting_rests_until  {moment},

    matching_status      text NOT NULL DEFAULT 'pending',
    matching_error       text,
    matching_attempts    integer NOT NULL DEFAULT 0,
    matching_rests_until {moment},
    match_created        {boolean} NOT NULL DEFAULT {false},
    match_suggestion_id  bigint,
    review_status        text,

    UNIQUE (campaign_id, media_id)
);
CREATE INDEX discoveries_of_podcast ON campaign_media_discoveries (media_id, id);

-- What a stage can work on now, not all that will come to it some day; and what has had its attempts.
CREATE INDEX discoveries_to_describe ON campaign_media_discoveries (id)
    WHERE ai_description_status IN ('pending', 'in_progress') AND enrichment_status = 'completed';
CREATE INDEX discoveries_to_vet ON campaign_media_discoveries (id)
    WHERE vetting_status IN ('pending', 'in_progress') AND ai_description_status = 'completed';
CREATE INDEX discoveries_to_match ON campaign_media_discoveries (id)
    WHERE matching_status IN ('pending', 'in_progress') AND vetting_status = 'completed';
CREATE INDEX discoveries_not_enriched ON campaign_media_discoveries (id)
    WHERE enrichment_status IN ('pending', 'in_progress') AND COALESCE(enrichment_attempts, 0) >= 5;
CREATE INDEX discoveries_not_described ON campaign_media_discoveries (id)
    WHERE ai_description_status IN ('pending', 'in_progress') AND COALESCE(ai_description_attempts, 0) >= 5;
CREATE INDEX discoveries_not_vetted ON campaign_media_discoveries (id)
    WHERE vetting_status IN ('pending', 'in_progress') AND COALESCE(vetting_attempts, 0) >= 5;
CREATE INDEX discoveries_not_matched ON campaign_media_discoveries (id)
    WHERE matching_status IN ('pending', 'in_progress') AND COALESCE(matching_attempts, 0) >= 5;

-- Every text that stood in an error column and was replaced, by a claim or by a newer error; see triggers/.
CREATE TABLE kept_errors (
    discovery_id bigint NOT NULL,
    error_column text NOT NULL,
    text         text NOT NULL,
    kept_at      {moment} NOT NULL,
    PRIMARY KEY (discovery_id, error_column, text)
);

CREATE TABLE match_suggestions (
    id           {identity},
    campaign_id  bigint NOT NULL REFERENCES campaigns (id),
    media_id     bigint NOT NULL REFERENCES media (id),
    discovery_id bigint NOT NULL REFERENCES campaign_media_discoveries (id),
    score        double precision NOT NULL,
    reasoning    text NOT NULL,
    created_at   {moment} NOT NULL,
    UNIQUE (campaign_id, media_id)
);

CREATE TABLE review_tasks (
    id                  {identity},
    match_suggestion_id bigint NOT NULL UNIQUE REFERENCES match_suggestions (id),
    campaign_id         bigint NOT NULL REFERENCES campaigns (id),
    status              text NOT NULL,
    decided_at          {moment},
    decided_by          text,
    decided_because     text,
    created_at          {moment} NOT NULL
);
CREATE INDEX review_tasks_open ON review_tasks (id) WHERE status = 'pending';

CREATE TABLE stages (
    name       text PRIMARY KEY,
    state      text NOT NULL,
    changed_at {moment},
    changed_by text,
    reason     text
);
INSERT INTO stages (name, state) VALUES
    ('enrichment', 'running'), ('ai_description', 'running'), ('vetting', 'running'), ('matching', 'running'),
    ('transcription', 'running');

-- What the AI has cost, in millionths; a call is reserved here before it is made.
CREATE TABLE ai_budget (
    name        text PRIMARY KEY,
    spent       bigint NOT NULL,
    calls       bigint NOT NULL
);
INSERT INTO ai_budget VALUES ('all', 0, 0);

-- Rows that somebody holds by columns, for those who use markers: nobody, until there are such columns.
CREATE VIEW held_by_columns AS SELECT id, 'none' AS stage FROM campaign_media_discoveries WHERE 1 = 0;
