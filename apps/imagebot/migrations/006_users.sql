CREATE TABLE users (
    user_id  bigint PRIMARY KEY,
    chat_id  bigint NOT NULL,
    language text NOT NULL,
    made_at  {moment} NOT NULL
);
