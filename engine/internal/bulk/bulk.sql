-- Bulk calls: tasks of a type of their own, which engines carry out.

-- A namespace that is paused stops no bulk call.
-- name: waiting
SELECT r.item_id, r.task_id, q.namespace
FROM pawl.queues q
JOIN pawl.ready r ON r.queue_id = q.id
WHERE q.type = $2 AND q.paused_at IS NULL
ORDER BY r.item_id
LIMIT $1

-- name: save
UPDATE pawl.tasks
SET metadata = $2
WHERE id = $1

-- name: touched
SELECT DISTINCT e.task_id
FROM pawl.task_events e
WHERE e.task_id IN @ids($1) AND e.data = $2
