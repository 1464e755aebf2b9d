-- name: Task
INSERT INTO pawl.tasks (created_at, queue_id, @columns(new_task))
VALUES ($1, $2, @values(new_task, $3))

-- name: Counters
INSERT INTO pawl.task_counters (task_id, namespace, items, open)
VALUES ($1, $2, $3, $3)

-- name: Item
INSERT INTO pawl.items (id, namespace, queue_id, task_id, type, kind, position, key, priority, max_attempts, run_at, after, input, created_at, deadline)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)

-- name: Dependency
INSERT INTO pawl.item_deps (needs_id, item_id)
VALUES ($1, $2)
ON CONFLICT DO NOTHING

-- name: Ready
INSERT INTO pawl.ready (queue_id, rank, item_id, task_id, since, @columns(given))
VALUES ($1, $2, $3, $4, $5, @values(given, $6))

-- name: Scheduled
INSERT INTO pawl.scheduled (item_id, queue_id, task_id, priority, run_at, @columns(given))
VALUES ($1, $2, $3, $4, $5, @values(given, $6))

-- name: Waiting
INSERT INTO pawl.waiting (item_id, queue_id, task_id, priority, until, needs, @columns(given))
VALUES ($1, $2, $3, $4, $5, $6, @values(given, $7))
