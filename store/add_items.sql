-- name: next number
INSERT INTO pawl.task_counters (task_id, namespace, checkpoints, updated_at)
VALUES ($1, $2, 1, $3)
ON CONFLICT (task_id) DO UPDATE SET checkpoints = pawl.task_counters.checkpoints + 1, updated_at = $3
RETURNING checkpoints

-- name: save checkpoint
INSERT INTO pawl.checkpoints (id, namespace, task_id, item_id, attempt, seq, type, name, args_hash, message_id, snapshot, blob, said, metadata, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
