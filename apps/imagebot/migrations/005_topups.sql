CREATE TABLE topups (
    topup_id     text PRIMARY KEY,
    user_id      bigint NOT NULL,
    status       text NOT NULL,
    amount       bigint,
    ended_by     text,
    made_at      {moment} NOT NULL,
    requested_at {moment},
    ended_at     {moment}
);
CREATE INDEX topups_requested ON topups (requested_at) WHERE status = 'requested';
