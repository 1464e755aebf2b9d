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
