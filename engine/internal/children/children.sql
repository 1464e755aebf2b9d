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

-- name: delete children
UPDATE pawl.parents
SET todo = 2, delete_by = COALESCE($2, delete_by)
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

-- One of the two may be in its archive, or being restored from it.
-- name: links of children
SELECT @task_text(l.child_id), l.child_id, 'it is linked to ' || @task_text(l.parent_id) || ', and one of the two is not there, or of another namespace'
FROM pawl.child_links l
LEFT JOIN pawl.tasks t ON t.id = l.child_id
LEFT JOIN pawl.parents p ON p.task_id = l.parent_id AND p.namespace = l.namespace
LEFT JOIN pawl.tasks o ON o.id = l.parent_id AND o.namespace <> '*'
WHERE t.id IS NULL AND (o.id IS NULL OR NOT EXISTS (SELECT 1 FROM pawl.archives a WHERE a.task_id = l.child_id AND a.namespace = l.namespace))
  OR o.id IS NULL AND NOT EXISTS (SELECT 1 FROM pawl.archives a WHERE a.task_id = l.parent_id AND a.namespace = l.namespace)
  OR t.namespace <> l.namespace OR t.parent_id IS NULL AND t.id IS NOT NULL OR t.parent_id <> l.parent_id
  OR o.namespace <> l.namespace OR o.id IS NOT NULL AND p.task_id IS NULL

-- What is applied ends by itself. A task that was restored after its parent had been cancelled stays. PostgreSQL would plan the
-- view of tasks once for each use of a state.
-- name: orphan_child
WITH x AS MATERIALIZED (
  SELECT t.id, t.parent_id, (SELECT r.state FROM pawl.task_rows r WHERE r.id = t.id) AS state, (SELECT p.state FROM pawl.task_rows p WHERE p.id = t.parent_id) AS parent
  FROM pawl.tasks t
  WHERE t.id > $1 AND t.id <= $2 AND t.parent_id IS NOT NULL
)
SELECT @task_text(x.id), x.id, 'it is ' || x.state || ', and its parent ' || @task_text(x.parent_id) || ' is ' || COALESCE(x.parent, 'not there')
FROM x
WHERE x.state NOT IN @tasks(ended) AND x.state <> 'applied'
  AND (x.parent = 'cancelled' AND NOT EXISTS (SELECT 1 FROM pawl.parents p WHERE p.task_id = x.parent_id AND p.todo > 0)
    OR x.parent IS NULL AND NOT EXISTS (SELECT 1 FROM pawl.archives a WHERE a.task_id = x.parent_id))
  AND NOT EXISTS (SELECT 1 FROM pawl.archives a WHERE a.task_id = x.id)

-- name: parent_unlinked
SELECT @task_text(t.id), t.id, 'its parent is ' || @task_text(t.parent_id) || ', and there is no link to it'
FROM pawl.tasks t
JOIN pawl.tasks p ON p.id = t.parent_id
WHERE t.id > $1 AND t.id <= $2 AND NOT EXISTS (SELECT 1 FROM pawl.child_links l WHERE l.child_id = t.id)

-- name: waits for children
SELECT @item_text(x.item_id), x.task_id, 'it counts ' || x.ended || ' of ' || x.total || ' as ended and ' || x.failed || ' as failed; of ' || x.children || ' children ' || x.over || ' have ended, ' || x.lost || ' of them without completing'
FROM (
  SELECT w.item_id, w.task_id, w.total, w.ended, w.failed, COUNT(a.child_id) AS children, COUNT(a.state) AS over,
    CAST(COALESCE(SUM(CASE WHEN a.state <> 'completed' THEN 1 ELSE 0 END), 0) AS bigint) AS lost
  FROM pawl.child_waits w
  LEFT JOIN pawl.awaited_children a ON a.item_id = w.item_id
  GROUP BY w.item_id, w.task_id, w.total, w.ended, w.failed
) x
WHERE x.total <> x.children OR x.ended <> x.over OR x.failed <> x.lost
