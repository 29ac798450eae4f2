-- One try of a user to log in. Used where attempts live in this database and not in Redis; the names are the note's keys.
CREATE TABLE "tg:qr:session" (
    user_id       text NOT NULL,
    unix          text NOT NULL,
    nonce         text NOT NULL,
    session_id    text NOT NULL UNIQUE,
    status        text NOT NULL,
    ttl_seconds   integer NOT NULL,
    created_at    {moment} NOT NULL,
    rendered_at   {moment},
    scanned_at    {moment},
    authorized_at {moment},
    saved_at      {moment},
    ended_at      {moment},
    superseded_at {moment},
    superseded_by text,
    account_id    text,
    reason        text,
    claimed_by    text,
    claimed_until {moment},
    fence         bigint,
    PRIMARY KEY (user_id, unix, nonce)
);

CREATE INDEX qr_sessions_ended ON "tg:qr:session" (created_at) WHERE status IN ('done', 'expired', 'failed', 'superseded');

-- What the page is to show, sealed; each holder of an attempt writes under its own fence, and readers look at the newest.
CREATE TABLE qr_shown (
    session_id text NOT NULL,
    fence      bigint NOT NULL,
    sealed     text NOT NULL,
    until      {moment} NOT NULL,
    PRIMARY KEY (session_id, fence)
);

-- A password on its way from the page to the ingest process, sealed.
CREATE TABLE qr_passwords (
    session_id text PRIMARY KEY,
    sealed     text NOT NULL,
    until      {moment} NOT NULL
);

-- A session of an attempt that is authorized, sealed, until it is decided whether the attempt may save it.
CREATE TABLE held_sessions (
    session_id text PRIMARY KEY,
    user_id    text NOT NULL,
    account_id text NOT NULL,
    key_id     text NOT NULL,
    sealed     text NOT NULL,
    held_at    {moment} NOT NULL
);

-- One current session of a user, and those before it.
CREATE TABLE saved_sessions (
    session_id  text PRIMARY KEY,
    user_id     text NOT NULL,
    account_id  text NOT NULL,
    key_id      text NOT NULL,
    sealed      text NOT NULL,
    status      text NOT NULL,
    saved_at    {moment} NOT NULL,
    ended_at    {moment},
    replaced_by text,
    reason      text
);

CREATE INDEX saved_sessions_of_user ON saved_sessions (user_id, saved_at);
