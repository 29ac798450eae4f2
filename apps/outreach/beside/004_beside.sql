-- What stands beside the discoveries, whichever table they are in: facts about this database, error texts, pauses, AI calls.

-- Whose table the discoveries are in (layout: own or adopted), the one stale time, and whether the answers are invented.
CREATE TABLE IF NOT EXISTS outreach_facts (
    name  text PRIMARY KEY,
    value text NOT NULL
);

-- Every text that stood in an error column and was replaced. No key has a text in it: a long one would be too long for its page.
CREATE TABLE error_texts (
    id           {identity},
    discovery_id bigint NOT NULL,
    error_column text NOT NULL,
    text         text NOT NULL,
    kept_at      {moment} NOT NULL
);
CREATE INDEX error_texts_of_discovery ON error_texts (discovery_id, error_column, kept_at);
INSERT INTO error_texts (discovery_id, error_column, text, kept_at)
    SELECT discovery_id, error_column, text, kept_at FROM kept_errors ORDER BY kept_at;
DROP TABLE kept_errors;

-- What stages depend on, and its failures: until then nothing asks it. A person's own pause is in stages.
ALTER TABLE stages ADD COLUMN asks text;
UPDATE stages SET asks = 'ai' WHERE name IN ('ai_description', 'vetting');
UPDATE stages SET asks = 'feeds' WHERE name IN ('enrichment', 'transcription');
CREATE TABLE pauses (
    name     text PRIMARY KEY,
    failures integer NOT NULL DEFAULT 0,   -- in a row
    times    integer NOT NULL DEFAULT 0,   -- pauses in a row, each twice as long as the one before
    since    {moment},
    until    {moment},
    kind     text,
    reason   text
);
INSERT INTO pauses (name) VALUES ('ai'), ('feeds');
CREATE VIEW paused_stages AS
    SELECT name AS stage FROM stages WHERE state = 'paused'
    UNION
    SELECT s.name FROM stages AS s JOIN pauses AS p ON p.name = s.asks WHERE p.until > {now};

-- One row for each call of the AI. Its cost is reserved before it is made and corrected when its end is known.
CREATE TABLE ai_calls (
    id           {identity},
    intent       text NOT NULL,            -- the Idempotency-Key: what is asked, word for word
    kind         text NOT NULL,            -- describe or vet
    stage        text NOT NULL,
    campaign_id  bigint,
    media_id     bigint,
    discovery_id bigint,
    model        text NOT NULL,
    made_by      text NOT NULL,
    outcome      text NOT NULL,            -- under way, answered, unusable, rejected, failed, not sent, unknown, lost
    tokens_in    bigint,
    tokens_out   bigint,
    cost         bigint NOT NULL,          -- millionths of the currency
    currency     text NOT NULL,
    message      text,
    began_at     {moment} NOT NULL,
    doubted_at   {moment},                 -- first missed by somebody who wants the same answer
    ended_at     {moment}
);
CREATE INDEX ai_calls_of_intent ON ai_calls (intent, id);
CREATE INDEX ai_calls_answered ON ai_calls (ended_at) WHERE outcome = 'answered';

-- Answers that were paid for, by what was asked: they are never bought again.
CREATE TABLE ai_answers (
    intent    text PRIMARY KEY,
    subject   text NOT NULL,
    text      text NOT NULL,
    finish    text NOT NULL,
    refusal   text NOT NULL,
    unusable  text,                        -- why, if it is
    stored_at {moment} NOT NULL
);
CREATE INDEX ai_answers_of_subject ON ai_answers (subject);

-- When the next call may be made, in seconds since 1970: the rate of all processes together.
ALTER TABLE ai_budget ADD COLUMN next_at double precision NOT NULL DEFAULT 0;
