-- The ledger: each event changes a balance once, because its reference is there once.
CREATE TABLE transactions (
    number    {identity},
    reference text NOT NULL UNIQUE,           -- hold:JOB, charge:JOB, release:JOB, refund:JOB, topup:ID, …
    user_id   bigint NOT NULL,
    kind      text NOT NULL,
    amount    bigint NOT NULL,                -- change of the balance
    held      bigint NOT NULL,                -- change of what is held
    job_id    text,
    made_by   text,
    made_at   {moment} NOT NULL
);
CREATE INDEX transactions_of_user ON transactions (user_id, number);
