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
