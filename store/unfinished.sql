-- What keeps retention from removing a task that is due.

-- What is still to come, and has been for long: the newest event of the task is at most $1.
-- name: pending for long
SELECT x.namespace, x.task_id, x.what
FROM (
  SELECT p.namespace, p.task_id, 'its children have not got its cancel or delete' AS what FROM pawl.parents p WHERE p.todo > 0
  UNION ALL
  SELECT c.namespace, c.task_id, 'children that it waited for have not got their cancel' FROM pawl.child_cancels c
  UNION ALL
  SELECT k.namespace, k.task_id, 'its next step has not been carried out' FROM pawl.task_counters k WHERE k.todo = 1
) x
WHERE (SELECT e.created_at FROM pawl.task_events e WHERE e.task_id = x.task_id ORDER BY e.id DESC LIMIT 1) <= $1
ORDER BY x.task_id
LIMIT $2
