-- Commands, with the columns of their claim and of their publishing; see lifecycle.py.
CREATE TABLE commands (
    number        {identity},
    cmd_id        text NOT NULL UNIQUE,
    node          text NOT NULL,              -- greenhouse/zone/node
    channel       text NOT NULL,
    cmd           text NOT NULL,
    params        text NOT NULL,              -- canonical JSON
    status        text NOT NULL,
    permit        text NOT NULL,
    why           text,                       -- the permit was withdrawn, or given back
    overridden_by text,
    rank          integer NOT NULL,           -- 0 for a stop, 1 otherwise
    line          text,                       -- node/channel while it waits for its turn; NULL stands in no line
    made_at       {moment} NOT NULL,
    valid_until   {moment} NOT NULL,          -- it is not published later than this
    sent_at       {moment},
    ack_at        {moment},
    ended_at      {moment},
    duration_ms   bigint,
    result_code   bigint,
    error_code    text,
    error_message text,
    claimed_by    text,
    claimed_until {moment},
    fence         bigint,
    claims        integer NOT NULL DEFAULT 0,
    rests_until   {moment},
    publishing_at {moment},
    published_at  {moment},
    publish_state text,
    published_by  text,
    publish_error text,
    publishes     integer NOT NULL DEFAULT 0
);
CREATE INDEX commands_by_node ON commands (node, number);
CREATE INDEX commands_by_status ON commands (status, number);
CREATE INDEX commands_waiting_until ON commands (valid_until) WHERE status IN ('QUEUED', 'SEND_FAILED');
CREATE INDEX commands_unanswered ON commands (sent_at) WHERE status IN ('SENT', 'ACK');

-- Every response that was taken, in the order in which it was acted on, with what came of it.
CREATE TABLE evidence (
    number      {identity},
    cmd_id      text NOT NULL,
    status      text NOT NULL,
    told_at_ms  bigint NOT NULL,              -- by the node's clock
    body        text NOT NULL,
    outcome     text NOT NULL,                -- moved, already, late
    event_id    text NOT NULL UNIQUE,
    at          {moment} NOT NULL
);
CREATE INDEX evidence_of_command ON evidence (cmd_id, number);

-- Since when a command may have arrived without anybody knowing: the first of its tries that ended so.
CREATE TABLE doubts (
    cmd_id text PRIMARY KEY,
    since  {moment} NOT NULL
);

-- What was refused: malformed, forged, or about unknown commands.
CREATE TABLE refused_responses (
    number {identity},
    topic  text NOT NULL,
    why    text NOT NULL,
    body   {bytes} NOT NULL,
    at     {moment} NOT NULL
);

CREATE TABLE nodes (
    path       text PRIMARY KEY,              -- greenhouse/zone/node
    state      text NOT NULL,
    changed_at {moment},
    heard_at   {moment} NOT NULL,
    booted_at  {moment},
    details    text
);
