-- name: task to decide
SELECT t.type, t.type_version, t.solo, k.state, k.ready_for_approval, k.todo, COALESCE(k.failed_in, ''), k.decide_by, k.version, t.parent_id,
  (SELECT COUNT(*) FROM pawl.type_hooks h WHERE h.type = t.type AND h.hook = 'Check'),
  (SELECT COUNT(*) FROM pawl.type_hooks h WHERE h.type = t.type AND h.hook = 'AutoApprove')
FROM pawl.tasks t
JOIN pawl.task_counters k ON k.task_id = t.id
WHERE t.id = $1 AND t.namespace = $2
@exclusive

-- name: decided by
SELECT e.move, @kind_of(e.actor), @name_of(e.actor)
FROM pawl.task_events e
WHERE e.task_id = $1 AND e.item_id IS NULL AND e.move IN @events(task approve, reject, cancel)
ORDER BY e.id DESC
LIMIT 1

-- name: move task
UPDATE pawl.task_counters
SET state = $2, version = version + 1, todo = $3, ready_for_approval = 0, decide_by = NULL, failed_in = $4, error = CASE WHEN $2 = 'dead_lettered' THEN error ELSE $5 END,
  applied_at = CASE WHEN $2 = 'applied' THEN $7 ELSE applied_at END, completed_at = $6, updated_at = $7
WHERE task_id = $1

-- name: reopen
UPDATE pawl.task_counters
SET state = 'open', version = version + 1, open = $2, todo = 0, ready_for_approval = 0, decide_by = NULL, error = NULL, completed_at = NULL, updated_at = $3
WHERE task_id = $1

-- A check that fails again, or complains after it failed, leaves the time of the first one.
-- name: checked
UPDATE pawl.task_counters
SET ready_for_approval = $2, error = $3, decide_by = CASE WHEN CAST($2 AS SMALLINT) = 0 AND error IS NOT NULL THEN COALESCE(decide_by, $4) ELSE $4 END, todo = $5, updated_at = $6
WHERE task_id = $1

-- Not of an open task without an open item, or with an item that failed with a dependency and can run: see "left open".
-- name: nothing to do
UPDATE pawl.task_counters
SET todo = 0
WHERE task_id = $1 AND (state <> 'open' OR items = 0 OR open > 0 AND NOT EXISTS (
    SELECT 1 FROM pawl.parked_items r
    WHERE r.task_id = $1 AND r.error IS NOT NULL AND r.state = @state(failed) AND r.left_by = 'dependency'
      AND NOT EXISTS (
        SELECT 1 FROM pawl.item_deps d
        WHERE d.item_id = r.item_id
          AND NOT EXISTS (SELECT 1 FROM pawl.finished_items e WHERE e.item_id = d.needs_id AND e.state = @state(completed)))))

-- name: clear decide_by
UPDATE pawl.task_counters
SET decide_by = NULL, updated_at = $2
WHERE task_id = $1 AND decide_by IS NOT NULL

-- name: resting items
SELECT r.item_id
FROM pawl.all_items w
JOIN pawl.parked_items r ON r.item_id = w.id
WHERE w.task_id = $1 AND w.kind = 'work' AND @state_name(r.state) = $2
ORDER BY r.item_id
LIMIT $3

-- name: item aside
SELECT i.id, i.state, i.result, i.error
FROM pawl.item_rows i
WHERE i.task_id = $1 AND i.kind = $2
ORDER BY i.id DESC
LIMIT 1

-- name: put result
INSERT INTO pawl.task_results (task_id, namespace, payload, created_at)
VALUES ($1, $2, $3, $4)
ON CONFLICT (task_id) DO UPDATE SET payload = $3, created_at = $4

-- name: give reasons
UPDATE pawl.items
SET reasons = $2
WHERE id IN @ids($1)

-- name: give reasons of tasks of one
UPDATE pawl.tasks
SET reasons = $2
WHERE id IN @ids($1) AND solo = 1
