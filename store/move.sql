-- name: items to move
SELECT i.id
FROM pawl.item_rows i
WHERE i.task_id = $1 AND i.namespace = $2 AND i.state IN @list($3)
ORDER BY i.id

-- name: items to retry
SELECT i.id
FROM pawl.item_rows i
WHERE i.task_id = $1 AND i.namespace = $2 AND i.state IN @list($3)
  AND NOT EXISTS (
    SELECT 1 FROM pawl.item_deps d
    WHERE d.item_id = i.id
      AND NOT EXISTS (SELECT 1 FROM pawl.finished_items e WHERE e.item_id = d.needs_id AND e.state = @state(completed)))
ORDER BY i.id

-- In the next two statements, COALESCE keeps the planner from reading all items of the task.
-- name: named items to move
SELECT w.id
FROM pawl.all_items w
WHERE w.id @among_ids($3) AND COALESCE(w.task_id, w.task_id) = $1 AND w.namespace = $2
ORDER BY w.id

-- name: named items to retry
SELECT w.id
FROM pawl.all_items w
WHERE w.id @among_ids($3) AND COALESCE(w.task_id, w.task_id) = $1 AND w.namespace = $2
  AND NOT EXISTS (
    SELECT 1 FROM pawl.item_deps d
    WHERE d.item_id = w.id
      AND NOT EXISTS (SELECT 1 FROM pawl.finished_items e WHERE e.item_id = d.needs_id AND e.state = @state(completed)))
ORDER BY w.id

-- The lock of a task is its row in tasks. Calls that add items take it shared; calls that
-- move the items of a task take it exclusively. Both take it before they lock any item.
-- name: lock task
SELECT t.solo
FROM pawl.tasks t
WHERE t.id = $1 AND t.namespace = $2
@exclusive

-- name: share task
SELECT t.priority
FROM pawl.tasks t
WHERE t.id = $1 AND t.namespace = $2
@shared

-- name: stored state
SELECT COALESCE(k.state, 'open'), COALESCE(k.failed_in, ''), (SELECT COUNT(*) FROM pawl.parents p WHERE p.task_id = $1)
FROM (SELECT 1 AS one) x
LEFT JOIN pawl.task_counters k ON k.task_id = $1

-- name: tally
UPDATE pawl.task_counters
SET open = open + $2, failed = failed + $3, dead = dead + $4, cancelled = cancelled + $5, updated_at = $6
WHERE task_id = $1
RETURNING state, COALESCE(failed_in, ''), items, open, failed, dead, cancelled, ignores_failures, todo

-- name: set task state
UPDATE pawl.task_counters
SET state = $2, version = version + 1, completed_at = $3, updated_at = $4,
  error = CASE WHEN $2 IN ('open', 'submitted', 'completed') THEN NULL ELSE error END, todo = CASE WHEN $2 = 'submitted' THEN 1 ELSE 0 END, ready_for_approval = 0, decide_by = NULL
WHERE task_id = $1

-- name: bump solo
INSERT INTO pawl.task_counters (task_id, namespace, version, updated_at)
SELECT @id(x.value ->> 0), x.value ->> 1, CAST(x.value ->> 2 AS INTEGER), CAST($2 AS BIGINT)
FROM @each($1) AS x
WHERE TRUE
ON CONFLICT (task_id) DO UPDATE SET version = pawl.task_counters.version + excluded.version, state = 'open', todo = 0, ready_for_approval = 0,
  decide_by = NULL, failed_in = NULL, error = NULL, updated_at = excluded.updated_at

-- name: let go of input hash
UPDATE pawl.tasks
SET dedupes = 0
WHERE id = $1 AND dedupes = 1

-- name: hold input hash
UPDATE pawl.tasks
SET dedupes = 1
WHERE id = $1 AND input_hash IS NOT NULL AND dedupes = 0

-- name: hold input hash if free
UPDATE pawl.tasks
SET dedupes = 1
WHERE id = $1 AND input_hash IS NOT NULL AND dedupes = 0
  AND NOT EXISTS (
    SELECT 1 FROM pawl.tasks o
    WHERE o.namespace = pawl.tasks.namespace AND o.type = pawl.tasks.type AND o.input_hash = pawl.tasks.input_hash AND o.dedupes = 1)

-- Dependents are locked in the order of item ids: see store.Hot.
-- name: feed dependents
WITH held AS MATERIALIZED (
  SELECT item_id
  FROM pawl.waiting
  WHERE item_id IN (SELECT d.item_id FROM pawl.item_deps d WHERE d.needs_id IN @ids($1))
  ORDER BY item_id
  @lock)
UPDATE pawl.waiting
SET needs = needs - (SELECT COUNT(*) FROM pawl.item_deps d WHERE d.item_id = pawl.waiting.item_id AND d.needs_id IN @ids($1))
WHERE item_id IN (SELECT item_id FROM held)

-- name: break dependents
WITH held AS MATERIALIZED (
  SELECT item_id
  FROM pawl.waiting
  WHERE item_id IN (SELECT d.item_id FROM pawl.item_deps d WHERE d.needs_id IN @ids($1))
  ORDER BY item_id
  @lock)
UPDATE pawl.waiting
SET broken = broken + 1
WHERE item_id IN (SELECT item_id FROM held)

-- name: hold waiting
SELECT needs, broken, attempt, solo
FROM pawl.waiting
WHERE item_id = $1
@lock

-- name: recount
UPDATE pawl.waiting AS w
SET needs = (SELECT COUNT(*) FROM pawl.item_deps d
    WHERE d.item_id = w.item_id AND NOT EXISTS (SELECT 1 FROM pawl.finished_items e WHERE e.item_id = d.needs_id AND e.state = @state(completed))),
  broken = CASE WHEN EXISTS (
    SELECT 1 FROM pawl.item_deps d
    WHERE d.item_id = w.item_id AND (
      EXISTS (SELECT 1 FROM pawl.parked_items r WHERE r.item_id = d.needs_id AND r.state IN @from_codes(item retry))
      OR EXISTS (SELECT 1 FROM pawl.finished_items e WHERE e.item_id = d.needs_id AND e.state <> @state(completed)))) THEN 1 ELSE 0 END
WHERE w.item_id = $1
RETURNING needs, broken

-- name: items to cancel
SELECT i.id
FROM pawl.task_counters k
JOIN pawl.item_rows i ON i.task_id = k.task_id
WHERE k.task_id = $1 AND k.namespace = $2 AND k.items > $3 AND k.state IN @from(task cancel) AND i.kind = 'work' AND i.state IN @list($4)
ORDER BY CASE WHEN i.state IN @from(item retry) THEN 0 ELSE 1 END, i.id

-- name: handed in
SELECT 1
FROM pawl.all_items w
JOIN pawl.parked_items r ON r.item_id = w.id
WHERE w.task_id = $1 AND w.kind = 'work' AND r.state = @state(submitted)
LIMIT 1
