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

-- The checkpoints that a resume needs are kept: of each item the newest one, the newest of
-- each name, the newest of the types iteration_start, iteration_end and error_boundary, and
-- the newest step of each message. Older steps that refer to their message are not needed.
-- name: prunable checkpoints
SELECT x.id
FROM (
  SELECT c.id, c.seq, c.type, c.name, c.message_id, c.message_id IS NOT NULL AND c.snapshot IS NULL AND c.blob IS NULL AS refers,
    ROW_NUMBER() OVER (ORDER BY c.seq DESC) AS newest,
    ROW_NUMBER() OVER (PARTITION BY c.item_id ORDER BY c.seq DESC) AS of_item,
    ROW_NUMBER() OVER (PARTITION BY c.item_id, c.name ORDER BY c.seq DESC) AS of_name,
    ROW_NUMBER() OVER (PARTITION BY c.item_id, c.type ORDER BY c.seq DESC) AS of_type,
    ROW_NUMBER() OVER (PARTITION BY c.message_id ORDER BY c.seq DESC) AS of_message
  FROM pawl.checkpoints c
  WHERE c.task_id = $1
) x
WHERE x.newest > $2 AND x.of_item > 1
  AND (x.name IS NULL OR x.of_name > 1 OR x.refers)
  AND (x.type NOT IN ('iteration_start', 'iteration_end', 'error_boundary') OR x.of_type > 1)
  AND (x.message_id IS NULL OR x.of_message > 1)
ORDER BY x.seq
LIMIT $3

-- name: prune checkpoints
DELETE FROM pawl.checkpoints
WHERE id IN @list($1)

-- name: count pruned
UPDATE pawl.task_counters
SET pruned = pruned + $2
WHERE task_id = $1

-- name: open gate
INSERT INTO pawl.retention_gate (reason)
VALUES ($1)

-- name: close gate
DELETE FROM pawl.retention_gate
