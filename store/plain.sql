-- The removal of plain tasks, by their ids alone. The item of a task of one item has the bytes of its task.

-- name: rows of tasks
SELECT @columns(new_task), parts_required, reasons, thread, created_at, NULL, NULL
FROM pawl.tasks
WHERE id @among_ids($1)

-- name: rows of ended items
SELECT item_id, NULL, task_id, state, @columns(kept), left_by, started_at, ended_at, accepted_at, stage, result, assembled_result, error, worker, NULL
FROM pawl.finished_items
WHERE item_id @among_ids($1)

-- name: rows of events
SELECT id, namespace, task_id, item_id, attempt, move, message, data, diff, trace_parent, key_id, created_at, actor, queue_id
FROM pawl.task_events
WHERE task_id @among_ids($1)
ORDER BY id

-- name: remove events
DELETE FROM pawl.task_events
WHERE task_id @among_ids($1)

-- name: remove ended items
DELETE FROM pawl.finished_items
WHERE item_id @among_ids($1)

-- name: remove tasks
DELETE FROM pawl.tasks
WHERE id @among_ids($1)
