-- The removal of plain tasks, by their ids alone. The item of a task of one item has the bytes of its task.

-- name: rows of ended items
SELECT item_id, @namespace_of(queue_id) AS namespace, task_id, @state_name(state) AS state, @columns(kept), left_by, @name_of(worker) AS worker_id, started_at, ended_at, accepted_at, stage, result, assembled_result, error
FROM pawl.finished_items
WHERE item_id @among_ids($1)

-- The names of a move are those of its code.
-- name: rows of events
SELECT id, namespace, task_id, item_id, attempt, move, @kind_of(actor) AS actor_type, @name_of(actor) AS actor_id, message, data, diff, trace_parent, key_id, created_at
FROM pawl.task_events
WHERE task_id @among_ids($1) AND move NOT IN @events(task 'deleted')
ORDER BY id

-- name: remove events
DELETE FROM pawl.task_events
WHERE task_id @among_ids($1) AND move NOT IN @events(task 'deleted')

-- name: remove ended items
DELETE FROM pawl.finished_items
WHERE item_id @among_ids($1)

-- name: remove tasks
DELETE FROM pawl.tasks
WHERE id @among_ids($1)
