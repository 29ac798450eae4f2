-- What each instance says of itself, for people; who leads is decided by the lease.
CREATE TABLE lock_heartbeat (
    instance     text PRIMARY KEY,
    role         text NOT NULL,
    epoch        bigint,
    heartbeat_at {moment} NOT NULL
);
