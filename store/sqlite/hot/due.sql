-- name: Scheduled
SELECT item_id
FROM pawl.scheduled
WHERE run_at <= $1 AND ($3 OR item_id IN @ids($4))
ORDER BY run_at, item_id
LIMIT $2

-- Not those whose signal was sent, and is still waking its items.
-- name: WaitingUntil
SELECT q.item_id
FROM pawl.waiting q
WHERE q.until <= $1 AND q.needs = 0 AND ($3 OR q.item_id IN @ids($4))
  AND NOT EXISTS (
    SELECT 1
    FROM pawl.signals w
    WHERE w.waking IS NOT NULL AND w.namespace = @namespace_of(q.queue_id) AND w.name = q.signal AND w.key = COALESCE(q.signal_key, ''))
ORDER BY q.until, q.item_id
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
