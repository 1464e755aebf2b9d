-- name: broken dependents
SELECT w.item_id, @namespace_of(w.queue_id), w.task_id,
  (SELECT COUNT(*) FROM pawl.item_deps d JOIN pawl.parked_items r ON r.item_id = d.needs_id WHERE d.item_id = w.item_id AND r.state IN @from_codes(item retry)),
  (SELECT COUNT(*) FROM pawl.item_deps d JOIN pawl.finished_items e ON e.item_id = d.needs_id WHERE d.item_id = w.item_id AND e.state <> @state(completed))
FROM pawl.waiting w
WHERE w.broken > 0 AND w.item_id > $1
ORDER BY w.item_id
LIMIT $2

-- Only tasks in which no item that failed with a dependency can run.
-- name: left open
SELECT k.task_id, k.namespace
FROM pawl.task_counters k
WHERE k.todo = 1 AND k.state = 'open' AND k.open = 0 AND k.items > 0 AND k.task_id > $1
  AND NOT EXISTS (
    SELECT 1 FROM pawl.parked_items r
    WHERE r.task_id = k.task_id AND r.error IS NOT NULL AND r.state = @state(failed) AND r.left_by = 'dependency'
      AND NOT EXISTS (
        SELECT 1 FROM pawl.item_deps d
        WHERE d.item_id = r.item_id
          AND NOT EXISTS (SELECT 1 FROM pawl.finished_items e WHERE e.item_id = d.needs_id AND e.state = @state(completed))))
ORDER BY k.task_id
LIMIT $2

-- name: lost dependents
SELECT r.item_id, @namespace_of(r.queue_id), r.task_id, 0, 1
FROM pawl.parked_items r
WHERE r.state = @state(failed) AND r.left_by = 'dependency' AND r.item_id > $1
  AND NOT EXISTS (SELECT 1 FROM pawl.task_counters k WHERE k.task_id = r.task_id AND k.state IN @tasks(ended))
  AND NOT EXISTS (SELECT 1 FROM pawl.tasks t WHERE t.id = r.task_id AND t.namespace = '*') -- it is being restored
  AND EXISTS (SELECT 1 FROM pawl.item_deps d JOIN pawl.finished_items e ON e.item_id = d.needs_id WHERE d.item_id = r.item_id AND e.state <> @state(completed))
ORDER BY r.item_id
LIMIT $2

-- name: mendable dependents
SELECT r.item_id, @namespace_of(r.queue_id), r.task_id, 0, 0
FROM pawl.parked_items r
WHERE r.state = @state(failed) AND r.left_by = 'dependency' AND r.item_id > $1
  AND NOT EXISTS (SELECT 1 FROM pawl.task_counters k WHERE k.task_id = r.task_id AND k.state IN @tasks(ended))
  AND NOT EXISTS (SELECT 1 FROM pawl.tasks t WHERE t.id = r.task_id AND t.namespace = '*') -- it is being restored
  AND NOT EXISTS (
    SELECT 1 FROM pawl.item_deps d
    WHERE d.item_id = r.item_id
      AND NOT EXISTS (SELECT 1 FROM pawl.finished_items e WHERE e.item_id = d.needs_id AND e.state = @state(completed)))
ORDER BY r.item_id
LIMIT $2

-- Waiting items whose count of open dependencies, or of failed ones, differs from the rows
-- of these dependencies.
-- name: miscounted dependents
SELECT w.item_id, @namespace_of(w.queue_id), w.task_id, 0, 0
FROM pawl.waiting w
WHERE w.item_id > $1 AND w.item_id <= $2 AND w.needs > 0
  AND NOT EXISTS (SELECT 1 FROM pawl.child_waits c WHERE c.item_id = w.item_id AND c.attempt = w.attempt AND c.over = 0) AND (
  w.needs <> (SELECT COUNT(*) FROM pawl.item_deps d
    WHERE d.item_id = w.item_id AND NOT EXISTS (SELECT 1 FROM pawl.finished_items e WHERE e.item_id = d.needs_id AND e.state = @state(completed)))
  OR w.broken = 0 AND EXISTS (
    SELECT 1 FROM pawl.item_deps d
    WHERE d.item_id = w.item_id AND (
      EXISTS (SELECT 1 FROM pawl.parked_items r WHERE r.item_id = d.needs_id AND r.state IN @from_codes(item retry))
      OR EXISTS (SELECT 1 FROM pawl.finished_items e WHERE e.item_id = d.needs_id AND e.state <> @state(completed)))))
ORDER BY w.item_id

-- name: unsettled tasks
SELECT k.task_id, k.namespace
FROM pawl.task_counters k
WHERE k.state IN @from(task retry) AND k.items > 0 AND k.open = 0 AND k.failed = 0 AND k.dead = 0 AND k.failed_in IS NULL AND k.task_id > $1
ORDER BY k.task_id
LIMIT $2

-- name: waiting until
SELECT item_id
FROM pawl.waiting
WHERE item_id > $1
ORDER BY item_id
LIMIT 1 OFFSET $2

-- name: whole again
UPDATE pawl.waiting
SET broken = 0
WHERE item_id = $1
