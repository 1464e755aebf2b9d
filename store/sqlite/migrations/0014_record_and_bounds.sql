-- oldest: 1
-- +goose Up
-- The API key that caused an event; NULL without keys.
ALTER TABLE task_events ADD COLUMN key_id TEXT;

-- A task settles again when the last item that decided about it is cancelled, and
-- an operator can end a lease. Only words are added to the lists of the checks, so
-- the schema's text is changed in place instead of copying every event.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(sql, '[escalated]', '[escalated][lease_revoked]') WHERE name = 'task_events';
UPDATE sqlite_schema SET sql = replace(sql, '[open>cancelled]', '[open>cancelled][submitted>completed][submitted>failed][submitted>dead_lettered][failed>submitted][failed>completed][dead_lettered>submitted][dead_lettered>completed][dead_lettered>failed]') WHERE name = 'task_events';
PRAGMA writable_schema = RESET;

-- What a task waits for is read from its scheduled and waiting items.
CREATE INDEX scheduled_of_task ON scheduled (task_id);
CREATE INDEX waiting_of_task ON waiting (task_id);
-- Deleted tasks: leads to the event `deleted` that stays of each.
CREATE TABLE tombstones (
  task_id     TEXT NOT NULL,
  event_id    INTEGER NOT NULL,
  namespace   TEXT NOT NULL,
  created_at  INTEGER NOT NULL,
  restored_at INTEGER,
  PRIMARY KEY (task_id, event_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX tombstones_of_namespace ON tombstones (namespace, event_id);
CREATE INDEX tombstones_by_age ON tombstones (created_at);

-- An item that waits for others is not due when its time has come.
DROP INDEX waiting_until;
CREATE INDEX waiting_until ON waiting (until) WHERE until IS NOT NULL AND needs = 0;
-- The type says that failed items do not count when the task settles.
ALTER TABLE task_live ADD COLUMN ignores_failures INTEGER NOT NULL DEFAULT 0;
-- Lists: tasks by priority, tasks and items of rare states, keys.
CREATE INDEX tasks_by_priority ON tasks (namespace, priority, id);
CREATE INDEX task_live_by_state ON task_live (state, task_id) WHERE state <> 'completed';
CREATE INDEX ends_not_completed ON ends (state, task_id) WHERE state <> 'completed';
CREATE INDEX idempotency_keys_listed ON idempotency_keys (namespace, created_at, key_hash) WHERE code IS NULL;

-- Lists are led by their namespace: what others have costs it nothing.
CREATE INDEX tasks_of_namespace ON tasks (namespace, id);
CREATE INDEX checkpoints_of_namespace ON checkpoints (namespace, id);
CREATE INDEX messages_of_namespace ON messages (namespace, id);

-- How many bytes the chunks of a message have; those of before are not counted.
ALTER TABLE messages ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
CREATE INDEX tasks_by_requester ON tasks (namespace, requested_by_id, id) WHERE requested_by_id IS NOT NULL;
CREATE INDEX tasks_by_input ON tasks (namespace, input_hash, id) WHERE input_hash IS NOT NULL;
CREATE INDEX task_events_since ON task_events (created_at);
