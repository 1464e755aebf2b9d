-- name: texts of task
SELECT t.payload, t.metadata
FROM pawl.tasks t
WHERE t.id = $1
