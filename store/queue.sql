-- Queues with what is in them, and what pauses them.

-- name: namespace paused
SELECT 1
FROM pawl.paused_namespaces
WHERE namespace = $1

-- name: paused types
SELECT q.type
FROM pawl.queues q
WHERE q.namespace = $1 AND q.paused_at IS NOT NULL
