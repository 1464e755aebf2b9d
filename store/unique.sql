-- name: rewrite task
UPDATE pawl.tasks
SET input = $2, run_at = COALESCE($3, run_at)
WHERE id = $1 AND solo = 1

-- The item of a task of one has the id of its task.
-- name: only item of task
SELECT t.id
FROM pawl.tasks t
WHERE t.id = $1 AND t.solo = 1
