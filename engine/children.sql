-- The depth is that of the children: 1 for those of a task without a parent.
-- name: count children
INSERT INTO pawl.parents (task_id, namespace, depth, children)
VALUES ($1, $2, COALESCE((SELECT l.depth FROM pawl.child_links l WHERE l.child_id = $1), 0) + 1, $3)
ON CONFLICT (task_id) DO UPDATE SET children = pawl.parents.children + $3
RETURNING depth, children

-- name: link child
INSERT INTO pawl.child_links (child_id, namespace, parent_id, item_id, key, depth)
VALUES ($1, $2, $3, $4, $5, $6)

-- name: children so far
SELECT children
FROM pawl.parents
WHERE task_id = $1

-- name: child by key
SELECT l.child_id
FROM pawl.child_links l
WHERE l.parent_id = $1 AND l.key = $2

-- name: task of item
SELECT w.task_id
FROM pawl.all_items w
WHERE w.id = $1 AND w.namespace = $2

-- What a process that died may have left: the children of open waits are compared in
-- pages, in the order of ids.
-- name: open awaited
SELECT a.item_id, a.child_id
FROM pawl.child_waits w
JOIN pawl.waiting g ON g.item_id = w.item_id AND g.attempt = w.attempt
JOIN pawl.awaited_children a ON a.item_id = w.item_id
WHERE w.over = 0 AND w.item_id >= $1 AND a.state IS NULL AND (a.item_id, a.child_id) > ($1, $2)
ORDER BY a.item_id, a.child_id
LIMIT $3

-- name: wait of item
SELECT w.name, w.need, w.on_failure, w.total, w.ended, w.failed, w.over
FROM pawl.child_waits w
WHERE w.item_id = $1

-- name: delete after children
UPDATE pawl.parents
SET todo = 2, delete_by = $2
WHERE task_id = $1

-- name: open child
SELECT a.child_id
FROM pawl.awaited_children a
WHERE a.item_id = $1 AND a.state IS NULL
ORDER BY a.child_id
LIMIT 1

-- name: cancelled parents
SELECT p.namespace, p.task_id, NULL, p.todo, p.delete_by
FROM pawl.parents p
WHERE p.todo > 0 AND p.task_id > $2
ORDER BY p.task_id
LIMIT $1

-- name: cancelling waits
SELECT DISTINCT c.namespace, c.task_id, c.item_id, 1, NULL
FROM pawl.child_cancels c
WHERE c.item_id > $2
ORDER BY c.item_id
LIMIT $1

-- name: children of parent
SELECT l.child_id
FROM pawl.child_links l
WHERE l.parent_id = $1 AND l.child_id > $2
ORDER BY l.child_id
LIMIT $3

-- name: children of wait
SELECT c.child_id
FROM pawl.child_cancels c
WHERE c.item_id = $1 AND c.child_id > $2
ORDER BY c.child_id
LIMIT $3

-- name: doom children
UPDATE pawl.child_links
SET doomed = 1
WHERE child_id IN @ids($1)

-- name: doomed children
SELECT l.child_id
FROM pawl.child_links l
WHERE l.parent_id = $1 AND l.doomed = 1 AND l.child_id > $2
ORDER BY l.child_id
LIMIT $3

-- A parent that is to be removed after its children stays: the next pass removes it.
-- name: passed on
UPDATE pawl.parents
SET todo = 0
WHERE task_id = $1 AND todo = $2 AND delete_by IS NULL

-- name: rest is cancelled
DELETE FROM pawl.child_cancels
WHERE item_id = $1 AND child_id IN @ids($2)

-- name: spare child
UPDATE pawl.child_links
SET doomed = 0
WHERE child_id = $1

-- The result of a child is what was applied, or that of its only item, which has its id. An item of a task of many may
-- have its id too.
-- name: ended children
SELECT x.child_id, x.key, x.state, x.error, length(x.result), CASE WHEN length(x.result) <= $3 THEN x.result END
FROM (
  SELECT a.child_id, l.key, a.state, a.error, COALESCE(p.payload, e.result) AS result
  FROM pawl.awaited_children a
  LEFT JOIN pawl.child_links l ON l.child_id = a.child_id
  LEFT JOIN pawl.task_results p ON p.task_id = a.child_id AND a.state = 'completed'
  LEFT JOIN pawl.tasks t ON t.id = a.child_id AND t.solo = 1 AND a.state = 'completed'
  LEFT JOIN pawl.finished_items e ON e.item_id = t.id
  WHERE a.item_id = $1 AND a.state IS NOT NULL AND a.child_id > $2
  ORDER BY a.child_id
  LIMIT $4
) x
ORDER BY x.child_id
