-- name: message
SELECT m.id, m.namespace, m.thread, m.task_id, m.item_id, m.attempt, m.role, m.content, m.state, m.model, m.step_number, m.max_steps, m.chunks,
  COALESCE(m.step_offset, 0), m.cuts, m.usage, m.metadata, m.created_at, m.ended_at,
  m.checkpoint_id, (SELECT c.created_at FROM pawl.message_chunks c WHERE c.message_id = m.id ORDER BY c.seq DESC LIMIT 1)
FROM pawl.messages m

-- By the index of open messages.
-- name: stalled
m.state = 'streaming'
  AND m.item_id IS NOT NULL
  AND COALESCE((SELECT c.created_at FROM pawl.message_chunks c WHERE c.message_id = m.id ORDER BY c.seq DESC LIMIT 1), m.created_at) <= ?
  AND NOT EXISTS (SELECT 1 FROM pawl.leases l WHERE l.item_id = m.item_id AND l.lease_expires_at > ?)

-- name: chunks
SELECT c.seq, c.count, c.attempt, c.body
FROM pawl.message_chunks c
WHERE c.message_id = $1 AND c.seq >= (
  SELECT COALESCE(MAX(b.seq), 0) FROM pawl.message_chunks b WHERE b.message_id = $1 AND b.seq <= $2)
ORDER BY c.seq
LIMIT $3

-- name: take over
UPDATE pawl.messages
SET attempt = $2, step_offset = $3, cuts = $4
WHERE id = $1

-- name: step
UPDATE pawl.messages
SET step_number = $2, step_offset = chunks, checkpoint_id = $3
WHERE id = $1

-- name: said until step
SELECT c.said
FROM pawl.messages m
JOIN pawl.checkpoints c ON c.id = m.checkpoint_id
WHERE m.id = $1

-- name: hold lease of item
SELECT COALESCE(l.stopped, '')
FROM pawl.leases l
WHERE l.item_id = $1
@lock
