-- There is no index on the lease's end: each heartbeat would have to update it, which costs
-- more than reading every lease here.

-- name: Over
SELECT item_id, namespace, task_id, queue_id, state, worker, priority, @columns(carried),
  prefetch, started_at, acquired_at, heartbeat_at, lease_expires_at, progress, stage, error, key_id, effects
FROM pawl.leases
WHERE lease_expires_at <= $1 AND ($3 OR item_id IN @ids($4))
ORDER BY item_id
LIMIT $2

-- name: Remove
DELETE FROM pawl.leases
WHERE item_id = $1
