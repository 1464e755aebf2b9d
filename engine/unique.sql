-- name: take key
INSERT INTO pawl.uniques (namespace, type, key, task_id, until)
VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (namespace, type, key) DO NOTHING

-- name: holder of key
SELECT u.task_id, u.until
FROM pawl.uniques u
WHERE u.namespace = $1 AND u.type = $2 AND u.key = $3

-- name: holder of key locked
SELECT u.task_id, u.until
FROM pawl.uniques u
WHERE u.namespace = $1 AND u.type = $2 AND u.key = $3
@exclusive

-- name: take key over
UPDATE pawl.uniques
SET task_id = $4, until = $5
WHERE namespace = $1 AND type = $2 AND key = $3

-- The item of a task of one has the id of its task.
-- name: only item of task
SELECT t.id
FROM pawl.tasks t
WHERE t.id = $1 AND t.solo = 1
