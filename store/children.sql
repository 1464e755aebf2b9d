-- Children of tasks, and the items that wait for them.

-- A link may be that of a child which retention has removed.
-- name: own children
SELECT l.child_id
FROM pawl.child_links l
JOIN pawl.tasks t ON t.id = l.child_id
WHERE l.child_id IN @ids($1) AND l.parent_id = $2

-- name: keep children
SELECT l.child_id
FROM pawl.child_links l
JOIN pawl.tasks t ON t.id = l.child_id
WHERE l.child_id IN @ids($1) AND l.parent_id = $2
ORDER BY l.child_id
@kept

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

-- name: put wait
INSERT INTO pawl.child_waits (item_id, namespace, task_id, attempt, name, need, on_failure, total, ended, failed)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 0, 0)
ON CONFLICT (item_id) DO UPDATE SET attempt = $4, name = $5, need = $6, on_failure = $7, total = $8, ended = 0, failed = 0, over = 0

-- name: forget awaited
DELETE FROM pawl.awaited_children
WHERE item_id = $1

-- name: put awaited
INSERT INTO pawl.awaited_children (child_id, item_id)
VALUES ($1, $2)

-- name: hold item
UPDATE pawl.waiting
SET needs = 1
WHERE item_id = $1

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

-- name: pass on
UPDATE pawl.parents
SET todo = CASE WHEN todo > $2 THEN todo ELSE $2 END
WHERE task_id = $1

-- name: cancel rest
INSERT INTO pawl.child_cancels (item_id, child_id, namespace, task_id)
SELECT a.item_id, a.child_id, $2, $3
FROM pawl.awaited_children a
WHERE a.item_id = $1 AND a.state IS NULL
ON CONFLICT (item_id, child_id) DO NOTHING
