-- The tombstones that follow one, in the order of their age, and whether their tasks are there.
-- name: tombstones after
SELECT b.created_at, b.event_id, b.namespace, b.task_id,
  CASE WHEN b.restored_at IS NULL AND EXISTS (SELECT 1 FROM pawl.tasks t WHERE t.id = b.task_id) THEN 1 ELSE 0 END
FROM pawl.tombstones b
WHERE b.created_at >= $1 AND b.created_at <= $3 AND (b.created_at > $1 OR b.event_id > $2)
ORDER BY b.created_at, b.event_id
LIMIT $4
