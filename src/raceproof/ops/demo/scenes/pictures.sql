-- Callback against poller: the same finished pictures in two tables, and what the receiver got.

CREATE TABLE pictures (
    picture_id    TEXT PRIMARY KEY,
    delivering_at TEXT,
    delivered_at  TEXT
);

CREATE TABLE pictures_unguarded (
    picture_id   TEXT PRIMARY KEY,
    delivered_at TEXT
);

-- What arrived. It cannot be taken back.
CREATE TABLE sent (
    id         INTEGER PRIMARY KEY,
    side       TEXT NOT NULL,
    picture_id TEXT NOT NULL,
    sender     TEXT NOT NULL
);

CREATE INDEX sent_of_picture ON sent (side, picture_id);

-- Who found that the picture was somebody else's to send, or could not be sent just now.
CREATE TABLE left_alone (
    id         INTEGER PRIMARY KEY,
    side       TEXT NOT NULL,
    picture_id TEXT NOT NULL,
    sender     TEXT NOT NULL,
    why        TEXT NOT NULL
);

CREATE VIEW items AS
SELECT 'raceproof' AS side, picture_id AS key FROM pictures
UNION ALL
SELECT 'unguarded', picture_id FROM pictures_unguarded;

CREATE VIEW wrong AS
SELECT id, side, picture_id AS key, sender AS actor, 'sent it again' AS what
FROM sent
WHERE EXISTS (SELECT 1 FROM sent AS earlier
              WHERE earlier.side = sent.side AND earlier.picture_id = sent.picture_id AND earlier.id < sent.id);

CREATE VIEW refused AS
SELECT id, picture_id AS key, sender AS actor, why AS what
FROM left_alone
WHERE side = 'raceproof' AND why <> 'not sent';
