-- name: texts of task
SELECT t.payload, t.metadata
FROM pawl.tasks t
WHERE t.id = $1

-- name: limits
SELECT q.id, q.type, l.rules
FROM pawl.queues q
JOIN pawl.queue_limits l ON l.queue_id = q.id
WHERE q.namespace = $1 AND q.limited IS NOT NULL
