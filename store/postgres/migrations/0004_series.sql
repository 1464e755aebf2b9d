-- oldest: 1
-- +goose Up
-- Counters of queues, minute by minute.

-- The queue of the item, and when the state that the event ends began: of a claim, when the
-- item was queued, of the end of an attempt, when it was claimed. queue_id is NULL in the rarer
-- events and in those of older programs: then the item or task says it. since is NULL when
-- the item was queued on creation.
ALTER TABLE pawl.task_events
  ADD COLUMN queue_id integer,
  ADD COLUMN since bigint;

-- What happened in a queue in a minute, of which minute is the number since 1970. queued, leased,
-- waiting and scheduled are the backlog at its end, NULL = not counted. wait_us and run_us are
-- sums in microseconds; wait_0 … and run_0 … are the buckets of pawl.TimingBounds.
CREATE TABLE pawl.queue_minutes (
  queue_id      integer NOT NULL,
  minute        integer NOT NULL,
  namespace     text COLLATE "C" NOT NULL,
  created       bigint NOT NULL DEFAULT 0,
  claimed       bigint NOT NULL DEFAULT 0,
  completed     bigint NOT NULL DEFAULT 0,
  failed        bigint NOT NULL DEFAULT 0,
  expired       bigint NOT NULL DEFAULT 0,
  retried       bigint NOT NULL DEFAULT 0,
  cancelled     bigint NOT NULL DEFAULT 0,
  dead_lettered bigint NOT NULL DEFAULT 0,
  queued        bigint,
  leased        bigint,
  waiting       bigint,
  scheduled     bigint,
  wait_us       bigint NOT NULL DEFAULT 0,
  wait_0        bigint NOT NULL DEFAULT 0,
  wait_1        bigint NOT NULL DEFAULT 0,
  wait_2        bigint NOT NULL DEFAULT 0,
  wait_3        bigint NOT NULL DEFAULT 0,
  wait_4        bigint NOT NULL DEFAULT 0,
  wait_5        bigint NOT NULL DEFAULT 0,
  wait_6        bigint NOT NULL DEFAULT 0,
  wait_7        bigint NOT NULL DEFAULT 0,
  wait_8        bigint NOT NULL DEFAULT 0,
  wait_9        bigint NOT NULL DEFAULT 0,
  wait_10       bigint NOT NULL DEFAULT 0,
  wait_11       bigint NOT NULL DEFAULT 0,
  run_us        bigint NOT NULL DEFAULT 0,
  run_0         bigint NOT NULL DEFAULT 0,
  run_1         bigint NOT NULL DEFAULT 0,
  run_2         bigint NOT NULL DEFAULT 0,
  run_3         bigint NOT NULL DEFAULT 0,
  run_4         bigint NOT NULL DEFAULT 0,
  run_5         bigint NOT NULL DEFAULT 0,
  run_6         bigint NOT NULL DEFAULT 0,
  run_7         bigint NOT NULL DEFAULT 0,
  run_8         bigint NOT NULL DEFAULT 0,
  run_9         bigint NOT NULL DEFAULT 0,
  run_10        bigint NOT NULL DEFAULT 0,
  run_11        bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (queue_id, minute)
) WITH (fillfactor = 50);
CREATE INDEX queue_minutes_by_age ON pawl.queue_minutes (minute);
