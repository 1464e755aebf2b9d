-- name: change segment
UPDATE pawl.segments
SET contents = $2, path = $3, body = $4, bytes = $5, sha256 = $6
WHERE id = $1

-- name: forget archives
DELETE FROM pawl.archives
WHERE task_id @among_ids($1)

-- name: lock archive
SELECT task_id
FROM pawl.archives
WHERE task_id = $1
@lock

-- name: lock segment
SELECT id
FROM pawl.segments
WHERE id = $1
@lock

-- name: newest segments
SELECT id, namespace, low, high, contents, path, bytes, sha256, created_at
FROM pawl.segments
ORDER BY id DESC
LIMIT $1

-- name: put segment
INSERT INTO pawl.segments (namespace, low, high, contents, path, body, bytes, sha256, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)

-- name: remove segment
DELETE FROM pawl.segments
WHERE id = $1

-- Those that may have a task, the newest first.
-- name: segments around
SELECT id, namespace, low, high, contents, path, bytes, sha256, created_at
FROM pawl.segments
WHERE namespace = $1 AND high >= $2 AND low <= $2
ORDER BY id DESC

-- Those with tasks before one, that with the last task first, behind a place in this order.
-- name: segments before
SELECT id, namespace, low, high, contents, path, bytes, sha256, created_at
FROM pawl.segments
WHERE namespace = $1 AND low < $2 AND (high, id) < ($3, $4)
ORDER BY high DESC, id DESC
LIMIT $5

-- name: segments with file
SELECT id
FROM pawl.segments
WHERE namespace = $1 AND high = $2 AND low = $3 AND path = $4

-- name: tasks that are there
SELECT id
FROM pawl.tasks
WHERE id @among_ids($1)

-- name: tasks that need an archive
SELECT t.id
FROM pawl.tasks t
WHERE t.id = $1
UNION
SELECT t.id
FROM pawl.child_links l
JOIN pawl.tasks t ON t.id = l.child_id
WHERE l.parent_id = $1
UNION
SELECT t.id
FROM pawl.child_links l
JOIN pawl.tasks t ON t.id = l.parent_id
WHERE l.child_id = $1

-- Which of the tasks have rows that the rows of other tasks' archives are looked up for: those with
-- parents or children, and with references to blobs. Each has an archive of its own.
-- name: tasks with archives of their own
SELECT l.child_id
FROM pawl.child_links l
WHERE l.child_id @among_ids($1)
UNION
SELECT l.parent_id
FROM pawl.child_links l
WHERE l.parent_id @among_ids($1)
UNION
SELECT p.task_id
FROM pawl.parents p
WHERE p.task_id @among_ids($1)
UNION
SELECT b.task_id
FROM pawl.blob_refs b
WHERE b.task_id @among_ids($1)
