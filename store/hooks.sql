-- name: note hook
INSERT INTO pawl.type_hooks (type, hook)
VALUES ($1, $2)
ON CONFLICT (type, hook) DO NOTHING

-- name: forget hook
DELETE FROM pawl.type_hooks
WHERE type = $1 AND hook = $2

-- name: noted hooks
SELECT h.type || ' ' || h.hook
FROM pawl.type_hooks h
ORDER BY h.type, h.hook

-- Tasks whose checks no process has tried for a while.
-- name: unchecked
SELECT k.namespace, t.type, COUNT(*), MIN(k.updated_at)
FROM pawl.task_counters k
JOIN pawl.tasks t ON t.id = k.task_id
WHERE k.todo = 1 AND k.state = 'submitted' AND k.ready_for_approval = 0 AND k.updated_at < $1
  AND EXISTS (SELECT 1 FROM pawl.type_hooks h WHERE h.type = t.type)
GROUP BY k.namespace, t.type
ORDER BY k.namespace, t.type
LIMIT $2
