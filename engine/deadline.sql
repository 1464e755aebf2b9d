-- name: put deadline
INSERT INTO pawl.deadlines (item_id, namespace, task_id, at)
VALUES ($1, $2, $3, $4)
