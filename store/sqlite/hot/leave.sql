-- name: Take
DELETE FROM pawl.leases
WHERE item_id = $1 AND namespace = $2 AND worker = $3 AND attempt = $4 AND lease_expires_at > $5
RETURNING item_id, namespace, task_id, queue_id, state, worker, priority, @columns(carried),
  prefetch, started_at, acquired_at, heartbeat_at, lease_expires_at, progress, stage, error, key_id, effects
