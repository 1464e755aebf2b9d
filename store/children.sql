-- Children of tasks, and the items that wait for them.

-- name: parents of tasks
SELECT l.parent_id
FROM pawl.child_links l
WHERE l.child_id IN @ids($1)

-- name: lock tasks
SELECT t.id
FROM pawl.tasks t
WHERE t.id @among_ids($1)
ORDER BY t.id
@exclusive

-- name: lock links
SELECT l.child_id
FROM pawl.child_links l
WHERE l.child_id IN @ids($1)
ORDER BY l.child_id
@lock

-- name: open waits for children
SELECT a.child_id, a.item_id, w.task_id
FROM pawl.awaited_children a
JOIN pawl.child_waits w ON w.item_id = a.item_id
WHERE a.child_id @among_ids($1) AND a.state IS NULL

-- The two lists are not joined: the planner would join all tables of the view first.
-- name: states of tasks
SELECT t.id, t.state, t.error
FROM pawl.task_rows t
WHERE t.id @among_ids($1)

-- name: lock waits
SELECT w.item_id, w.namespace, w.task_id, w.attempt, w.need, w.on_failure, w.total, w.ended, w.failed
FROM pawl.child_waits w
WHERE w.item_id IN @ids($1) AND w.over = 0
ORDER BY w.item_id
@lock

-- name: end awaited
UPDATE pawl.awaited_children
SET state = $3, error = $4
WHERE child_id IN @ids($1) AND item_id = $2 AND state IS NULL

-- name: count wait
UPDATE pawl.child_waits
SET ended = $2, failed = $3, over = $4
WHERE item_id = $1

-- What is to be deleted stays so.
-- name: pass on
UPDATE pawl.parents
SET todo = CASE WHEN todo > 1 THEN todo ELSE 1 END
WHERE task_id = $1

-- name: cancel rest
INSERT INTO pawl.child_cancels (item_id, child_id, namespace, task_id)
SELECT a.item_id, a.child_id, $2, $3
FROM pawl.awaited_children a
WHERE a.item_id = $1 AND a.state IS NULL
ON CONFLICT (item_id, child_id) DO NOTHING
