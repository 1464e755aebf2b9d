-- name: Take
DELETE FROM pawl.leases
WHERE item_id = $1 AND namespace = $2 AND worker = $3 AND attempt = $4 AND lease_expires_at > $5 AND acceptance = 0 AND effects = 0
RETURNING task_id, queue_id, state, priority, @columns(kept), solo, feeds, started_at, acquired_at, stage, key_id

-- name: End
INSERT INTO pawl.finished_items (item_id, queue_id, task_id, state, worker, started_at, ended_at, stage, result, @columns(kept))
VALUES ($1, $2, $3, @state(completed), $4, $5, $6, $7, $8, @values(kept, $9))

-- name: Feed
UPDATE pawl.waiting
SET needs = needs - 1
WHERE item_id IN (SELECT item_id FROM pawl.item_deps WHERE needs_id = $1)
