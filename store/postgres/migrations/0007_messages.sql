-- oldest: 1
-- +goose Up
-- What a message knows while it is being made: where its step began (what lies
-- behind that when its writer is cut off stands no more), the stretches cut off
-- so (from-to-attempt, parted by spaces), and, once it has ended, whether its
-- chunks are still there. A lease knows which messages of its item were stopped.
ALTER TABLE pawl.messages ADD COLUMN step_offset bigint;
ALTER TABLE pawl.messages ADD COLUMN cuts text;
ALTER TABLE pawl.messages ADD COLUMN replayable smallint;
CREATE INDEX messages_replayable ON pawl.messages (ended_at) WHERE replayable = 1;
ALTER TABLE pawl.leases ADD COLUMN stopped text;
