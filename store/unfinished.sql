-- What keeps retention from removing a task that is due.

-- What is still to come, and has been for long: the newest event of the task is at most $1.
-- name: pending for long
SELECT x.namespace, x.task_id, x.what
FROM (
  SELECT p.namespace, p.task_id, 'its children have not got its cancel or delete' AS what FROM pawl.parents p WHERE p.todo > 0
  UNION ALL
  SELECT c.namespace, c.task_id, 'children that it waited for have not got their cancel' FROM pawl.child_cancels c
  UNION ALL
  SELECT k.namespace, k.task_id, 'its next step has not been carried out' FROM pawl.task_counters k WHERE k.todo = 1
) x
WHERE (SELECT e.created_at FROM pawl.task_events e WHERE e.task_id = x.task_id ORDER BY e.id DESC LIMIT 1) <= $1
ORDER BY x.task_id
LIMIT $2

-- Those of the tasks with consequences that are still to come: a cancel or a delete that their children,
-- or they as children, have not got; a step of the engine; an open message that has to be
-- ended; a reservation that has to be settled; an effect of which it is not known whether it happened; an item that
-- waits, or has waited, for it as a child, and may still ask for its result: it has neither ended nor failed. $2: the final states.
-- name: unfinished
SELECT p.task_id
FROM pawl.parents p
WHERE p.task_id @among_ids($1) AND p.todo > 0
UNION
SELECT l.child_id
FROM pawl.child_links l
LEFT JOIN pawl.parents p ON p.task_id = l.parent_id
WHERE l.child_id @among_ids($1) AND (l.doomed = 1 OR p.todo > 0)
UNION
SELECT c.task_id
FROM pawl.child_cancels c
WHERE c.task_id @among_ids($1)
UNION
SELECT c.child_id
FROM pawl.child_cancels c
WHERE c.child_id @among_ids($1)
UNION
SELECT k.task_id
FROM pawl.task_counters k
WHERE k.task_id @among_ids($1) AND k.todo = 1
UNION
SELECT m.task_id
FROM pawl.messages m
WHERE m.task_id @among_ids($1) AND m.state = 'streaming'
  AND (m.item_id IS NOT NULL OR EXISTS (SELECT 1 FROM pawl.task_rows t WHERE t.id = m.task_id AND t.state @among($2)))
UNION
SELECT r.task_id
FROM pawl.budget_reservations r
WHERE r.task_id @among_ids($1) AND r.state = 0
UNION
SELECT f.task_id
FROM pawl.effects f
WHERE f.task_id @among_ids($1) AND @undecided(f)
UNION
SELECT a.child_id
FROM pawl.awaited_children a
WHERE a.child_id @among_ids($1) AND (a.state IS NULL OR a.state = 'completed')
  AND NOT EXISTS (SELECT 1 FROM pawl.finished_items f WHERE f.item_id = a.item_id)
  AND NOT EXISTS (SELECT 1 FROM pawl.parked_items k WHERE k.item_id = a.item_id AND k.state IN (@state(failed), @state(dead_lettered)))
