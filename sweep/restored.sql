-- name: first restored
SELECT COALESCE(MIN(restored_at), 0)
FROM pawl.archives
WHERE restored_at IS NOT NULL

-- One that went on after it was restored is kept for its time from its newest event.
-- name: restored by
SELECT restored_at, task_id
FROM pawl.archives
WHERE restored_at IS NOT NULL AND restored_at <= $1 AND (restored_at, task_id) > ($4, $5)
  AND COALESCE((SELECT e.created_at FROM pawl.task_events e WHERE e.task_id = pawl.archives.task_id ORDER BY e.id DESC LIMIT 1), 0) <= $1
  AND NOT EXISTS (SELECT 1 FROM pawl.task_rows r WHERE r.id = pawl.archives.task_id AND r.state NOT IN @list($2))
ORDER BY restored_at, task_id
LIMIT $3
