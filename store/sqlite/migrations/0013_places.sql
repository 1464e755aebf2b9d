-- oldest: 1
-- +goose Up
-- Where the database is known to be.

-- A copy of the database has these rows, and is at another place. kind: 'known' = a place where it may
-- act; 'asked' = a place of which a server asks whether it is the same database; 'expected' = the
-- address of a place that is admitted once; 'found' = it is a copy since then, and position and leaves
-- say how much of the feed and of the log it shares with the original; 'test' = it is a copy for tests.
-- how says what made a place known.
CREATE TABLE pawl.places (
  kind       TEXT NOT NULL CHECK (kind IN ('known', 'asked', 'expected', 'found', 'test')),
  place      TEXT NOT NULL,
  how        TEXT,
  position   INTEGER,
  leaves     INTEGER,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (kind, place)
) STRICT;
