-- The columns of a task that a call may change, and the priorities of its items.

-- name: priorities to change
SELECT w.id
FROM pawl.tasks t
JOIN pawl.all_items w ON w.task_id = t.id
WHERE t.id IN @ids($1) AND w.priority = t.priority AND t.priority <> $2 AND NOT EXISTS (SELECT 1 FROM pawl.finished_items e WHERE e.item_id = w.id)
ORDER BY w.id

-- name: set priorities
UPDATE pawl.items
SET priority = $2
WHERE id IN @ids($1)

-- name: set priorities of tasks of one
UPDATE pawl.tasks
SET item_priority = $2
WHERE id IN @ids($1) AND solo = 1

-- name: lock task
INSERT INTO pawl.task_counters (task_id, namespace, updated_at)
VALUES ($1, $2, $3)
ON CONFLICT (task_id) DO UPDATE SET updated_at = task_counters.updated_at

-- name: new version
UPDATE pawl.task_counters
SET version = version + 1, updated_at = $2
WHERE task_id = $1

-- name: update task
UPDATE pawl.tasks
SET title = $2, priority = $3, metadata = $4, item_priority = CASE WHEN item_priority <> $3 THEN item_priority END
WHERE id = $1
