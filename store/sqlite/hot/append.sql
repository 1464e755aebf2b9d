-- name: Look
SELECT state, chunks, attempt, COALESCE(step_offset, 0), cuts, bytes
FROM pawl.messages
WHERE id = $1 AND item_id = $2

-- name: Grow
UPDATE pawl.messages
SET chunks = $2, attempt = $3, step_offset = $4, cuts = $5, bytes = $6
WHERE id = $1

-- name: Chunks
INSERT INTO pawl.message_chunks (message_id, seq, count, attempt, body, created_at)
VALUES ($1, $2, $3, $4, $5, $6)
