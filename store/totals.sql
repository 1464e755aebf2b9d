-- The totals of events, by namespace, type and kind. Only a transaction that has locked the feed
-- changes them.

-- name: totals
SELECT namespace, type, move, events
FROM pawl.totals
WHERE namespace = $1 OR $1 = ''

-- name: add
INSERT INTO pawl.totals (namespace, type, move, events)
VALUES ($1, $2, $3, $4)
ON CONFLICT (namespace, type, move) DO UPDATE
SET events = pawl.totals.events + excluded.events

-- name: forget
DELETE FROM pawl.totals

-- name: forget removals
UPDATE pawl.log_removals
SET counts = '[]'
WHERE leaf IS NULL

-- name: count
SELECT x.namespace, COALESCE(@type_of(x.queue_id), ''), x.move, x.events
FROM (
  SELECT e.namespace, e.queue_id, e.move, COUNT(*) AS events
  FROM pawl.task_events e
  WHERE e.id >= $1 AND e.id <= $2 AND e.queue_id IS NOT NULL
  GROUP BY e.namespace, e.queue_id, e.move) x
UNION ALL
SELECT y.namespace, y.type, y.move, COUNT(*)
FROM (
  SELECT e.namespace, e.move,
    COALESCE((SELECT w.type FROM pawl.all_items w WHERE w.id = e.item_id), (SELECT t.type FROM pawl.tasks t WHERE t.id = e.task_id), '') AS type
  FROM pawl.task_events e
  WHERE e.id >= $1 AND e.id <= $2 AND e.queue_id IS NULL) y
GROUP BY y.namespace, y.type, y.move

-- The type is that of the queue, if the event says it.
-- name: events of tasks
SELECT e.id, COALESCE(e.queue_id, 0), e.namespace,
  CASE WHEN e.queue_id IS NULL
    THEN COALESCE((SELECT w.type FROM pawl.all_items w WHERE w.id = e.item_id), (SELECT t.type FROM pawl.tasks t WHERE t.id = e.task_id), '')
    ELSE '' END,
  e.move
FROM pawl.task_events e
WHERE e.task_id @among_ids($1)

-- name: events of task
SELECT e.id, COALESCE(e.queue_id, 0), e.namespace,
  CASE WHEN e.queue_id IS NULL
    THEN COALESCE((SELECT w.type FROM pawl.all_items w WHERE w.id = e.item_id), (SELECT t.type FROM pawl.tasks t WHERE t.id = e.task_id), '')
    ELSE '' END,
  e.move
FROM pawl.task_events e
WHERE e.task_id = $1 AND e.id >= $2 AND e.id <= $3

-- These events stay when a task is deleted.
-- name: tombstones of task
SELECT event_id
FROM pawl.tombstones
WHERE task_id = $1

-- Tasks of which an item is leased: those of one by the state of the item; those of many whose
-- items are all open.
-- name: held tasks
SELECT @state_name(l.state), COUNT(*)
FROM pawl.leases l
WHERE l.namespace = $1 AND l.solo = 1
GROUP BY l.state
UNION ALL
SELECT @state_name(x.state), COUNT(*)
FROM (
  SELECT l.task_id, MAX(l.state) AS state
  FROM pawl.leases l
  JOIN pawl.task_counters k ON k.task_id = l.task_id
  WHERE l.namespace = $1 AND l.solo = 0 AND k.state = 'open' AND k.planning = 0 AND k.open = k.items
  GROUP BY l.task_id) x
GROUP BY x.state

-- name: begun tasks
SELECT COUNT(*)
FROM pawl.task_counters k
JOIN pawl.tasks t ON t.id = k.task_id
WHERE k.state <> 'completed' AND k.state = 'open' AND k.namespace = $1 AND k.open < k.items AND t.solo = 0

-- The items of tasks of many that are not queued yet, and their tasks of which no item is.
-- name: pending of many
SELECT CAST(COALESCE(SUM(x.scheduled), 0) AS bigint), CAST(COALESCE(SUM(x.waiting), 0) AS bigint),
  COALESCE(SUM(CASE WHEN x.later AND x.scheduled > 0 THEN 1 ELSE 0 END), 0), COALESCE(SUM(CASE WHEN x.later AND x.scheduled = 0 THEN 1 ELSE 0 END), 0)
FROM (
  SELECT p.scheduled, p.waiting,
    COALESCE(k.state = 'open' AND CASE WHEN k.planning = 1 THEN 0 ELSE k.items END <= p.scheduled + p.waiting AND k.open >= k.items
      AND NOT EXISTS (SELECT 1 FROM pawl.leases l WHERE l.task_id = p.task_id AND k.planning = 0), FALSE) AS later
  FROM (
    SELECT m.task_id, SUM(m.scheduled) AS scheduled, SUM(m.waiting) AS waiting
    FROM (
      SELECT s.task_id, 1 AS scheduled, 0 AS waiting FROM pawl.scheduled s WHERE s.solo = 0 AND s.queue_id IN @queues_of($1)
      UNION ALL
      SELECT g.task_id, 0, 1 FROM pawl.waiting g WHERE g.solo = 0 AND g.queue_id IN @queues_of($1)) m
    GROUP BY m.task_id) p
  LEFT JOIN pawl.task_counters k ON k.task_id = p.task_id) x

-- The oldest item of each queue in each state that has not ended and is not leased.
-- name: oldest
SELECT q.namespace, q.type, 'queued', (
  WITH RECURSIVE g (rank) AS (
    SELECT (SELECT r.rank FROM pawl.ready r WHERE r.queue_id = q.id ORDER BY r.rank LIMIT 1)
    UNION ALL
    SELECT (SELECT r.rank FROM pawl.ready r WHERE r.queue_id = q.id AND r.rank > g.rank ORDER BY r.rank LIMIT 1)
    FROM g
    WHERE g.rank IS NOT NULL)
  SELECT @least(f.item_id)
  FROM (SELECT (SELECT r.item_id FROM pawl.ready r WHERE r.queue_id = q.id AND r.rank = g.rank ORDER BY r.item_id LIMIT 1) AS item_id FROM g) f)
FROM pawl.queues q
WHERE q.namespace = $1 OR $1 = ''
UNION ALL
SELECT q.namespace, q.type, 'scheduled', (SELECT s.item_id FROM pawl.scheduled s WHERE s.queue_id = q.id ORDER BY s.item_id LIMIT 1)
FROM pawl.queues q
WHERE q.namespace = $1 OR $1 = ''
UNION ALL
SELECT q.namespace, q.type, 'waiting', (SELECT g.item_id FROM pawl.waiting g WHERE g.queue_id = q.id ORDER BY g.item_id LIMIT 1)
FROM pawl.queues q
WHERE q.namespace = $1 OR $1 = ''
UNION ALL
SELECT q.namespace, q.type, @state_name(p.state), (SELECT x.item_id FROM pawl.parked_items x WHERE x.queue_id = q.id AND x.state = p.state ORDER BY x.item_id LIMIT 1)
FROM pawl.queues q
CROSS JOIN (SELECT @state(submitted) AS state UNION ALL SELECT @state(accepted) UNION ALL SELECT @state(failed) UNION ALL SELECT @state(dead_lettered)) p
WHERE q.namespace = $1 OR $1 = ''
