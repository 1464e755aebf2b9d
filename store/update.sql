-- The columns of a task that a call may change, and the priorities of its items.

-- name: priorities to change
SELECT w.id
FROM pawl.tasks t
JOIN pawl.all_items w ON w.task_id = t.id
WHERE t.id IN @ids($1) AND w.priority = t.priority AND t.priority <> $2 AND NOT EXISTS (SELECT 1 FROM pawl.finished_items e WHERE e.item_id = w.id)
ORDER BY w.id

-- name: set priorities
UPDATE pawl.items
SET priority = $2
WHERE id IN @ids($1)

-- name: set priorities of tasks of one
UPDATE pawl.tasks
SET item_priority = $2
WHERE id IN @ids($1) AND solo = 1

-- name: lock task
INSERT INTO pawl.task_counters (task_id, namespace, updated_at)
SELECT @id(x.value ->> 0), $2, CAST($3 AS BIGINT)
FROM @each($1) AS x
WHERE TRUE
ON CONFLICT (task_id) DO UPDATE SET updated_at = pawl.task_counters.updated_at

-- name: new version
UPDATE pawl.task_counters
SET version = version + 1, updated_at = $2
WHERE task_id IN @ids($1)

-- name: update task
UPDATE pawl.tasks AS t
SET title = x.value ->> 1, priority = CAST(x.value ->> 2 AS INTEGER), metadata = x.value ->> 3,
  item_priority = CASE WHEN t.item_priority <> CAST(x.value ->> 2 AS INTEGER) THEN t.item_priority END
FROM @each($1) AS x
WHERE t.id = @id(x.value ->> 0)
