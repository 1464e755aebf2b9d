-- name: archive
SELECT task_id, path, bytes, sha256, created_at, restored_at, body
FROM pawl.archives
WHERE task_id = $1 AND namespace = $2

-- name: archives before
SELECT task_id, path, bytes, sha256, created_at, restored_at
FROM pawl.archives
WHERE namespace = $1 AND task_id < $2
ORDER BY task_id DESC
LIMIT $3

-- name: first restored
SELECT COALESCE(MIN(restored_at), 0)
FROM pawl.archives
WHERE restored_at IS NOT NULL

-- name: forget restored
UPDATE pawl.archives
SET restored_at = NULL
WHERE task_id = $1

-- name: keep archive
INSERT INTO pawl.archives (task_id, namespace, path, body, bytes, sha256, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (task_id) DO UPDATE
SET path = excluded.path, body = excluded.body, bytes = excluded.bytes, sha256 = excluded.sha256, created_at = excluded.created_at, restored_at = NULL

-- name: paths of archives
SELECT path
FROM pawl.archives
WHERE task_id @among_ids($1) AND path IS NOT NULL

-- One that went on after it was restored is kept for its time from its newest event.
-- name: restored by
SELECT restored_at, task_id
FROM pawl.archives
WHERE restored_at IS NOT NULL AND restored_at <= $1 AND (restored_at, task_id) > ($4, $5)
  AND COALESCE((SELECT e.created_at FROM pawl.task_events e WHERE e.task_id = pawl.archives.task_id ORDER BY e.id DESC LIMIT 1), 0) <= $1
  AND NOT EXISTS (SELECT 1 FROM pawl.task_rows r WHERE r.id = pawl.archives.task_id AND r.state NOT IN @list($2))
ORDER BY restored_at, task_id
LIMIT $3
