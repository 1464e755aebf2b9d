-- name: places of tasks
SELECT x.task_id, x.place, x.n, x.item_id
FROM (
  SELECT s.task_id, 'scheduled' AS place, COUNT(*) OVER (PARTITION BY s.task_id) AS n, s.item_id,
    ROW_NUMBER() OVER (PARTITION BY s.task_id ORDER BY s.run_at, s.item_id) AS rank
  FROM pawl.scheduled s
  WHERE s.task_id IN @ids($1)
  UNION ALL
  SELECT g.task_id, 'waiting', COUNT(*) OVER (PARTITION BY g.task_id), g.item_id,
    ROW_NUMBER() OVER (PARTITION BY g.task_id ORDER BY CASE WHEN g.signal IS NOT NULL THEN 0 WHEN g.needs = 0 THEN 1 ELSE 2 END, g.item_id)
  FROM pawl.waiting g
  WHERE g.task_id IN @ids($1)
) x
WHERE x.rank = 1
UNION ALL
SELECT l.task_id, 'leased', COUNT(*), NULL
FROM pawl.leases l
WHERE l.task_id IN @ids($1)
GROUP BY l.task_id

-- name: queued types
SELECT DISTINCT w.task_id, w.type
FROM pawl.all_items w
WHERE w.task_id IN @ids($1) AND w.position < $2
  AND (EXISTS (SELECT 1 FROM pawl.ready r WHERE r.queue_id = w.queue_id AND r.rank = @new_rank(w.priority) AND r.item_id = w.id)
    OR EXISTS (SELECT 1 FROM pawl.ready r WHERE r.queue_id = w.queue_id AND r.rank = @requeue_rank(w.priority) AND r.item_id = w.id)
    OR EXISTS (SELECT 1 FROM pawl.ready r WHERE r.queue_id = w.queue_id AND r.rank = @lowered_rank(w.priority) AND r.item_id = w.id))
UNION
SELECT w.task_id, w.type
FROM pawl.task_counters k
JOIN pawl.items w ON w.task_id = k.task_id AND w.position >= k.items - $2
WHERE k.task_id IN @ids($1)
  AND (EXISTS (SELECT 1 FROM pawl.ready r WHERE r.queue_id = w.queue_id AND r.rank = @new_rank(w.priority) AND r.item_id = w.id)
    OR EXISTS (SELECT 1 FROM pawl.ready r WHERE r.queue_id = w.queue_id AND r.rank = @requeue_rank(w.priority) AND r.item_id = w.id)
    OR EXISTS (SELECT 1 FROM pawl.ready r WHERE r.queue_id = w.queue_id AND r.rank = @lowered_rank(w.priority) AND r.item_id = w.id))

-- name: blocked items
SELECT s.item_id, s.run_at, NULL, NULL, 0, NULL, NULL, s.failures, s.left_by
FROM pawl.scheduled s
WHERE s.item_id IN @ids($1)
UNION ALL
SELECT x.item_id, x.until, x.signal, x.signal_key, x.needs, x.first, w.key, x.failures, x.left_by
FROM (
  SELECT g.item_id, g.until, g.signal, g.signal_key, g.needs, g.failures, g.left_by,
    (SELECT d.needs_id FROM pawl.item_deps d
     WHERE d.item_id = g.item_id AND NOT EXISTS (SELECT 1 FROM pawl.finished_items e WHERE e.item_id = d.needs_id AND e.state = @state(completed))
     ORDER BY d.needs_id LIMIT 1) AS first
  FROM pawl.waiting g
  WHERE g.item_id IN @ids($1)
) x
LEFT JOIN pawl.items w ON w.id = x.first

-- name: waits for children
SELECT w.item_id, w.ended, w.total
FROM pawl.child_waits w
JOIN pawl.waiting g ON g.item_id = w.item_id AND g.attempt = w.attempt
WHERE w.item_id IN @ids($1) AND w.over = 0

-- What decides in a namespace whether an item can be claimed.
-- name: who claims
SELECT DISTINCT 'live', 0, '', k.types
FROM pawl.workers k
WHERE k.namespace = $1 AND (k.last_seen_at >= $2
  OR k.worker_id IN (SELECT @name_of(l.worker) FROM pawl.leases l WHERE l.namespace = $1 AND l.lease_expires_at > $3))
UNION ALL
SELECT 'limits', q.id, q.type, l.rules
FROM pawl.queues q
JOIN pawl.queue_limits l ON l.queue_id = q.id
WHERE q.namespace = $1 AND q.limited IS NOT NULL
UNION ALL
SELECT 'paused', q.id, q.type, NULL
FROM pawl.queues q
WHERE q.namespace = $1 AND q.paused_at IS NOT NULL
UNION ALL
SELECT 'all', 0, '', NULL
FROM pawl.paused_namespaces p
WHERE p.namespace = $1

-- name: workers seen
SELECT k.types, k.last_seen_at
FROM pawl.workers k
WHERE k.namespace = $1
ORDER BY k.last_seen_at DESC
LIMIT $2
