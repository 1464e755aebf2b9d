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

-- Newest archives of tasks that are not there.
-- name: archives to check
SELECT a.task_id, a.namespace
FROM pawl.archives a
WHERE NOT EXISTS (SELECT 1 FROM pawl.tasks t WHERE t.id = a.task_id)
ORDER BY a.task_id DESC
LIMIT $1

-- What a task has: its newest event, and what may be written without one, which is checkpoints and
-- chunks. An archive that was read before has all of it if none of this has changed.
-- name: extents
SELECT t.id, t.namespace, COALESCE((SELECT MAX(e.id) FROM pawl.task_events e WHERE e.task_id = t.id), 0), COALESCE(k.checkpoints, 0), COALESCE(k.pruned, 0),
  CAST(COALESCE((SELECT SUM(m.chunks + COALESCE(m.attempt, 0)) FROM pawl.messages m WHERE m.task_id = t.id), 0) AS bigint)
FROM pawl.tasks t
LEFT JOIN pawl.task_counters k ON k.task_id = t.id
WHERE t.id @among_ids($1)
