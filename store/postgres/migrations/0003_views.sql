-- oldest: 1
-- +goose Up
-- The views show deadlines, timeouts, parents, forks and schedules.

CREATE OR REPLACE VIEW pawl.v_items AS
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
  i.progress, i.stage, i.input, i.result, i.assembled_result, i.parts_required, i.error, i.after,
  pawl.stamp(i.run_at) AS run_at, pawl.stamp(i.created_at) AS created_at, pawl.stamp(i.started_at) AS started_at, pawl.stamp(i.accepted_at) AS accepted_at,
  pawl.stamp(i.completed_at) AS completed_at, pawl.stamp(i.updated_at) AS updated_at, i.id AS uuid, i.task_id AS task_uuid,
  pawl.stamp(i.deadline) AS deadline
FROM pawl.item_rows i;

CREATE OR REPLACE VIEW pawl.v_tasks AS
SELECT @task_text(t.id) AS id, t.namespace, t.type, t.type_version, t.state,
  CASE
    WHEN t.state = 'queued' THEN 'pending'
    WHEN t.state IN ('checked_out', 'in_progress', 'submitted', 'approved', 'applied') THEN 'in_progress'
    WHEN t.state IN ('failed', 'rejected', 'dead_lettered') THEN 'failed'
    ELSE t.state
  END AS status,
  t.title, COALESCE(t.stage, t.state) AS stage, t.priority, t.payload, t.metadata, t.requested_by_type, t.requested_by_id, t.input_hash, t.thread,
  t.items, t.open, t.failed, t.dead, t.cancelled, t.checkpoints,
  CASE WHEN t.state = 'completed' THEN 100 WHEN t.solo = 1 THEN COALESCE(t.progress, 0) WHEN t.items = 0 THEN 0 ELSE LEAST(99, 100 * (t.items - t.open) / t.items) END AS progress,
  t.error, COALESCE(t.retry_count, COALESCE((SELECT SUM(x.failures) FROM pawl.leases x WHERE x.task_id = t.id AND x.failures > 0), 0)
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
