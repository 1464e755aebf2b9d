-- A tombstone is what remains of a deleted task: the event `deleted`, a row of tombstones
-- with the number of that event.

-- name: bury task
INSERT INTO pawl.tombstones (task_id, event_id, namespace, created_at)
VALUES ($1, $2, $3, $4)

-- name: tombstone
SELECT b.event_id, e.data
FROM pawl.tombstones b
LEFT JOIN pawl.task_events e ON e.id = b.event_id AND e.move IN @events(task 'deleted')
WHERE b.task_id = $1 AND b.restored_at IS NULL
ORDER BY b.event_id DESC
LIMIT 1

-- name: task was deleted
SELECT b.created_at, COALESCE(@kind_of(e.actor), 'somebody'), @name_of(e.actor)
FROM pawl.tombstones b
LEFT JOIN pawl.task_events e ON e.id = b.event_id
WHERE b.task_id = $1 AND b.namespace = $2 AND b.restored_at IS NULL
ORDER BY b.event_id DESC
LIMIT 1

-- name: being deleted
SELECT DISTINCT e.task_id
FROM pawl.task_events e
WHERE e.task_id @among_ids($1) AND e.move IN @events(task 'deleted') AND EXISTS (SELECT 1 FROM pawl.tasks t WHERE t.id = e.task_id)
  AND NOT EXISTS (SELECT 1 FROM pawl.tombstones b WHERE b.task_id = e.task_id AND b.event_id = e.id AND b.restored_at IS NOT NULL)

-- name: mark tombstones restored
UPDATE pawl.tombstones
SET restored_at = $2
WHERE task_id = $1 AND restored_at IS NULL

-- name: old tombstones
SELECT b.task_id, b.event_id
FROM pawl.tombstones b
WHERE b.created_at <= $1
  AND NOT EXISTS (SELECT 1 FROM pawl.tasks t WHERE t.id = b.task_id)
ORDER BY b.created_at, b.event_id
LIMIT $2
@lock

-- The rows are locked, so a restore has either ended or waits.
-- name: tasks of tombstones
SELECT t.id
FROM pawl.tasks t
WHERE t.id @among_ids($1)

-- name: remove tombstone
DELETE FROM pawl.tombstones
WHERE task_id = $1 AND event_id = $2
  AND NOT EXISTS (SELECT 1 FROM pawl.tasks t WHERE t.id = $1)

-- name: remove event of tombstone
DELETE FROM pawl.task_events
WHERE id = $2 AND task_id = $1
  AND NOT EXISTS (SELECT 1 FROM pawl.tombstones b WHERE b.task_id = $1 AND b.event_id = $2)

-- name: events of tasks
SELECT task_id, COUNT(*), MAX(id)
FROM pawl.task_events
WHERE task_id @among_ids($1) AND move NOT IN @events(task 'deleted')
GROUP BY task_id

-- name: tasks to delete
SELECT t.id, t.type, t.state
FROM pawl.task_rows t
WHERE t.id @among_ids($1) AND COALESCE(t.namespace, t.namespace) = $2
  AND NOT EXISTS (SELECT 1 FROM pawl.parents p WHERE p.task_id = t.id)
  AND NOT EXISTS (SELECT 1 FROM pawl.child_links l WHERE l.child_id = t.id AND l.doomed = 0)
  AND NOT EXISTS (SELECT 1 FROM pawl.task_events e WHERE e.task_id = t.id AND e.move IN @events(task 'deleted'))
  AND NOT EXISTS (SELECT 1 FROM pawl.effects f WHERE f.task_id = t.id AND @undecided(f))
ORDER BY t.id
