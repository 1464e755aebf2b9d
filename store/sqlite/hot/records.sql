-- The events and checkpoints that the verbs write.

-- name: Event
INSERT INTO pawl.task_events (namespace, task_id, item_id, attempt, move, actor, key_id, created_at, queue_id, since, data, request, digest)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)

-- name: NextNumber
INSERT INTO pawl.task_counters (task_id, namespace, checkpoints)
VALUES ($1, $2, 1)
ON CONFLICT (task_id) DO UPDATE SET checkpoints = checkpoints + 1
RETURNING checkpoints

-- name: Checkpoint
INSERT INTO pawl.checkpoints (id, namespace, task_id, item_id, attempt, seq, type, name, args_hash, snapshot, metadata, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
