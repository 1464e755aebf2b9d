-- oldest: 1
-- +goose Up
-- Who comes first: items that come back soon again, keys with room, questions of budgets.

-- When an item was claimed last, from its second attempt on. An item that comes back to the
-- queue soon after that has a rank behind the fresh items of its priority.
ALTER TABLE pawl.scheduled ADD COLUMN claimed_at INTEGER;
ALTER TABLE pawl.waiting ADD COLUMN claimed_at INTEGER;
ALTER TABLE pawl.parked_items ADD COLUMN claimed_at INTEGER;

-- The three ranks an item can have among the ready, a row each: fresh, back again, and back soon
-- again. The last one is also that of the items of the next lower priority that are back again.
DROP VIEW pawl.item_ranks;
CREATE VIEW pawl.item_ranks AS
SELECT id, namespace, task_id, type, kind, 1 - 2 * priority AS rank, queue_id FROM pawl.all_items
UNION ALL
SELECT id, namespace, task_id, type, kind, -2 * priority, queue_id FROM pawl.all_items
UNION ALL
SELECT id, namespace, task_id, type, kind, 2 - 2 * priority, queue_id FROM pawl.all_items;

-- The views of migration 2 with the third rank.
DROP VIEW pawl.item_rows;
CREATE VIEW pawl.item_rows AS
SELECT w.id, w.namespace, w.task_id, w.type, w.kind, w.position, w.key, w.priority, w.after, w.input, w.parts_required, w.created_at,
  CASE
    WHEN l.item_id IS NOT NULL THEN @state_name(l.state)
    WHEN e.item_id IS NOT NULL THEN @state_name(e.state)
    WHEN r.item_id IS NOT NULL OR b.item_id IS NOT NULL OR c.item_id IS NOT NULL THEN 'queued'
    WHEN s.item_id IS NOT NULL THEN 'scheduled'
    WHEN g.item_id IS NOT NULL THEN 'waiting'
    ELSE @state_name(t.state)
  END AS state,
  COALESCE(l.attempt, e.attempt, r.attempt, b.attempt, c.attempt, s.attempt, g.attempt, t.attempt, 0) AS attempt,
  COALESCE(l.failures, e.failures, r.failures, b.failures, c.failures, s.failures, g.failures, t.failures, 0) AS failures,
  w.max_attempts,
  COALESCE(l.rework, e.rework, r.rework, b.rework, c.rework, s.rework, g.rework, t.rework, 0) AS rework,
  COALESCE(e.left_by, r.left_by, b.left_by, c.left_by, s.left_by, g.left_by, t.left_by) AS left_by,
  (SELECT a.name FROM pawl.actors a WHERE a.id = l.worker) AS worker_id,
  (SELECT a.name FROM pawl.actors a WHERE a.id = COALESCE(l.worker, e.worker, r.worker, b.worker, c.worker, s.worker, g.worker, t.worker)) AS last_worker_id,
  COALESCE(l.worker, e.worker, r.worker, b.worker, c.worker, s.worker, g.worker, t.worker) AS last_worker,
  l.lease_seconds,
  l.acquired_at AS lease_acquired_at,
  l.lease_expires_at,
  l.heartbeat_at,
  l.progress,
  COALESCE(l.stage, e.stage, t.stage) AS stage,
  COALESCE(e.result, t.result) AS result,
  COALESCE(e.assembled_result, t.assembled_result) AS assembled_result,
  COALESCE(l.error, e.error, r.error, b.error, c.error, s.error, g.error, t.error) AS error,
  COALESCE(s.run_at, g.until) AS run_at,
  g.signal,
  g.needs,
  COALESCE(l.started_at, e.started_at, r.started_at, b.started_at, c.started_at, s.started_at, g.started_at, t.started_at) AS started_at,
  COALESCE(e.accepted_at, t.accepted_at) AS accepted_at,
  COALESCE(e.ended_at, t.completed_at) AS completed_at,
  COALESCE(MAX(l.heartbeat_at, COALESCE(l.progressed_at, 0)), e.ended_at, r.since, b.since, c.since, s.since, g.since, t.since, w.created_at) AS updated_at,
  COALESCE(l.solo, r.solo, b.solo, c.solo, s.solo, g.solo, t.solo) AS solo,
  w.deadline
FROM pawl.all_items w
LEFT JOIN pawl.leases l ON l.item_id = w.id
LEFT JOIN pawl.finished_items e ON e.item_id = w.id
LEFT JOIN pawl.ready r ON r.queue_id = w.queue_id AND r.rank = 1 - 2 * w.priority AND r.item_id = w.id
LEFT JOIN pawl.ready b ON b.queue_id = w.queue_id AND b.rank = -2 * w.priority AND b.item_id = w.id
LEFT JOIN pawl.ready c ON c.queue_id = w.queue_id AND c.rank = 2 - 2 * w.priority AND c.item_id = w.id
LEFT JOIN pawl.scheduled s ON s.item_id = w.id
LEFT JOIN pawl.waiting g ON g.item_id = w.id
LEFT JOIN pawl.parked_items t ON t.item_id = w.id;

DROP VIEW pawl.task_rows;
CREATE VIEW pawl.task_rows AS
SELECT x.id, x.namespace, x.type, x.type_version, x.solo, x.title, x.priority, x.payload, x.metadata,
  x.requested_by_type, x.requested_by_id, x.input_hash, x.thread, x.created_at,
  CASE
    WHEN x.stored <> 'open' THEN x.stored
    WHEN x.solo = 1 THEN CASE
      WHEN x.item_state IN ('queued', 'scheduled', 'waiting') THEN 'queued'
      WHEN x.item_state = 'leased' THEN 'checked_out'
      WHEN x.item_state = 'accepted' THEN 'approved'
      ELSE x.item_state END
    WHEN x.live_open < x.live_items THEN 'in_progress'
    WHEN EXISTS (SELECT 1 FROM pawl.leases l WHERE l.task_id = x.id AND l.state = @state(in_progress) AND x.planning = 0) THEN 'in_progress'
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
  x.checkpoints, x.pruned, x.failed_in, x.error, x.stage, x.item_state, x.progress, x.retry_count, x.applied_at, x.completed_at,
  x.deadline, x.start_to_close, x.schedule_to_start, x.parent_id, x.forked_from, x.forked_at, x.schedule
FROM (
  SELECT t.id, t.namespace, t.type, t.type_version, t.solo, t.title, t.priority, COALESCE(t.payload, t.input) AS payload, t.metadata,
    t.requested_by_type, t.requested_by_id, t.input_hash, t.thread, t.created_at,
    COALESCE(k.state, 'open') AS stored,
    COALESCE(k.version, 0) AS live_version, k.items AS live_items, k.open AS live_open, k.failed AS live_failed, COALESCE(k.planning, 0) AS planning, k.dead AS live_dead, k.cancelled AS live_cancelled,
    COALESCE(k.checkpoints, 0) AS checkpoints,
    COALESCE(k.pruned, 0) AS pruned,
    k.failed_in,
    CASE
      WHEN l.item_id IS NOT NULL THEN @state_name(l.state)
      WHEN e.item_id IS NOT NULL THEN @state_name(e.state)
      WHEN r.item_id IS NOT NULL OR b.item_id IS NOT NULL OR c.item_id IS NOT NULL THEN 'queued'
      WHEN s.item_id IS NOT NULL THEN 'scheduled'
      WHEN g.item_id IS NOT NULL THEN 'waiting'
      ELSE @state_name(p.state)
    END AS item_state,
    COALESCE(k.error, l.error, e.error, r.error, b.error, c.error, s.error, g.error, p.error) AS error,
    COALESCE(l.stage, e.stage, p.stage) AS stage,
    l.progress,
    CASE WHEN t.solo = 1 THEN COALESCE(l.failures, e.failures, r.failures, b.failures, c.failures, s.failures, g.failures, p.failures, 0) END AS retry_count,
    k.applied_at,
    COALESCE(k.completed_at, e.ended_at, p.completed_at) AS completed_at,
    t.deadline, t.start_to_close, t.schedule_to_start, t.parent_id, t.forked_from, t.forked_at, t.schedule
  FROM pawl.tasks t
  LEFT JOIN pawl.task_counters k ON k.task_id = t.id
  LEFT JOIN pawl.leases l ON t.solo = 1 AND l.item_id = t.id
  LEFT JOIN pawl.finished_items e ON t.solo = 1 AND e.item_id = t.id
  LEFT JOIN pawl.ready r ON r.queue_id = t.queue_id AND r.rank = 1 - 2 * COALESCE(t.item_priority, t.priority) AND r.item_id = t.id
  LEFT JOIN pawl.ready b ON b.queue_id = t.queue_id AND b.rank = -2 * COALESCE(t.item_priority, t.priority) AND b.item_id = t.id
  LEFT JOIN pawl.ready c ON c.queue_id = t.queue_id AND c.rank = 2 - 2 * COALESCE(t.item_priority, t.priority) AND c.item_id = t.id
  LEFT JOIN pawl.scheduled s ON t.solo = 1 AND s.item_id = t.id
  LEFT JOIN pawl.waiting g ON t.solo = 1 AND g.item_id = t.id
  LEFT JOIN pawl.parked_items p ON t.solo = 1 AND p.item_id = t.id
) x;

-- The keys that claims of a queue look at. A claim that finds nothing has to read no other key:
-- whatever may let an item of a key be claimed adds a row, and a claim removes the row of a key that
-- it finds full or without work. at = 0 is a key to look at now; a later time is that of the next
-- start that its rate allows. tx is 0 here: see the file for PostgreSQL.
CREATE TABLE pawl.gate_hints (
  queue_id INTEGER NOT NULL,
  at       INTEGER NOT NULL,
  gate     INTEGER NOT NULL,
  tx       INTEGER NOT NULL,
  PRIMARY KEY (queue_id, at, gate, tx)
) STRICT, WITHOUT ROWID;

-- The gate of a queue without keys needs no hints. Rows without a gate, those of queues without
-- limits, pay for the condition alone.
-- +goose StatementBegin
CREATE TRIGGER pawl.ready_hint AFTER INSERT ON pawl.ready
WHEN NEW.gate IS NOT NULL
BEGIN
  INSERT OR IGNORE INTO pawl.gate_hints (queue_id, at, gate, tx)
  SELECT NEW.queue_id, 0, x.id, 0
  FROM pawl.gates x
  WHERE x.id = NEW.gate AND x.pointer <> '';
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER pawl.ready_hint_key AFTER UPDATE OF gate ON pawl.ready
WHEN NEW.gate IS NOT NULL
BEGIN
  INSERT OR IGNORE INTO pawl.gate_hints (queue_id, at, gate, tx)
  SELECT NEW.queue_id, 0, x.id, 0
  FROM pawl.gates x
  WHERE x.id = NEW.gate AND x.pointer <> '';
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER pawl.leases_hint AFTER DELETE ON pawl.leases
WHEN OLD.gate IS NOT NULL
BEGIN
  INSERT OR IGNORE INTO pawl.gate_hints (queue_id, at, gate, tx)
  SELECT OLD.queue_id, 0, x.id, 0
  FROM pawl.gates x
  WHERE x.id = OLD.gate AND x.pointer <> '';
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER pawl.scheduled_hint AFTER DELETE ON pawl.scheduled
WHEN OLD.gate IS NOT NULL AND OLD.attempt > 0
BEGIN
  INSERT OR IGNORE INTO pawl.gate_hints (queue_id, at, gate, tx)
  SELECT OLD.queue_id, 0, x.id, 0
  FROM pawl.gates x
  WHERE x.id = OLD.gate AND x.pointer <> '';
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER pawl.waiting_hint AFTER DELETE ON pawl.waiting
WHEN OLD.gate IS NOT NULL AND OLD.attempt > 0
BEGIN
  INSERT OR IGNORE INTO pawl.gate_hints (queue_id, at, gate, tx)
  SELECT OLD.queue_id, 0, x.id, 0
  FROM pawl.gates x
  WHERE x.id = OLD.gate AND x.pointer <> '';
END;
-- +goose StatementEnd
INSERT INTO pawl.gate_hints (queue_id, at, gate, tx)
SELECT DISTINCT r.queue_id, 0, r.gate, 0
FROM pawl.ready r
JOIN pawl.gates x ON x.id = r.gate
WHERE r.gate IS NOT NULL AND x.pointer <> '';

-- Who deletes a parent that is removed when its children are gone, as JSON.
ALTER TABLE pawl.parents ADD COLUMN delete_by TEXT;
