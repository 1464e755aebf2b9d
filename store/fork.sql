-- name: newest number
SELECT checkpoints
FROM pawl.task_counters
WHERE task_id = $1

-- name: pruned
SELECT pruned
FROM pawl.task_counters
WHERE task_id = $1

-- name: numbers left
SELECT seq
FROM pawl.checkpoints
WHERE task_id = $1
ORDER BY seq DESC
LIMIT $2

-- name: nearest numbers
SELECT COALESCE((SELECT MAX(seq) FROM pawl.checkpoints WHERE task_id = $1 AND seq < $2), 0),
  COALESCE((SELECT MIN(seq) FROM pawl.checkpoints WHERE task_id = $1 AND seq > $2), 0)

-- name: uploads of task
SELECT address
FROM pawl.blob_refs
WHERE task_id = $1

-- name: count copies
INSERT INTO pawl.task_counters (task_id, namespace, checkpoints, pruned, updated_at)
VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (task_id) DO UPDATE SET checkpoints = $3, pruned = $4, updated_at = $5

-- name: newest up to
SELECT COALESCE((SELECT c.seq FROM pawl.checkpoints c WHERE c.task_id = $1 AND c.seq <= $2 ORDER BY c.seq DESC LIMIT 1), 0)

-- The rejections for rework of each item that was ever sent back, also before its task was forked, oldest first.
-- The last column is 1 if the item had saved its next checkpoint before.
-- name: rounds
SELECT w.id, (SELECT i.rework FROM pawl.item_rows i WHERE i.id = w.id), w.reasons, e.data,
  CASE WHEN e.attempt >= (SELECT c.attempt FROM pawl.checkpoints c WHERE c.item_id = w.id AND c.seq > $2 AND c.attempt IS NOT NULL ORDER BY c.seq LIMIT 1) THEN 1 ELSE 0 END
FROM pawl.all_items w
LEFT JOIN pawl.task_events e ON e.task_id = $1 AND e.item_id = w.id AND e.move IN (@move(rejected, 'submitted', 'queued', item), @move(rejected, 'submitted', 'queued', only))
WHERE w.task_id = $1 AND w.reasons IS NOT NULL
ORDER BY w.id, e.id
