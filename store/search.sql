-- The search of tasks and items.

-- The types of a namespace: those of items, and those of tasks whose items are of other types.
-- name: types
WITH RECURSIVE x (type) AS (
  SELECT (SELECT t.type FROM pawl.tasks t WHERE t.namespace = $1 AND (t.solo = 0 OR t.item_type IS NOT NULL) ORDER BY t.type LIMIT 1)
  UNION ALL
  SELECT (SELECT t.type FROM pawl.tasks t WHERE t.namespace = $1 AND (t.solo = 0 OR t.item_type IS NOT NULL) AND t.type > x.type ORDER BY t.type LIMIT 1)
  FROM x
  WHERE x.type IS NOT NULL)
SELECT x.type FROM x WHERE x.type IS NOT NULL
UNION
SELECT q.type FROM pawl.queues q WHERE q.namespace = $1

-- name: errors of task
SELECT p.task_id, p.error FROM pawl.parked_items p WHERE p.task_id @among_ids($1) AND p.error IS NOT NULL
UNION ALL
SELECT r.task_id, r.error FROM pawl.ready r WHERE r.task_id @among_ids($1) AND r.failures > 0
UNION ALL
SELECT s.task_id, s.error FROM pawl.scheduled s WHERE s.task_id @among_ids($1) AND s.failures > 0
UNION ALL
SELECT w.task_id, w.error FROM pawl.waiting w WHERE w.task_id @among_ids($1) AND w.failures > 0
UNION ALL
SELECT l.task_id, l.error FROM pawl.leases l WHERE l.task_id @among_ids($1) AND l.failures > 0

-- name: errors of item
SELECT p.item_id, p.error FROM pawl.parked_items p WHERE p.item_id @among_ids($1) AND p.error IS NOT NULL
UNION ALL
SELECT r.item_id, r.error
FROM pawl.item_ranks k
JOIN pawl.ready r ON r.queue_id = k.queue_id AND r.rank = k.rank AND r.item_id = k.id
WHERE k.id @among_ids($1) AND r.failures > 0
UNION ALL
SELECT s.item_id, s.error FROM pawl.scheduled s WHERE s.item_id @among_ids($1) AND s.failures > 0
UNION ALL
SELECT w.item_id, w.error FROM pawl.waiting w WHERE w.item_id @among_ids($1) AND w.failures > 0
UNION ALL
SELECT l.item_id, l.error FROM pawl.leases l WHERE l.item_id @among_ids($1) AND l.failures > 0
