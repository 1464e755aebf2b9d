-- name: Look
SELECT task_id, queue_id, state, failures, lease_seconds, lease_expires_at, progress, stage, stopped, key_id, solo, acquired_at, start_to_close /* item */
FROM pawl.leases
WHERE item_id = $1 AND namespace = $2 AND worker = $3 AND attempt = $4 AND lease_expires_at > $5

-- name: Start
UPDATE pawl.leases
SET state = @state(in_progress)
WHERE item_id = $1

-- name: Extend
UPDATE pawl.leases
SET state = @state(in_progress), heartbeat_at = $2, lease_expires_at = $3
WHERE item_id = $1

-- name: Report
UPDATE pawl.leases
SET state = @state(in_progress), progress = $2, stage = $3, progressed_at = $4
WHERE item_id = $1
