-- The statements of the sweep. A statement that locks rows skips those that another process
-- has locked: that process is already working on them.

-- The others are 1 or 0: moves; removals that the log lacks; children to count or to cancel; steps that tasks may owe, or
-- signals that have items to wake; limits of queues; questions of other servers.
-- name: next due
SELECT MIN(x.at), (SELECT MIN(next_at) FROM pawl.schedules WHERE next_at IS NOT NULL AND id NOT IN @list($1)),
  CASE WHEN EXISTS (SELECT 1 FROM pawl.relocations) THEN 1 ELSE 0 END,
  CASE WHEN EXISTS (SELECT 1 FROM pawl.log_removals WHERE leaf IS NULL) THEN 1 ELSE 0 END,
  CASE WHEN EXISTS (SELECT 1 FROM pawl.child_waits WHERE over = 0)
    OR EXISTS (SELECT 1 FROM pawl.child_cancels)
    OR EXISTS (SELECT 1 FROM pawl.parents WHERE todo > 0) THEN 1 ELSE 0 END,
  CASE WHEN EXISTS (SELECT 1 FROM pawl.task_counters WHERE todo = 1)
    OR EXISTS (SELECT 1 FROM pawl.task_counters WHERE decide_by IS NOT NULL)
    OR EXISTS (SELECT 1 FROM pawl.signals WHERE waking IS NOT NULL) THEN 1 ELSE 0 END,
  CASE WHEN EXISTS (SELECT 1 FROM pawl.queue_limits) THEN 1 ELSE 0 END,
  CASE WHEN EXISTS (SELECT 1 FROM pawl.places WHERE kind = 'asked') THEN 1 ELSE 0 END
FROM (
  SELECT MIN(lease_expires_at) AS at FROM pawl.leases
  UNION ALL
  SELECT MIN(COALESCE(revoked_at, expires_at))
  FROM pawl.api_keys
  WHERE (revoked_at IS NOT NULL OR expires_at IS NOT NULL) AND id IN (SELECT key_id FROM pawl.leases WHERE key_id IS NOT NULL)
  UNION ALL
  SELECT MIN(sent_until) FROM pawl.effects WHERE state = 'open' AND sent_until IS NOT NULL
  UNION ALL
  SELECT MIN(run_at) FROM pawl.scheduled
  UNION ALL
  SELECT MIN(until) FROM pawl.waiting WHERE until IS NOT NULL AND needs = 0
  UNION ALL
  SELECT CASE WHEN EXISTS (SELECT 1 FROM pawl.waiting WHERE needs = 0 AND until IS NULL AND signal IS NULL) THEN 0 END
  UNION ALL
  SELECT CASE WHEN EXISTS (SELECT 1 FROM pawl.waiting WHERE broken > 0) THEN 0 END
  UNION ALL
  SELECT MIN(at) FROM pawl.deadlines
  UNION ALL
  SELECT MIN(since + schedule_to_start * CAST(1000000 AS bigint)) FROM pawl.ready WHERE schedule_to_start IS NOT NULL
) x

-- name: start cursor
INSERT INTO pawl.relay_cursors (sink, updated_at)
VALUES ($1, 0)
ON CONFLICT (sink) DO NOTHING

-- name: forget cursor
DELETE FROM pawl.relay_cursors
WHERE sink = $1

-- name: hold counters
SELECT checkpoints
FROM pawl.task_counters
WHERE task_id = $1
@lock

-- name: open gate
INSERT INTO pawl.retention_gate (reason)
VALUES ($1)

-- name: close gate
DELETE FROM pawl.retention_gate
