-- What bulk calls read and change, with the same statements for many tasks.

-- name: selected
SELECT t.id, t.type, t.version
FROM pawl.task_rows t

-- What an update may change of tasks, and what it goes by.
-- name: to update
SELECT t.id, t.namespace, t.state, t.title, t.priority, t.metadata, t.version, t.items
FROM pawl.task_rows t
WHERE t.id @among_ids($1)
ORDER BY t.id

-- The locks of tasks, in the order of their ids. COALESCE keeps the planner from reading all tasks
-- of the namespace.
-- name: lock tasks
SELECT t.id
FROM pawl.tasks t
WHERE t.id @among_ids($1) AND COALESCE(t.namespace, t.namespace) = $2
ORDER BY t.id
@exclusive

-- Tasks of one item that a verb changes by moving the item alone: no other item, no decision, no
-- children, no messages, and no input hash that has to be held again ($2 = 1: the verb lets go
-- of it).
-- name: plain tasks
SELECT t.id
FROM pawl.tasks t
LEFT JOIN pawl.task_counters k ON k.task_id = t.id
WHERE t.id @among_ids($1) AND t.solo = 1 AND ($2 = 1 OR t.input_hash IS NULL OR t.dedupes = 1)
  AND COALESCE(k.state, 'open') = 'open' AND k.failed_in IS NULL
  AND NOT EXISTS (SELECT 1 FROM pawl.items i WHERE i.task_id = t.id)
  AND NOT EXISTS (SELECT 1 FROM pawl.parents p WHERE p.task_id = t.id)
  AND NOT EXISTS (SELECT 1 FROM pawl.messages m WHERE m.task_id = t.id)

-- name: let go of input hashes
UPDATE pawl.tasks
SET dedupes = 0
WHERE id IN @ids($1) AND dedupes = 1
