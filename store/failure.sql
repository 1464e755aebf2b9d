-- Groups of failures: failed and dead-lettered items of a type with the same error.

-- One row for each group and state. $5: tasks that are being made. example is the item that failed last.
-- name: groups
SELECT g.type, g.failure, @state_name(g.state), g.items, g.first_at, g.last_at,
  (SELECT p.item_id
    FROM pawl.parked_items p
    WHERE p.queue_id = g.queue_id AND p.failure = g.failure AND p.state = g.state AND p.since = g.last_at
      AND NOT (p.task_id @among_ids($5))
    ORDER BY p.item_id DESC
    LIMIT 1)
FROM (
  SELECT q.type, p.queue_id, p.failure, p.state, COUNT(*) AS items, MIN(p.since) AS first_at, MAX(p.since) AS last_at
  FROM pawl.queues q
  JOIN pawl.parked_items p ON p.queue_id = q.id
  WHERE q.namespace = $1 AND p.failure IS NOT NULL AND ($2 = '[]' OR q.type IN @list($2)) AND @state_name(p.state) IN @list($3)
    AND NOT (p.task_id @among_ids($5))
  GROUP BY q.type, p.queue_id, p.failure, p.state
  ORDER BY items DESC, q.type, p.failure
  LIMIT $4) g

-- Tasks that failed when they were planned or applied, and not by an item, the newest ones in each state. Those that an
-- item failed may be very many, also of other namespaces: of these, too, the newest are read.
-- name: tasks
SELECT x.id, x.type, x.state, x.at, x.error
FROM (
  SELECT *
  FROM (
    SELECT t.id, t.type, k.state, COALESCE(k.completed_at, k.updated_at) AS at, k.error
    FROM (SELECT * FROM pawl.task_counters WHERE state = 'failed' ORDER BY task_id DESC LIMIT $4) k
    JOIN pawl.tasks t ON t.id = k.task_id
    WHERE k.namespace = $1 AND k.failed_in IS NOT NULL AND k.error IS NOT NULL AND ($2 = '[]' OR t.type IN @list($2))
      AND NOT EXISTS (
        SELECT 1 FROM pawl.all_items w
        JOIN pawl.parked_items p ON p.item_id = w.id
        WHERE w.task_id = k.task_id AND w.kind = k.failed_in AND p.failure IS NOT NULL)
    ORDER BY k.task_id DESC
    LIMIT $3) f
  UNION ALL
  SELECT *
  FROM (
    SELECT t.id, t.type, k.state, COALESCE(k.completed_at, k.updated_at) AS at, k.error
    FROM (SELECT * FROM pawl.task_counters WHERE state = 'dead_lettered' ORDER BY task_id DESC LIMIT $4) k
    JOIN pawl.tasks t ON t.id = k.task_id
    WHERE k.namespace = $1 AND k.failed_in IS NOT NULL AND k.error IS NOT NULL AND ($2 = '[]' OR t.type IN @list($2))
      AND NOT EXISTS (
        SELECT 1 FROM pawl.all_items w
        JOIN pawl.parked_items p ON p.item_id = w.id
        WHERE w.task_id = k.task_id AND w.kind = k.failed_in AND p.failure IS NOT NULL)
    ORDER BY k.task_id DESC
    LIMIT $3) d) x

-- Those of them that are given.
-- name: these tasks
SELECT t.id, t.type, k.state, COALESCE(k.completed_at, k.updated_at), k.error
FROM pawl.task_counters k
JOIN pawl.tasks t ON t.id = k.task_id
WHERE k.task_id @among_ids($3) AND k.state IN ('failed', 'dead_lettered') AND k.namespace = $1 AND k.failed_in IS NOT NULL AND k.error IS NOT NULL
  AND t.type IN @list($2) AND NOT EXISTS (
        SELECT 1 FROM pawl.all_items w
        JOIN pawl.parked_items p ON p.item_id = w.id
        WHERE w.task_id = k.task_id AND w.kind = k.failed_in AND p.failure IS NOT NULL)

-- name: an item
SELECT 1
FROM pawl.parked_items p
WHERE p.failure = $1 AND p.queue_id = (SELECT q.id FROM pawl.queues q WHERE q.namespace = $2 AND q.type = $3)
LIMIT 1

-- name: examples
SELECT p.item_id, p.task_id, p.error
FROM pawl.parked_items p
WHERE p.item_id @among_ids($1)

-- name: example tasks
SELECT k.task_id, k.error
FROM pawl.task_counters k
WHERE k.task_id @among_ids($1) AND k.error IS NOT NULL

-- name: items of group
SELECT p.task_id, p.item_id
FROM pawl.parked_items p
WHERE p.task_id @among_ids($1) AND p.error IS NOT NULL AND p.failure = $2 AND p.queue_id = (SELECT q.id FROM pawl.queues q WHERE q.namespace = $3 AND q.type = $4)
ORDER BY p.task_id, p.item_id
