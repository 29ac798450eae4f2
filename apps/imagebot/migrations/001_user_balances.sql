-- Money in hundredths of the currency: what a user can spend, and what is held for orders under way.
CREATE TABLE user_balances (
    user_id  bigint PRIMARY KEY,
    balance  bigint NOT NULL CHECK (balance >= 0),
    held     bigint NOT NULL CHECK (held >= 0),
    currency text NOT NULL
);
