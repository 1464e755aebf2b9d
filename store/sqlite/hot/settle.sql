-- name: Count
UPDATE pawl.task_counters
SET open = open - $2, failed = failed + $3
WHERE task_id = $1
RETURNING namespace, state, items, open, failed, dead, cancelled, ignores_failures, todo

-- name: Submitted
SELECT CASE WHEN EXISTS (SELECT 1 FROM pawl.parked_items WHERE state = @state(submitted))
  THEN EXISTS (
    SELECT 1
    FROM pawl.items w
    CROSS JOIN pawl.parked_items r ON r.item_id = w.id
    WHERE w.task_id = $1 AND r.state = @state(submitted))
  ELSE 0 END

-- name: Settle
UPDATE pawl.task_counters
SET state = $2, version = version + 1, completed_at = $3, updated_at = $4, todo = CASE WHEN $2 = 'submitted' THEN 1 ELSE todo END
WHERE task_id = $1

-- name: Left
UPDATE pawl.task_counters
SET todo = 1
WHERE task_id = $1

-- name: FreeInputHash
UPDATE pawl.tasks
SET dedupes = 0
WHERE id = $1 AND dedupes = 1
