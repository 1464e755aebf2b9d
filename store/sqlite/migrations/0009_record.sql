-- oldest: 1
-- +goose Up
-- What is recorded of a worker's call, so that a repeated one is recognised; views.

-- A digest of the call that ended a lease: of its verb, worker and body. NULL = another event.
ALTER TABLE pawl.task_events ADD COLUMN request INTEGER;

-- Views of what had none, and the messages of events as every other reader gets them.
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
  END) AS message, e.data, e.diff, (strftime('%Y-%m-%dT%H:%M:%S', e.created_at / 1000000, 'unixepoch') || printf('.%06dZ', e.created_at % 1000000)) AS created_at,
  e.task_id AS task_uuid, e.item_id AS item_uuid
FROM pawl.event_rows e;

-- Without the chunks of open messages: content is NULL until a message has ended.
CREATE VIEW pawl.v_messages AS
SELECT m.id, m.namespace, m.thread, @task_text(m.task_id) AS task_id, @item_text(m.item_id) AS item_id, m.attempt, m.role, m.state AS status, m.model,
  m.step_number, m.max_steps, m.chunks, m.bytes, m.content, m.usage, m.metadata, m.checkpoint_id,
  (strftime('%Y-%m-%dT%H:%M:%S', m.created_at / 1000000, 'unixepoch') || printf('.%06dZ', m.created_at % 1000000)) AS created_at, (SELECT strftime('%Y-%m-%dT%H:%M:%S', x.at / 1000000, 'unixepoch') || printf('.%06dZ', x.at % 1000000) FROM (SELECT COALESCE(m.ended_at, (SELECT c.created_at FROM pawl.message_chunks c WHERE c.message_id = m.id ORDER BY c.seq DESC LIMIT 1), m.created_at) AS at) x) AS updated_at, (strftime('%Y-%m-%dT%H:%M:%S', m.ended_at / 1000000, 'unixepoch') || printf('.%06dZ', m.ended_at % 1000000)) AS ended_at, m.task_id AS task_uuid, m.item_id AS item_uuid
FROM pawl.messages m;

-- Of the keys of HTTP calls, code is the stored status. The tokens of pending keys are left out.
CREATE VIEW pawl.v_idempotency_keys AS
SELECT k.namespace, k.scope, k.key_hash, k.request_hash, k.status, k.response, k.content_type, k.code, k.location,
  @task_text(k.task_id) AS task_id, @item_text(k.item_id) AS item_id, k.hits, k.misses, k.replays,
  (strftime('%Y-%m-%dT%H:%M:%S', k.created_at / 1000000, 'unixepoch') || printf('.%06dZ', k.created_at % 1000000)) AS created_at, (strftime('%Y-%m-%dT%H:%M:%S', k.completed_at / 1000000, 'unixepoch') || printf('.%06dZ', k.completed_at % 1000000)) AS completed_at, (strftime('%Y-%m-%dT%H:%M:%S', k.expires_at / 1000000, 'unixepoch') || printf('.%06dZ', k.expires_at % 1000000)) AS expires_at, (strftime('%Y-%m-%dT%H:%M:%S', k.locked_until / 1000000, 'unixepoch') || printf('.%06dZ', k.locked_until % 1000000)) AS locked_until, k.task_id AS task_uuid, k.item_id AS item_uuid
FROM pawl.idempotency_keys k;

CREATE VIEW pawl.v_provenances AS
SELECT p.id, p.namespace, @task_text(p.task_id) AS task_id, @item_text(p.item_id) AS item_id, p.attempt, p.verb, p.scope, p.idempotency_key AS idempotency_key_hash,
  p.agent_id, p.agent_name, p.agent_version, p.model, p.request_fingerprint, p.extra, 'evt_' || p.event_id AS event_id, (strftime('%Y-%m-%dT%H:%M:%S', p.created_at / 1000000, 'unixepoch') || printf('.%06dZ', p.created_at % 1000000)) AS created_at,
  p.task_id AS task_uuid, p.item_id AS item_uuid
FROM pawl.provenances p;

CREATE VIEW pawl.v_workers AS
SELECT w.namespace, w.worker_id, w.name, w.version, w.types, (strftime('%Y-%m-%dT%H:%M:%S', w.started_at / 1000000, 'unixepoch') || printf('.%06dZ', w.started_at % 1000000)) AS started_at, (strftime('%Y-%m-%dT%H:%M:%S', w.last_seen_at / 1000000, 'unixepoch') || printf('.%06dZ', w.last_seen_at % 1000000)) AS last_seen_at
FROM pawl.workers w;

-- Row 0 is the sum of the sweeps that retention has removed.
CREATE VIEW pawl.v_sweeps AS
SELECT s.id, s.server, s.scans, s.expired_found, s.recovered, s.failed, s.checkpoints_created, s.errors, s.scan_duration_ms, s.detail, (strftime('%Y-%m-%dT%H:%M:%S', s.started_at / 1000000, 'unixepoch') || printf('.%06dZ', s.started_at % 1000000)) AS started_at
FROM pawl.sweeps s;
