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
