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
