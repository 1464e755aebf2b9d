-- Bytes that callers upload: see the migration.

-- name: begin
INSERT INTO pawl.uploads (id, namespace, place, size, state, used_at)
VALUES ($1, $2, $3, 0, 0, $4)

-- name: touch
UPDATE pawl.uploads
SET used_at = $2
WHERE id = $1 AND state = 0

-- The row of an upload outlives its pieces, so a piece cannot be added to one that was
-- removed.
-- name: add piece
INSERT INTO pawl.upload_pieces (upload_id, number, body)
SELECT u.id, $2, $3
FROM pawl.uploads u
WHERE u.id = $1 AND u.state = 0

-- name: exists
SELECT 1
FROM pawl.uploads u
WHERE u.id = $1

-- name: next place
SELECT u.place
FROM pawl.uploads u
WHERE u.place > $1 AND u.place <> ''
ORDER BY u.place
LIMIT 1

-- name: piece
SELECT p.body
FROM pawl.upload_pieces p
WHERE p.upload_id = $1 AND p.number = $2

-- name: remove pieces
DELETE FROM pawl.upload_pieces
WHERE upload_id = $1

-- name: refer
INSERT INTO pawl.blob_refs (namespace, address, task_id, created_at)
VALUES ($1, $2, $3, $4)
ON CONFLICT (namespace, address, task_id) DO NOTHING

-- name: stored
UPDATE pawl.uploads
SET state = 1, size = $2, used_at = $3
WHERE id = $1 AND state = 0

-- name: publish
INSERT INTO pawl.uploaded_blobs (namespace, address, upload_id, used_at)
VALUES ($1, $2, $3, $4)
ON CONFLICT (namespace, address) DO NOTHING

-- name: find
SELECT u.id, u.place, u.size, b.used_at
FROM pawl.uploaded_blobs b
JOIN pawl.uploads u ON u.id = b.upload_id
WHERE b.namespace = $1 AND b.address = $2

-- The object that an address has, and how many of its bytes are missing, as far as they are
-- to be in the database.
-- name: object
SELECT u.id, u.place, u.size,
  CASE WHEN u.place <> '' THEN 0
       ELSE u.size - COALESCE((SELECT SUM(length(p.body)) FROM pawl.upload_pieces p WHERE p.upload_id = u.id), 0) END
FROM pawl.uploaded_blobs b
JOIN pawl.uploads u ON u.id = b.upload_id
WHERE b.namespace = $1 AND b.address = $2

-- name: replace
UPDATE pawl.uploaded_blobs
SET upload_id = $3
WHERE namespace = $1 AND address = $2

-- name: use
UPDATE pawl.uploaded_blobs
SET used_at = $3
WHERE namespace = $1 AND address = $2

-- name: last use
SELECT b.used_at
FROM pawl.uploaded_blobs b
WHERE b.namespace = $1 AND b.address = $2

-- name: give up
UPDATE pawl.uploads
SET state = 2
WHERE id = $1 AND state <> 1 AND used_at <= $2

-- name: remove
DELETE FROM pawl.uploads
WHERE id = $1 AND state = 2

-- name: page of unused
SELECT b.namespace, b.address,
  CASE
    WHEN b.used_at > $4
      OR EXISTS (
        SELECT 1
        FROM pawl.relocations r
        WHERE r.open = 0 AND r.namespace IN ('', b.namespace)
          AND (r.side = 'target' AND r.step <> 'done' OR r.side = 'source' AND r.step IN ('flipped', 'done'))) THEN 0
    WHEN NOT EXISTS (SELECT 1 FROM pawl.blob_refs r WHERE r.namespace = b.namespace AND r.address = b.address) THEN 1
    WHEN EXISTS (
      SELECT 1
      FROM pawl.blob_refs r
      WHERE r.namespace = b.namespace AND r.address = b.address AND r.created_at <= $4
        AND NOT EXISTS (SELECT 1 FROM pawl.tasks t WHERE t.id = r.task_id)
        AND NOT EXISTS (SELECT 1 FROM pawl.archives a WHERE a.task_id = r.task_id)) THEN 1
    ELSE 0
  END
FROM pawl.uploaded_blobs b
WHERE (b.namespace, b.address) > ($1, $2)
ORDER BY b.namespace, b.address
LIMIT $3

-- name: forget references
DELETE FROM pawl.blob_refs
WHERE namespace = $1 AND address = $2 AND created_at <= $3
  AND NOT EXISTS (SELECT 1 FROM pawl.tasks t WHERE t.id = pawl.blob_refs.task_id)
  AND NOT EXISTS (SELECT 1 FROM pawl.archives a WHERE a.task_id = pawl.blob_refs.task_id)

-- Who refers to a blob changes used_at first: then this statement waits, and finds it used.
-- name: unpublish
DELETE FROM pawl.uploaded_blobs AS b
WHERE b.namespace = $1 AND b.address = $2 AND b.used_at <= $3
  AND NOT EXISTS (SELECT 1 FROM pawl.blob_refs r WHERE r.namespace = b.namespace AND r.address = b.address)
RETURNING upload_id

-- name: dismiss
UPDATE pawl.uploads
SET state = 2, used_at = $2
WHERE id = $1

-- name: page
SELECT b.namespace, b.address, u.id, u.place, u.size
FROM pawl.uploaded_blobs b
JOIN pawl.uploads u ON u.id = b.upload_id
WHERE (b.namespace, b.address) > ($1, $2)
ORDER BY b.namespace, b.address
LIMIT $3

-- name: postpone
UPDATE pawl.uploads
SET used_at = $2
WHERE id = $1 AND state <> 1

-- Values that belong to no task. Those stored since $3 have used their blobs since.
-- name: texts that refer
SELECT s.definition
FROM pawl.schedules s
WHERE s.namespace = $1 AND s.created_at <= $3 AND s.definition LIKE $2
UNION ALL
SELECT s.payload
FROM pawl.signals s
WHERE s.namespace = $1 AND s.sent_at <= $3 AND s.payload LIKE $2
UNION ALL
SELECT k.response
FROM pawl.idempotency_keys k
WHERE k.namespace = $1 AND k.completed_at <= $3 AND (k.expires_at IS NULL OR k.expires_at > $4) AND k.response LIKE $2

-- name: to remove
SELECT u.id, u.place
FROM pawl.uploads u
WHERE u.state <> 1 AND u.used_at <= $1
ORDER BY u.used_at
LIMIT $2
