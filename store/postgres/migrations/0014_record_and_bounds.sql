-- oldest: 1
-- +goose Up
-- The API key that caused an event; NULL without keys.
ALTER TABLE pawl.task_events ADD COLUMN key_id text COLLATE "C";

-- A task settles again when the last item that decided about it is cancelled, and
-- an operator can end a lease.
ALTER DOMAIN pawl.event_name DROP CONSTRAINT event_name_check;
ALTER DOMAIN pawl.event_name ADD CONSTRAINT event_name_check CHECK (VALUE IN (
  'proposed', 'planned', 'due', 'ready', 'leased', 'in_progress', 'progressed', 'checkpointed', 'submitted',
  'part_submitted', 'part_rejected', 'ready_for_approval', 'accepted', 'completed', 'failed', 'released',
  'lease_expired', 'suspended', 'approved', 'applied', 'rejected', 'retried', 'dead_lettered', 'cancelled',
  'updated', 'stale', 'deleted', 'message_started', 'message_ended', 'signalled', 'fired', 'approval_expired',
  'escalated', 'lease_revoked'));
ALTER DOMAIN pawl.task_move DROP CONSTRAINT task_move_check;
ALTER DOMAIN pawl.task_move ADD CONSTRAINT task_move_check CHECK (VALUE IN (
  '>', '>open', 'open>submitted', 'open>completed', 'open>failed', 'open>dead_lettered', 'open>cancelled',
  'submitted>completed', 'submitted>failed', 'submitted>dead_lettered', 'failed>submitted', 'failed>completed',
  'dead_lettered>submitted', 'dead_lettered>completed', 'dead_lettered>failed',
  'submitted>approved', 'submitted>rejected', 'submitted>open', 'approved>applied', 'approved>failed',
  'applied>completed', 'failed>open', 'failed>approved', 'dead_lettered>open', 'dead_lettered>approved',
  'failed>dead_lettered', 'submitted>cancelled', 'approved>cancelled', 'applied>cancelled', 'failed>cancelled',
  'dead_lettered>cancelled'));

-- What a task waits for is read from its scheduled and waiting items.
CREATE INDEX scheduled_of_task ON pawl.scheduled (task_id);
CREATE INDEX waiting_of_task ON pawl.waiting (task_id);
-- Deleted tasks: leads to the event `deleted` that stays of each.
CREATE TABLE pawl.tombstones (
  task_id     text COLLATE "C" NOT NULL,
  event_id    bigint NOT NULL,
  namespace   text COLLATE "C" NOT NULL,
  created_at  bigint NOT NULL,
  restored_at bigint,
  PRIMARY KEY (task_id, event_id)
);
CREATE INDEX tombstones_of_namespace ON pawl.tombstones (namespace, event_id);
CREATE INDEX tombstones_by_age ON pawl.tombstones (created_at);

-- An item that waits for others is not due when its time has come.
DROP INDEX pawl.waiting_until;
CREATE INDEX waiting_until ON pawl.waiting (until) WHERE until IS NOT NULL AND needs = 0;
-- The type says that failed items do not count when the task settles.
ALTER TABLE pawl.task_live ADD COLUMN ignores_failures smallint NOT NULL DEFAULT 0;
-- Lists: tasks by priority, tasks and items of rare states, tasks until a time, keys.
CREATE INDEX tasks_by_priority ON pawl.tasks (namespace, priority, id);
CREATE INDEX tasks_by_time ON pawl.tasks USING brin (created_at);
CREATE INDEX task_live_by_state ON pawl.task_live (state, task_id) WHERE state <> 'completed';
CREATE INDEX ends_not_completed ON pawl.ends (state, task_id) WHERE state <> 'completed';
CREATE INDEX idempotency_keys_listed ON pawl.idempotency_keys (namespace, created_at, key_hash) WHERE code IS NULL;

-- Lists are led by their namespace: what others have costs it nothing.
CREATE INDEX tasks_of_namespace ON pawl.tasks (namespace, id);
CREATE INDEX checkpoints_of_namespace ON pawl.checkpoints (namespace, id);
CREATE INDEX messages_of_namespace ON pawl.messages (namespace, id);

-- How many bytes the chunks of a message have; those of before are not counted.
ALTER TABLE pawl.messages ADD COLUMN bytes bigint NOT NULL DEFAULT 0;
CREATE INDEX tasks_by_requester ON pawl.tasks (namespace, requested_by_id, id) WHERE requested_by_id IS NOT NULL;
CREATE INDEX tasks_by_input ON pawl.tasks (namespace, input_hash, id) WHERE input_hash IS NOT NULL;
