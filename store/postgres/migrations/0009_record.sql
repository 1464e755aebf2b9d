-- oldest: 1
-- +goose Up
-- What is recorded of a worker's call, so that a repeated one is recognised; views.

-- A digest of the call that ended a lease: of its verb, worker and body. NULL = another event.
ALTER TABLE pawl.task_events ADD COLUMN request bigint;

-- Views of what had none, and the messages of events as every other reader gets them. Values that
-- are JSON are json on PostgreSQL: as jsonb, one stored \u0000 would make a whole query fail.
DROP VIEW pawl.v_items;
DROP VIEW pawl.v_tasks;
DROP VIEW pawl.v_parts;
DROP VIEW pawl.v_task_results;
DROP VIEW pawl.v_events;
DROP VIEW pawl.v_checkpoints;

CREATE VIEW pawl.v_items AS
SELECT @item_text(i.id) AS id, i.namespace, @task_text(i.task_id) AS task_id, i.type, i.kind, i.position, i.key, i.state,
  CASE
    WHEN i.state IN ('leased', 'in_progress') AND i.lease_expires_at <= pawl.now() THEN 'expired'
    WHEN i.state IN ('queued', 'scheduled', 'waiting') THEN 'pending'
    WHEN i.state IN ('leased', 'in_progress', 'submitted', 'accepted') THEN 'in_progress'
    WHEN i.state IN ('failed', 'rejected', 'dead_lettered') THEN 'failed'
    ELSE i.state
  END AS status,
  i.priority, i.attempt, i.failures, i.max_attempts, i.rework, i.worker_id, i.last_worker_id, i.lease_seconds,
  pawl.stamp(i.lease_acquired_at) AS lease_acquired_at, pawl.stamp(i.lease_expires_at) AS lease_expires_at, pawl.stamp(i.heartbeat_at) AS heartbeat_at,
  i.progress, i.stage, i.input::json AS input, i.result::json AS result, i.assembled_result::json AS assembled_result, i.parts_required::json AS parts_required, i.error::json AS error, i.after::json AS after,
  pawl.stamp(i.run_at) AS run_at, pawl.stamp(i.created_at) AS created_at, pawl.stamp(i.started_at) AS started_at, pawl.stamp(i.accepted_at) AS accepted_at,
  pawl.stamp(i.completed_at) AS completed_at, pawl.stamp(i.updated_at) AS updated_at, i.id AS uuid, i.task_id AS task_uuid,
  pawl.stamp(i.deadline) AS deadline
FROM pawl.item_rows i;

CREATE VIEW pawl.v_tasks AS
SELECT @task_text(t.id) AS id, t.namespace, t.type, t.type_version, t.state,
  CASE
    WHEN t.state = 'queued' THEN 'pending'
    WHEN t.state IN ('checked_out', 'in_progress', 'submitted', 'approved', 'applied') THEN 'in_progress'
    WHEN t.state IN ('failed', 'rejected', 'dead_lettered') THEN 'failed'
    ELSE t.state
  END AS status,
  t.title, COALESCE(t.stage, t.state) AS stage, t.priority, t.payload::json AS payload, t.metadata::json AS metadata, t.requested_by_type, t.requested_by_id, t.input_hash, t.thread,
  t.items, t.open, t.failed, t.dead, t.cancelled, t.checkpoints,
  CASE WHEN t.state = 'completed' THEN 100 WHEN t.solo = 1 THEN COALESCE(t.progress, 0) WHEN t.items = 0 THEN 0 ELSE LEAST(99, 100 * (t.items - t.open) / t.items) END AS progress,
  t.error::json AS error, COALESCE(t.retry_count, COALESCE((SELECT SUM(x.failures) FROM pawl.leases x WHERE x.task_id = t.id AND x.failures > 0), 0)
    + COALESCE((SELECT SUM(x.failures) FROM pawl.finished_items x WHERE x.task_id = t.id AND x.failures > 0), 0)
    + COALESCE((SELECT SUM(x.failures) FROM pawl.ready x WHERE x.task_id = t.id AND x.failures > 0), 0)
    + COALESCE((SELECT SUM(x.failures) FROM pawl.scheduled x WHERE x.task_id = t.id AND x.failures > 0), 0)
    + COALESCE((SELECT SUM(x.failures) FROM pawl.waiting x WHERE x.task_id = t.id AND x.failures > 0), 0)
    + COALESCE((SELECT SUM(x.failures) FROM pawl.parked_items x WHERE x.task_id = t.id AND x.failures > 0), 0)) AS retry_count,
  t.failed_in, t.version,
  pawl.stamp(t.created_at) AS created_at,
  pawl.stamp(COALESCE((SELECT e.created_at FROM pawl.task_events e WHERE e.task_id = t.id ORDER BY e.id DESC LIMIT 1), t.created_at)) AS updated_at,
  pawl.stamp(COALESCE((SELECT e.created_at FROM pawl.event_rows e WHERE e.task_id = t.id AND e.to_state IS NOT NULL ORDER BY e.id DESC LIMIT 1), t.created_at)) AS last_transitioned_at,
  pawl.stamp(t.applied_at) AS applied_at, pawl.stamp(t.completed_at) AS completed_at, t.id AS uuid,
  pawl.stamp(t.deadline) AS deadline, t.start_to_close AS start_to_close_seconds, t.schedule_to_start AS schedule_to_start_seconds,
  @task_text(t.parent_id) AS parent_id, t.parent_id AS parent_uuid, @task_text(t.forked_from) AS forked_from, t.forked_from AS forked_from_uuid, t.forked_at, t.schedule
FROM pawl.task_rows t;

CREATE VIEW pawl.v_parts AS
SELECT p.id, p.namespace, @item_text(p.item_id) AS item_id, p.part_key, p.seq, p.status, p.payload::json AS payload, p.evidence::json AS evidence, p.notes, p.errors::json AS errors, p.checksum,
  p.worker_id, p.attempt, p.idempotency_key_hash, pawl.stamp(p.created_at) AS created_at,
  pawl.stamp(COALESCE(p.superseded_at, p.created_at)) AS updated_at, pawl.stamp(p.superseded_at) AS superseded_at, p.item_id AS item_uuid
FROM pawl.item_parts p;

CREATE VIEW pawl.v_task_results AS
SELECT @task_text(e.task_id) AS task_id, t.namespace, e.result::json AS payload, pawl.stamp(e.ended_at) AS created_at, e.task_id AS task_uuid
FROM pawl.finished_items e JOIN pawl.tasks t ON t.id = e.task_id AND t.solo = 1
WHERE e.state = @state(completed)
UNION ALL
SELECT @task_text(r.task_id) AS task_id, r.namespace, r.payload::json, pawl.stamp(r.created_at), r.task_id
FROM pawl.task_results r;

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
  END) AS message, e.data::json AS data, e.diff::json AS diff, pawl.stamp(e.created_at) AS created_at,
  e.task_id AS task_uuid, e.item_id AS item_uuid
FROM pawl.event_rows e;

CREATE VIEW pawl.v_checkpoints AS
SELECT c.id, @task_text(c.task_id) AS task_id, @item_text(c.item_id) AS item_id, c.namespace, c.attempt, c.seq, c.type, c.name, c.snapshot::json AS snapshot, c.metadata::json AS metadata, pawl.stamp(c.created_at) AS created_at,
  c.task_id AS task_uuid, c.item_id AS item_uuid
FROM pawl.checkpoints c;

-- Without the chunks of open messages: content is NULL until a message has ended.
CREATE VIEW pawl.v_messages AS
SELECT m.id, m.namespace, m.thread, @task_text(m.task_id) AS task_id, @item_text(m.item_id) AS item_id, m.attempt, m.role, m.state AS status, m.model,
  m.step_number, m.max_steps, m.chunks, m.bytes, m.content::json AS content, m.usage::json AS usage, m.metadata::json AS metadata, m.checkpoint_id,
  pawl.stamp(m.created_at) AS created_at, pawl.stamp(COALESCE(m.ended_at, (SELECT c.created_at FROM pawl.message_chunks c WHERE c.message_id = m.id ORDER BY c.seq DESC LIMIT 1), m.created_at)) AS updated_at, pawl.stamp(m.ended_at) AS ended_at, m.task_id AS task_uuid, m.item_id AS item_uuid
FROM pawl.messages m;

-- Of the keys of HTTP calls, code is the stored status. The tokens of pending keys are left out.
CREATE VIEW pawl.v_idempotency_keys AS
SELECT k.namespace, k.scope, k.key_hash, k.request_hash, k.status, k.response, k.content_type, k.code, k.location,
  @task_text(k.task_id) AS task_id, @item_text(k.item_id) AS item_id, k.hits, k.misses, k.replays,
  pawl.stamp(k.created_at) AS created_at, pawl.stamp(k.completed_at) AS completed_at, pawl.stamp(k.expires_at) AS expires_at, pawl.stamp(k.locked_until) AS locked_until, k.task_id AS task_uuid, k.item_id AS item_uuid
FROM pawl.idempotency_keys k;

CREATE VIEW pawl.v_provenances AS
SELECT p.id, p.namespace, @task_text(p.task_id) AS task_id, @item_text(p.item_id) AS item_id, p.attempt, p.verb, p.scope, p.idempotency_key AS idempotency_key_hash,
  p.agent_id, p.agent_name, p.agent_version, p.model, p.request_fingerprint, p.extra::json AS extra, 'evt_' || p.event_id AS event_id, pawl.stamp(p.created_at) AS created_at,
  p.task_id AS task_uuid, p.item_id AS item_uuid
FROM pawl.provenances p;

CREATE VIEW pawl.v_workers AS
SELECT w.namespace, w.worker_id, w.name, w.version, w.types::json AS types, pawl.stamp(w.started_at) AS started_at, pawl.stamp(w.last_seen_at) AS last_seen_at
FROM pawl.workers w;

-- Row 0 is the sum of the sweeps that retention has removed.
CREATE VIEW pawl.v_sweeps AS
SELECT s.id, s.server, s.scans, s.expired_found, s.recovered, s.failed, s.checkpoints_created, s.errors, s.scan_duration_ms, s.detail::json AS detail, pawl.stamp(s.started_at) AS started_at
FROM pawl.sweeps s;
