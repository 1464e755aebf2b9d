-- name: registry stamp
SELECT COUNT(*), COALESCE(MAX(t.created_at), 0), COUNT(t.removed_at), COALESCE(MAX(t.removed_at), 0)
FROM pawl.types t

-- name: end planning
UPDATE pawl.task_counters
SET planning = 0, todo = 0, items = $2, open = $2, updated_at = $3
WHERE task_id = $1 AND state = 'open' AND planning = 1

-- name: types of tasks
SELECT id, namespace, type, type_version
FROM pawl.tasks
WHERE id IN @ids($1)
