-- name: Scheduled
SELECT item_id
FROM pawl.scheduled
WHERE run_at <= $1 AND ($3 OR item_id IN @ids($4))
ORDER BY run_at, item_id
LIMIT $2

-- name: WaitingUntil
SELECT item_id
FROM pawl.waiting
WHERE until <= $1 AND needs = 0 AND ($3 OR item_id IN @ids($4))
ORDER BY until, item_id
LIMIT $2

-- name: WaitingReady
SELECT item_id
FROM pawl.waiting
WHERE needs = 0 AND until IS NULL AND signal IS NULL AND ($3 OR item_id IN @ids($4))
ORDER BY item_id
LIMIT $2

-- name: TakeScheduled
DELETE FROM pawl.scheduled
WHERE item_id = $1
RETURNING item_id, queue_id, task_id, priority, @columns(carried), left_by, worker, started_at, error, claimed_at

-- name: TakeWaiting
DELETE FROM pawl.waiting
WHERE item_id = $1
RETURNING item_id, queue_id, task_id, priority, @columns(carried), left_by, worker, started_at, error, claimed_at
