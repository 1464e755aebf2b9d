-- The provenance of a call is a row that belongs to the newest event of the call, and has
-- the event's time. The creation of a task is its first event, which may be its only item's.

-- name: put
INSERT INTO pawl.provenances (id, namespace, task_id, item_id, attempt, verb, scope, idempotency_key, agent_id, agent_name, agent_version, model,
  request_fingerprint, extra, created_at, event_id)
SELECT $1, $2, e.task_id, $4, CAST($5 AS INTEGER), $6, $7, $8, $9, $10, $11, $12, $13, $14, e.created_at, e.id
FROM pawl.event_rows e
WHERE e.task_id = $3 AND e.event = $15 AND (e.item_id = $4 OR $4 IS NULL AND e.item_id IS NULL)
ORDER BY e.id DESC
LIMIT 1

-- name: put creation
INSERT INTO pawl.provenances (id, namespace, task_id, item_id, attempt, verb, scope, idempotency_key, agent_id, agent_name, agent_version, model,
  request_fingerprint, extra, created_at, event_id)
SELECT $1, $2, e.task_id, $4, CAST($5 AS INTEGER), $6, $7, $8, $9, $10, $11, $12, $13, $14, e.created_at, e.id
FROM pawl.event_rows e
WHERE e.task_id = $3 AND e.event = $15
ORDER BY e.id
LIMIT 1

-- name: provenances
SELECT p.id, p.task_id, p.item_id, p.attempt, p.verb, p.scope, p.idempotency_key, p.agent_id, p.agent_name, p.agent_version, p.model,
  p.request_fingerprint, p.extra, p.created_at, p.event_id, e.data
FROM pawl.provenances p
LEFT JOIN pawl.task_events e ON e.id = p.event_id
