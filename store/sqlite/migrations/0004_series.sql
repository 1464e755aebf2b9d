-- oldest: 1
-- +goose Up
-- Counters of queues, minute by minute.

-- The queue of the item, and when the state that the event ends began: of a claim, when the
-- item was queued, of the end of an attempt, when it was claimed. queue_id is NULL in the rarer
-- events and in those of older programs: then the item or task says it. since is NULL when
-- the item was queued on creation.
ALTER TABLE pawl.task_events ADD COLUMN queue_id INTEGER;
ALTER TABLE pawl.task_events ADD COLUMN since INTEGER;

-- What happened in a queue in a minute, of which minute is the number since 1970. queued, leased,
-- waiting and scheduled are the backlog at its end, NULL = not counted. wait_us and run_us are
-- sums in microseconds; wait_0 … and run_0 … are the buckets of pawl.TimingBounds.
CREATE TABLE pawl.queue_minutes (
  queue_id      INTEGER NOT NULL,
  minute        INTEGER NOT NULL,
  namespace     TEXT NOT NULL,
  created       INTEGER NOT NULL DEFAULT 0,
  claimed       INTEGER NOT NULL DEFAULT 0,
  completed     INTEGER NOT NULL DEFAULT 0,
  failed        INTEGER NOT NULL DEFAULT 0,
  expired       INTEGER NOT NULL DEFAULT 0,
  retried       INTEGER NOT NULL DEFAULT 0,
  cancelled     INTEGER NOT NULL DEFAULT 0,
  dead_lettered INTEGER NOT NULL DEFAULT 0,
  queued        INTEGER,
  leased        INTEGER,
  waiting       INTEGER,
  scheduled     INTEGER,
  wait_us       INTEGER NOT NULL DEFAULT 0,
  wait_0        INTEGER NOT NULL DEFAULT 0,
  wait_1        INTEGER NOT NULL DEFAULT 0,
  wait_2        INTEGER NOT NULL DEFAULT 0,
  wait_3        INTEGER NOT NULL DEFAULT 0,
  wait_4        INTEGER NOT NULL DEFAULT 0,
  wait_5        INTEGER NOT NULL DEFAULT 0,
  wait_6        INTEGER NOT NULL DEFAULT 0,
  wait_7        INTEGER NOT NULL DEFAULT 0,
  wait_8        INTEGER NOT NULL DEFAULT 0,
  wait_9        INTEGER NOT NULL DEFAULT 0,
  wait_10       INTEGER NOT NULL DEFAULT 0,
  wait_11       INTEGER NOT NULL DEFAULT 0,
  run_us        INTEGER NOT NULL DEFAULT 0,
  run_0         INTEGER NOT NULL DEFAULT 0,
  run_1         INTEGER NOT NULL DEFAULT 0,
  run_2         INTEGER NOT NULL DEFAULT 0,
  run_3         INTEGER NOT NULL DEFAULT 0,
  run_4         INTEGER NOT NULL DEFAULT 0,
  run_5         INTEGER NOT NULL DEFAULT 0,
  run_6         INTEGER NOT NULL DEFAULT 0,
  run_7         INTEGER NOT NULL DEFAULT 0,
  run_8         INTEGER NOT NULL DEFAULT 0,
  run_9         INTEGER NOT NULL DEFAULT 0,
  run_10        INTEGER NOT NULL DEFAULT 0,
  run_11        INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (queue_id, minute)
) STRICT, WITHOUT ROWID;
CREATE INDEX pawl.queue_minutes_by_age ON pawl.queue_minutes (minute);
