-- oldest: 1
-- +goose Up
-- Archives of many tasks together.

-- A segment has the archives of tasks of one namespace, in frames that are read each by itself. low and
-- high are the first and the last task. contents has the sizes and checksums of the frames, and the ids of
-- the tasks: see store/segment.go. A task that is in several is read from the newest. Where archives has a
-- row of a task without path and body, the task is in a segment and was restored from it.
CREATE TABLE pawl.segments (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  namespace  TEXT NOT NULL,
  low        BLOB NOT NULL,
  high       BLOB NOT NULL,
  contents   BLOB NOT NULL,
  path       TEXT,
  body       BLOB,
  bytes      INTEGER NOT NULL,
  sha256     TEXT NOT NULL,
  created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX pawl.segments_of_task ON pawl.segments (namespace, high, low);
