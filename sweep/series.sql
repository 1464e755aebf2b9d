-- name: remove old
DELETE FROM pawl.queue_minutes
WHERE (queue_id, minute) IN (
  SELECT queue_id, minute
  FROM pawl.queue_minutes
  WHERE minute < $1
  LIMIT $2)
