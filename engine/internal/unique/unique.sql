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

-- The keys after the given one, at most $5 of them. $4: those whose window is over, and whose
-- task has ended or is gone, are marked. The only item of a task has the task's id; so do the plan item of a task of many,
-- and the first item of a task of one that grew, which may end before the task.
-- name: keys after
SELECT u.namespace, u.type, u.key, u.task_id, u.until,
  CASE WHEN u.until <= $4 AND (EXISTS (SELECT 1 FROM pawl.finished_items e JOIN pawl.tasks o ON o.id = e.item_id AND o.solo = 1 WHERE e.item_id = u.task_id)
    OR EXISTS (SELECT 1 FROM pawl.task_counters k WHERE k.task_id = u.task_id AND k.state IN @tasks(ended))
    OR NOT EXISTS (SELECT 1 FROM pawl.tasks t WHERE t.id = u.task_id)) THEN 1 ELSE 0 END
FROM pawl.uniques u
WHERE (u.namespace, u.type, u.key) > ($1, $2, $3)
ORDER BY u.namespace, u.type, u.key
LIMIT $5

-- The row stays if another task has taken the key.
-- name: release key
DELETE FROM pawl.uniques
WHERE namespace = $1 AND type = $2 AND key = $3 AND task_id = $4 AND until = $5
