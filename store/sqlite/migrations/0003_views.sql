-- oldest: 1
-- +goose Up
-- The views show deadlines, timeouts, parents, forks and schedules.

DROP VIEW pawl.v_items;
CREATE VIEW pawl.v_items AS
SELECT @item_text(i.id) AS id, i.namespace, @task_text(i.task_id) AS task_id, i.type, i.kind, i.position, i.key, i.state,
  CASE
    WHEN i.state IN ('leased', 'in_progress') AND i.lease_expires_at <= CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER) THEN 'expired'
    WHEN i.state IN ('queued', 'scheduled', 'waiting') THEN 'pending'
    WHEN i.state IN ('leased', 'in_progress', 'submitted', 'accepted') THEN 'in_progress'
    WHEN i.state IN ('failed', 'rejected', 'dead_lettered') THEN 'failed'
    ELSE i.state
  END AS status,
  i.priority, i.attempt, i.failures, i.max_attempts, i.rework, i.worker_id, i.last_worker_id, i.lease_seconds,
  (strftime('%Y-%m-%dT%H:%M:%S', i.lease_acquired_at / 1000000, 'unixepoch') || printf('.%06dZ', i.lease_acquired_at % 1000000)) AS lease_acquired_at, (strftime('%Y-%m-%dT%H:%M:%S', i.lease_expires_at / 1000000, 'unixepoch') || printf('.%06dZ', i.lease_expires_at % 1000000)) AS lease_expires_at, (strftime('%Y-%m-%dT%H:%M:%S', i.heartbeat_at / 1000000, 'unixepoch') || printf('.%06dZ', i.heartbeat_at % 1000000)) AS heartbeat_at,
  i.progress, i.stage, i.input, i.result, i.assembled_result, i.parts_required, i.error, i.after,
  (strftime('%Y-%m-%dT%H:%M:%S', i.run_at / 1000000, 'unixepoch') || printf('.%06dZ', i.run_at % 1000000)) AS run_at, (strftime('%Y-%m-%dT%H:%M:%S', i.created_at / 1000000, 'unixepoch') || printf('.%06dZ', i.created_at % 1000000)) AS created_at, (strftime('%Y-%m-%dT%H:%M:%S', i.started_at / 1000000, 'unixepoch') || printf('.%06dZ', i.started_at % 1000000)) AS started_at, (strftime('%Y-%m-%dT%H:%M:%S', i.accepted_at / 1000000, 'unixepoch') || printf('.%06dZ', i.accepted_at % 1000000)) AS accepted_at,
  (strftime('%Y-%m-%dT%H:%M:%S', i.completed_at / 1000000, 'unixepoch') || printf('.%06dZ', i.completed_at % 1000000)) AS completed_at, (strftime('%Y-%m-%dT%H:%M:%S', i.updated_at / 1000000, 'unixepoch') || printf('.%06dZ', i.updated_at % 1000000)) AS updated_at, i.id AS uuid, i.task_id AS task_uuid,
  (strftime('%Y-%m-%dT%H:%M:%S', i.deadline / 1000000, 'unixepoch') || printf('.%06dZ', i.deadline % 1000000)) AS deadline
FROM pawl.item_rows i;

DROP VIEW pawl.v_tasks;
CREATE VIEW pawl.v_tasks AS
SELECT @task_text(t.id) AS id, t.namespace, t.type, t.type_version, t.state,
  CASE
    WHEN t.state = 'queued' THEN 'pending'
    WHEN t.state IN ('checked_out', 'in_progress', 'submitted', 'approved', 'applied') THEN 'in_progress'
    WHEN t.state IN ('failed', 'rejected', 'dead_lettered') THEN 'failed'
    ELSE t.state
  END AS status,
  t.title, COALESCE(t.stage, t.state) AS stage, t.priority, t.payload, t.metadata, t.requested_by_type, t.requested_by_id, t.input_hash, t.thread,
  t.items, t.open, t.failed, t.dead, t.cancelled, t.checkpoints,
  CASE WHEN t.state = 'completed' THEN 100 WHEN t.solo = 1 THEN COALESCE(t.progress, 0) WHEN t.items = 0 THEN 0 ELSE MIN(99, 100 * (t.items - t.open) / t.items) END AS progress,
  t.error, COALESCE(t.retry_count, COALESCE((SELECT SUM(x.failures) FROM pawl.leases x WHERE x.task_id = t.id AND x.failures > 0), 0)
    + COALESCE((SELECT SUM(x.failures) FROM pawl.finished_items x WHERE x.task_id = t.id AND x.failures > 0), 0)
    + COALESCE((SELECT SUM(x.failures) FROM pawl.ready x WHERE x.task_id = t.id AND x.failures > 0), 0)
    + COALESCE((SELECT SUM(x.failures) FROM pawl.scheduled x WHERE x.task_id = t.id AND x.failures > 0), 0)
    + COALESCE((SELECT SUM(x.failures) FROM pawl.waiting x WHERE x.task_id = t.id AND x.failures > 0), 0)
    + COALESCE((SELECT SUM(x.failures) FROM pawl.parked_items x WHERE x.task_id = t.id AND x.failures > 0), 0)) AS retry_count,
  t.failed_in, t.version,
  (strftime('%Y-%m-%dT%H:%M:%S', t.created_at / 1000000, 'unixepoch') || printf('.%06dZ', t.created_at % 1000000)) AS created_at,
  (SELECT strftime('%Y-%m-%dT%H:%M:%S', x.at / 1000000, 'unixepoch') || printf('.%06dZ', x.at % 1000000) FROM (SELECT COALESCE((SELECT e.created_at FROM pawl.task_events e WHERE e.task_id = t.id ORDER BY e.id DESC LIMIT 1), t.created_at) AS at) x) AS updated_at,
  (SELECT strftime('%Y-%m-%dT%H:%M:%S', x.at / 1000000, 'unixepoch') || printf('.%06dZ', x.at % 1000000) FROM (SELECT COALESCE((SELECT e.created_at FROM pawl.event_rows e WHERE e.task_id = t.id AND e.to_state IS NOT NULL ORDER BY e.id DESC LIMIT 1), t.created_at) AS at) x) AS last_transitioned_at,
  (strftime('%Y-%m-%dT%H:%M:%S', t.applied_at / 1000000, 'unixepoch') || printf('.%06dZ', t.applied_at % 1000000)) AS applied_at, (strftime('%Y-%m-%dT%H:%M:%S', t.completed_at / 1000000, 'unixepoch') || printf('.%06dZ', t.completed_at % 1000000)) AS completed_at, t.id AS uuid,
  (strftime('%Y-%m-%dT%H:%M:%S', t.deadline / 1000000, 'unixepoch') || printf('.%06dZ', t.deadline % 1000000)) AS deadline, t.start_to_close AS start_to_close_seconds, t.schedule_to_start AS schedule_to_start_seconds,
  @task_text(t.parent_id) AS parent_id, t.parent_id AS parent_uuid, @task_text(t.forked_from) AS forked_from, t.forked_from AS forked_from_uuid, t.forked_at, t.schedule
FROM pawl.task_rows t;
