-- oldest: 1
-- +goose Up
-- Effects: calls to the outside that change something there.

-- A call to the outside that changes something there: a row before it is a request. sender says who
-- sends it: the attempt, whose lease it has, or a gate with a lease of its own until sent_until.
-- copied = 1: it stands in a fork or clone for an effect of the original, which source names. gone = 1:
-- its task is not there any more, and the row is kept for its key. approval: 0 = none is
-- needed, 1 = asked for, 2 = given, 3 = refused. senders: the claims that opened it, as JSON.
CREATE TABLE pawl.effects (
  id           TEXT PRIMARY KEY,
  namespace    TEXT NOT NULL,
  key          TEXT NOT NULL,
  name         TEXT NOT NULL,
  task_id      BLOB NOT NULL,
  item_id      BLOB NOT NULL,
  request_hash TEXT NOT NULL,
  state        TEXT NOT NULL CHECK (state IN ('waiting', 'open', 'done', 'failed', 'unknown')),
  repeatable   INTEGER NOT NULL,
  sender       TEXT NOT NULL CHECK (sender IN ('attempt', 'gate')),
  worker_id    TEXT NOT NULL,
  attempt      INTEGER NOT NULL,
  key_id       TEXT,
  sent_until   INTEGER,
  sendings     INTEGER NOT NULL,
  senders      TEXT NOT NULL,
  approval     INTEGER NOT NULL DEFAULT 0,
  decided_by   TEXT,
  budget       TEXT,
  amount       INTEGER,
  reservation  TEXT,
  outcome      TEXT CHECK (outcome IN ('happened', 'did_not_happen', 'give_up')),
  comment      TEXT,
  answer       TEXT,
  answer_hash  TEXT,
  error        TEXT,
  late         INTEGER NOT NULL DEFAULT 0,
  contradicts  INTEGER NOT NULL DEFAULT 0,
  late_report  TEXT,
  copied       INTEGER NOT NULL DEFAULT 0,
  source       TEXT,
  gone         INTEGER NOT NULL DEFAULT 0,
  opened_at    INTEGER,
  ended_at     INTEGER,
  created_at   INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX pawl.effects_by_key ON pawl.effects (namespace, key) WHERE copied = 0;
CREATE UNIQUE INDEX pawl.effects_by_copied_key ON pawl.effects (item_id, key) WHERE copied = 1;
CREATE INDEX pawl.effects_of_item ON pawl.effects (item_id, id);
CREATE INDEX pawl.effects_of_task ON pawl.effects (task_id, id);
CREATE INDEX pawl.effects_by_state ON pawl.effects (namespace, state, id);
CREATE INDEX pawl.effects_open ON pawl.effects (sent_until) WHERE state = 'open';
CREATE INDEX pawl.effects_gone ON pawl.effects (created_at) WHERE gone = 1;

-- How many effects of the lease's attempt are open.
ALTER TABLE pawl.leases ADD COLUMN effects INTEGER NOT NULL DEFAULT 0;

-- The view of migration 9 with the words of the new events.
DROP VIEW pawl.v_events;
CREATE VIEW pawl.v_events AS
SELECT 'evt_' || e.id AS id, e.namespace, @task_text(e.task_id) AS task_id, @item_text(e.item_id) AS item_id, e.attempt, e.event, e.from_state, e.to_state, e.task_from, e.task_to,
  (SELECT a.kind FROM pawl.actors a WHERE a.id = e.actor) AS actor_type, (SELECT NULLIF(a.name, '') FROM pawl.actors a WHERE a.id = e.actor) AS actor_id, COALESCE(e.message, CASE e.event
    WHEN 'proposed' THEN 'Task proposed'
    WHEN 'planned' THEN 'Work item planned'
    WHEN 'due' THEN 'Work item due'
    WHEN 'ready' THEN 'Work item ready'
    WHEN 'leased' THEN 'Work item leased'
    WHEN 'in_progress' THEN 'Work item in progress'
    WHEN 'progressed' THEN 'Progress reported'
    WHEN 'checkpointed' THEN 'Checkpoint saved'
    WHEN 'pruned' THEN 'Checkpoints removed by rule'
    WHEN 'submitted' THEN 'Work item submitted'
    WHEN 'part_submitted' THEN 'Part submitted'
    WHEN 'part_rejected' THEN 'Part rejected'
    WHEN 'ready_for_approval' THEN 'Task ready for approval'
    WHEN 'accepted' THEN 'Work item accepted'
    WHEN 'completed' THEN 'Completed'
    WHEN 'failed' THEN 'Failed'
    WHEN 'released' THEN 'Lease released'
    WHEN 'lease_expired' THEN 'Lease expired'
    WHEN 'suspended' THEN 'Work item suspended'
    WHEN 'approved' THEN 'Task approved'
    WHEN 'applied' THEN 'Task applied'
    WHEN 'rejected' THEN 'Rejected'
    WHEN 'retried' THEN 'Retried'
    WHEN 'dead_lettered' THEN 'Dead-lettered'
    WHEN 'cancelled' THEN 'Cancelled'
    WHEN 'updated' THEN 'Task updated'
    WHEN 'stale' THEN 'Task is stale'
    WHEN 'deleted' THEN 'Task deleted'
    WHEN 'message_started' THEN 'Message started'
    WHEN 'message_ended' THEN 'Message ended'
    WHEN 'signalled' THEN 'Signal received'
    WHEN 'fired' THEN 'Schedule fired'
    WHEN 'approval_expired' THEN 'Approval expired'
    WHEN 'escalated' THEN 'Approval escalated'
    WHEN 'lease_revoked' THEN 'Lease revoked'
    WHEN 'effect_opened' THEN 'Effect opened'
    WHEN 'effect_done' THEN 'Effect done'
    WHEN 'effect_failed' THEN 'Effect failed'
    WHEN 'effect_unknown' THEN 'Effect unknown'
    WHEN 'effect_resolved' THEN 'Effect resolved'
  END) AS message, e.data, e.diff, (strftime('%Y-%m-%dT%H:%M:%S', e.created_at / 1000000, 'unixepoch') || printf('.%06dZ', e.created_at % 1000000)) AS created_at,
  e.task_id AS task_uuid, e.item_id AS item_uuid
FROM pawl.event_rows e;

-- generated: the codes of events
INSERT INTO pawl.moves (code, class, event, from_state, to_state, task_from, task_to)
VALUES
  (152, 'item', 'effect_opened', NULL, NULL, NULL, NULL),
  (153, 'only', 'effect_opened', NULL, NULL, NULL, NULL),
  (154, 'item', 'effect_done', NULL, NULL, NULL, NULL),
  (155, 'only', 'effect_done', NULL, NULL, NULL, NULL),
  (156, 'item', 'effect_failed', NULL, NULL, NULL, NULL),
  (157, 'only', 'effect_failed', NULL, NULL, NULL, NULL),
  (158, 'item', 'effect_unknown', NULL, NULL, NULL, NULL),
  (159, 'only', 'effect_unknown', NULL, NULL, NULL, NULL),
  (160, 'item', 'effect_resolved', NULL, NULL, NULL, NULL),
  (161, 'only', 'effect_resolved', NULL, NULL, NULL, NULL);
-- end of what is generated
PRAGMA writable_schema = ON;
UPDATE sqlite_schema
SET sql = replace(sql, 'CHECK (move' || ' BETWEEN 1 AND 151)', 'CHECK (move BETWEEN 1 AND 161)')
WHERE type = 'table' AND name = 'pawl.task_events';
PRAGMA writable_schema = RESET;
