-- The keys of tasks that are unique, or debounced.

-- name: rewrite task
UPDATE pawl.tasks
SET input = $2, run_at = COALESCE($3, run_at)
WHERE id = $1 AND solo = 1
