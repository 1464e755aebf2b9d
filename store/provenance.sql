-- The provenance of a call is a row that belongs to the newest event of the call, and has
-- the event's time. The creation of a task is its first event, which may be its only item's.

-- name: provenances
SELECT p.id, p.task_id, p.item_id, p.attempt, p.verb, p.scope, p.idempotency_key, p.agent_id, p.agent_name, p.agent_version, p.model,
  p.request_fingerprint, p.extra, p.created_at, p.event_id, e.data
FROM pawl.provenances p
LEFT JOIN pawl.task_events e ON e.id = p.event_id
