-- oldest: 1
-- +goose Up
-- What a task of many items needs that it may not cost more the more it has.

-- Positions handed out to items, which may not be in yet: whoever adds items
-- takes theirs first, and the row is locked only when they are in. Where it is
-- less than items, nobody has added any.
ALTER TABLE task_live ADD COLUMN positions INTEGER NOT NULL DEFAULT 0;

-- How often a task's items have failed, and what with: few rows, if any.
CREATE INDEX ready_failures ON ready (task_id) WHERE failures > 0;
CREATE INDEX scheduled_failures ON scheduled (task_id) WHERE failures > 0;
CREATE INDEX waiting_failures ON waiting (task_id) WHERE failures > 0;
CREATE INDEX leases_failures ON leases (task_id) WHERE failures > 0;
CREATE INDEX rests_failures ON rests (task_id) WHERE failures > 0;
CREATE INDEX ends_failures ON ends (task_id) WHERE failures > 0;
CREATE INDEX rests_errors ON rests (task_id, since) WHERE error IS NOT NULL;
