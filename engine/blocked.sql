-- name: failed dependency
SELECT d.needs_id
FROM pawl.parked_items r
JOIN pawl.item_deps d ON d.item_id = r.item_id
WHERE r.item_id = $1 AND r.left_by = 'dependency'
  AND NOT EXISTS (SELECT 1 FROM pawl.finished_items e WHERE e.item_id = d.needs_id AND e.state = @state(completed))
ORDER BY d.needs_id
LIMIT 1

-- name: decide by
SELECT decide_by
FROM pawl.task_counters
WHERE task_id = $1

-- name: gate of item
SELECT r.queue_id, r.gate
FROM pawl.item_ranks w
JOIN pawl.ready r ON r.queue_id = w.queue_id AND r.rank = w.rank AND r.item_id = w.id
WHERE w.id = $1 AND r.gate IS NOT NULL

-- The items that an order counts: those that are held, those that were held before and wait, and
-- those that are queued.
-- name: first of gate
SELECT o.item_id
FROM (
  SELECT item_id FROM pawl.leases WHERE queue_id = $1 AND gate = $2
  UNION ALL
  SELECT item_id FROM pawl.scheduled WHERE gate = $2 AND attempt > 0
  UNION ALL
  SELECT item_id FROM pawl.waiting WHERE gate = $2 AND attempt > 0
  UNION ALL
  SELECT item_id FROM pawl.ready WHERE queue_id = $1 AND gate = $2
) o
ORDER BY o.item_id
LIMIT 1

-- name: longest silent
SELECT l.item_id
FROM pawl.leases l
WHERE l.queue_id = $1 AND l.gate BETWEEN $2 AND $3
ORDER BY CASE WHEN ($4 - l.heartbeat_at) * $5 > (l.lease_expires_at - l.heartbeat_at) * $6 THEN 0 ELSE 1 END, l.heartbeat_at, l.item_id
LIMIT 1
