-- name: deadlines before
SELECT d.item_id, d.namespace, d.task_id, d.at, COALESCE((SELECT t.solo FROM pawl.tasks t WHERE t.id = d.task_id), 0)
FROM pawl.deadlines d
WHERE d.at <= $1 AND (d.at, d.item_id) > ($2, $3)
ORDER BY d.at, d.item_id
LIMIT $4

-- name: queued too long
SELECT r.item_id, @namespace_of(r.queue_id), r.task_id, r.since + r.schedule_to_start * CAST(1000000 AS bigint), r.solo
FROM pawl.ready r
WHERE r.schedule_to_start IS NOT NULL AND r.since + r.schedule_to_start * CAST(1000000 AS bigint) <= $1
  AND (r.since + r.schedule_to_start * CAST(1000000 AS bigint), r.item_id) > ($2, $3)
ORDER BY r.since + r.schedule_to_start * CAST(1000000 AS bigint), r.item_id
LIMIT $4

-- The rows are locked: an item that was claimed meanwhile, and is queued again, has time
-- again.
-- name: still queued too long
SELECT r.item_id
FROM pawl.ready r
WHERE (r.queue_id, r.rank, r.item_id) IN (SELECT w.queue_id, w.rank, w.id FROM pawl.item_ranks w WHERE w.id IN @ids($1))
  AND r.since + r.schedule_to_start * CAST(1000000 AS bigint) <= $2
ORDER BY r.item_id
@lock

-- A row that another server has removed is not returned again: its item may have been
-- retried since.
-- name: take deadlines
DELETE FROM pawl.deadlines
WHERE item_id IN @ids($1)
RETURNING item_id
