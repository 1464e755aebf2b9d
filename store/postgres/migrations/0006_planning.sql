-- oldest: 1
-- +goose Up
-- A task that is being planned by a worker has its plan item alone, which counts
-- as its only item (so that it cannot be left open by a plan that failed) and is
-- shown as none: planning is no state of the task.
ALTER TABLE pawl.task_live ADD COLUMN planning smallint NOT NULL DEFAULT 0;

CREATE OR REPLACE VIEW pawl.task_rows AS
SELECT x.id, x.namespace, x.type, x.type_version, x.solo, x.title, x.priority, COALESCE(x.payload, x.input) AS payload, x.metadata,
  x.requested_by_type, x.requested_by_id, x.input_hash, x.thread, x.created_at,
  CASE
    WHEN x.stored <> 'open' THEN x.stored
    WHEN x.solo = 1 THEN CASE
      WHEN x.item_state IN ('queued', 'scheduled', 'waiting') THEN 'queued'
      WHEN x.item_state = 'leased' THEN 'checked_out'
      WHEN x.item_state = 'accepted' THEN 'approved'
      ELSE x.item_state END
    WHEN x.live_open < x.live_items THEN 'in_progress'
    WHEN EXISTS (SELECT 1 FROM pawl.leases l WHERE l.task_id = x.id AND l.state = 'in_progress' AND x.planning = 0) THEN 'in_progress'
    WHEN EXISTS (SELECT 1 FROM pawl.leases l WHERE l.task_id = x.id AND x.planning = 0) THEN 'checked_out'
    ELSE 'queued'
  END AS state,
  x.live_version + CASE WHEN x.solo = 1 AND x.stored = 'open'
    AND x.item_state IN ('submitted', 'accepted', 'completed', 'rejected', 'failed', 'dead_lettered', 'cancelled') THEN 1 ELSE 0 END AS version,
  CASE WHEN x.solo = 1 THEN 1 WHEN x.planning = 1 THEN 0 ELSE x.live_items END AS items,
  CASE WHEN x.solo = 1 THEN CASE WHEN x.item_state IN ('queued', 'scheduled', 'waiting', 'leased', 'in_progress') THEN 1 ELSE 0 END WHEN x.planning = 1 THEN 0 ELSE x.live_open END AS open,
  CASE WHEN x.solo = 1 THEN CASE WHEN x.item_state = 'failed' THEN 1 ELSE 0 END ELSE x.live_failed END AS failed,
  CASE WHEN x.solo = 1 THEN CASE WHEN x.item_state = 'dead_lettered' THEN 1 ELSE 0 END ELSE x.live_dead END AS dead,
  CASE WHEN x.solo = 1 THEN CASE WHEN x.item_state = 'cancelled' THEN 1 ELSE 0 END ELSE x.live_cancelled END AS cancelled,
  x.checkpoints, x.pruned, x.failed_in, x.error, x.stage, x.item_state, x.progress, x.retry_count, x.applied_at, x.completed_at
FROM (
  SELECT t.id, t.namespace, t.type, t.type_version, t.solo, t.title, t.priority, t.payload, w.input, t.metadata,
    t.requested_by_type, t.requested_by_id, t.input_hash, t.thread, t.created_at,
    COALESCE(k.state, 'open') AS stored,
    COALESCE(k.version, 0) AS live_version, k.items AS live_items, k.open AS live_open, k.failed AS live_failed, COALESCE(k.planning, 0) AS planning, k.dead AS live_dead, k.cancelled AS live_cancelled,
    COALESCE(k.checkpoints, 0) AS checkpoints,
    COALESCE(k.pruned, 0) AS pruned,
    k.failed_in,
    CASE
      WHEN l.item_id IS NOT NULL THEN l.state
      WHEN e.item_id IS NOT NULL THEN e.state
      WHEN r.item_id IS NOT NULL OR b.item_id IS NOT NULL THEN 'queued'
      WHEN s.item_id IS NOT NULL THEN 'scheduled'
      WHEN g.item_id IS NOT NULL THEN 'waiting'
      ELSE p.state
    END AS item_state,
    COALESCE(k.error, l.error, e.error, r.error, b.error, s.error, g.error, p.error) AS error,
    COALESCE(l.stage, e.stage, p.stage) AS stage,
    l.progress,
    CASE WHEN t.solo = 1 THEN COALESCE(l.failures, e.failures, r.failures, b.failures, s.failures, g.failures, p.failures, 0) END AS retry_count,
    k.applied_at,
    COALESCE(k.completed_at, e.ended_at, p.completed_at) AS completed_at
  FROM pawl.tasks t
  LEFT JOIN pawl.task_live k ON k.task_id = t.id
  LEFT JOIN pawl.work_items w ON t.solo = 1 AND w.id = 'itm_' || substr(t.id, 5)
  LEFT JOIN pawl.leases l ON l.item_id = w.id
  LEFT JOIN pawl.ends e ON e.item_id = w.id
  LEFT JOIN pawl.ready r ON r.namespace = w.namespace AND r.type = w.type AND r.rank = 1 - 2 * w.priority AND r.item_id = w.id
  LEFT JOIN pawl.ready b ON b.namespace = w.namespace AND b.type = w.type AND b.rank = -2 * w.priority AND b.item_id = w.id
  LEFT JOIN pawl.scheduled s ON s.item_id = w.id
  LEFT JOIN pawl.waiting g ON g.item_id = w.id
  LEFT JOIN pawl.rests p ON p.item_id = w.id
) x;

CREATE OR REPLACE VIEW pawl.v_tasks AS
SELECT t.id, t.namespace, t.type, t.type_version, t.state,
  CASE
    WHEN t.state = 'queued' THEN 'pending'
    WHEN t.state IN ('checked_out', 'in_progress', 'submitted', 'approved', 'applied') THEN 'in_progress'
    WHEN t.state IN ('failed', 'rejected', 'dead_lettered') THEN 'failed'
    ELSE t.state
  END AS status,
  t.title, COALESCE(t.stage, t.state) AS stage, t.priority, t.payload, t.metadata, t.requested_by_type, t.requested_by_id, t.input_hash, t.thread,
  t.items, t.open, t.failed, t.dead, t.cancelled, t.checkpoints,
  CASE WHEN t.state = 'completed' THEN 100 WHEN t.solo = 1 THEN COALESCE(t.progress, 0) WHEN t.items = 0 THEN 0 ELSE LEAST(99, 100 * (t.items - t.open) / t.items) END AS progress,
  t.error, COALESCE(t.retry_count, (SELECT SUM(i.failures) FROM pawl.item_rows i WHERE i.task_id = t.id), 0) AS retry_count,
  t.failed_in, t.version,
  pawl.stamp(t.created_at) AS created_at,
  pawl.stamp(COALESCE((SELECT e.created_at FROM pawl.task_events e WHERE e.task_id = t.id ORDER BY e.id DESC LIMIT 1), t.created_at)) AS updated_at,
  pawl.stamp(COALESCE((SELECT e.created_at FROM pawl.task_events e WHERE e.task_id = t.id AND e.to_state IS NOT NULL ORDER BY e.id DESC LIMIT 1), t.created_at)) AS last_transitioned_at,
  pawl.stamp(t.applied_at) AS applied_at, pawl.stamp(t.completed_at) AS completed_at
FROM pawl.task_rows t;
