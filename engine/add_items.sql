-- name: task to grow
SELECT t.type, t.type_version, t.priority, t.deadline, t.start_to_close, t.schedule_to_start, t.parent_id, t.solo
FROM pawl.tasks t
WHERE t.id = $1 AND t.namespace = $2
@exclusive

-- name: item from solo
INSERT INTO pawl.items (id, namespace, queue_id, task_id, type, kind, position, priority, max_attempts, run_at, input, parts_required, created_at, reasons, deadline)
SELECT id, namespace, queue_id, task_id, type, kind, position, priority, max_attempts, run_at, input, parts_required, created_at, reasons, deadline
FROM pawl.all_items
WHERE id = $1

-- name: many from solo
UPDATE pawl.tasks
SET solo = 0, payload = input, queue_id = NULL, max_attempts = 0, run_at = NULL, item_type = NULL, item_priority = NULL, parts_required = NULL, reasons = NULL, input = NULL
WHERE id = $1

-- name: count solo
INSERT INTO pawl.task_counters (task_id, namespace, items, open, updated_at)
VALUES ($1, $2, 1, 1, $3)
ON CONFLICT (task_id) DO UPDATE SET items = 1, open = 1, positions = 1, failed = 0, dead = 0, cancelled = 0, updated_at = $3

-- name: takes more
SELECT 1
FROM pawl.task_counters
WHERE task_id = $1 AND state = 'open' AND planning = 0

-- name: take positions
UPDATE pawl.task_counters
SET positions = CASE WHEN positions < items THEN items ELSE positions END + $2
WHERE task_id = $1 AND state = 'open' AND planning = 0
RETURNING positions - $2

-- name: take positions of many
UPDATE pawl.task_counters
SET positions = CASE WHEN pawl.task_counters.positions < pawl.task_counters.items THEN pawl.task_counters.items ELSE pawl.task_counters.positions END + $2
FROM pawl.tasks t
WHERE pawl.task_counters.task_id = $1 AND pawl.task_counters.state = 'open' AND pawl.task_counters.planning = 0 AND t.id = pawl.task_counters.task_id AND t.namespace = $3 AND t.solo = 0
RETURNING t.type, t.type_version, t.priority, t.deadline, t.start_to_close, t.schedule_to_start, t.parent_id, pawl.task_counters.positions - $2

-- name: grow
UPDATE pawl.task_counters
SET items = items + $2, open = open + $2, updated_at = $3
WHERE task_id = $1 AND state = 'open'
RETURNING items, open

-- name: break
UPDATE pawl.waiting
SET broken = broken + 1
WHERE item_id IN @ids($1)

-- name: need parts
UPDATE pawl.items
SET parts_required = $2
WHERE task_id = $1 AND kind = 'work' AND parts_required IS NULL

-- name: need parts of a task of one
UPDATE pawl.tasks
SET parts_required = $2
WHERE id = $1 AND solo = 1 AND parts_required IS NULL

-- name: begin planning
UPDATE pawl.task_counters
SET planning = 1, todo = 1
WHERE task_id = $1

-- name: ignore failures
UPDATE pawl.task_counters
SET ignores_failures = 1
WHERE task_id = $1 AND ignores_failures = 0
