-- oldest: 1
-- +goose Up
-- What a message knows while it is being made: where its step began (what lies
-- behind that when its writer is cut off stands no more), the stretches cut off
-- so (from-to-attempt, parted by spaces), and, once it has ended, whether its
-- chunks are still there. A lease knows which messages of its item were stopped.
ALTER TABLE messages ADD COLUMN step_offset INTEGER;
ALTER TABLE messages ADD COLUMN cuts TEXT;
ALTER TABLE messages ADD COLUMN replayable INTEGER;
CREATE INDEX messages_replayable ON messages (ended_at) WHERE replayable = 1;
ALTER TABLE leases ADD COLUMN stopped TEXT;
