-- Events as the transparency log hashes them, in their public form: text ids, and names in
-- place of the code; see docs/provenance.md. These are the only statements that read events for
-- the log.

-- name: events for leaves
SELECT e.id, COALESCE(e.attempt, 0), e.created_at, e.move, e.namespace, e.task_id, e.item_id,
  a.kind, NULLIF(a.name, ''), e.key_id, e.message, e.data, e.diff, e.trace_parent
FROM pawl.task_events e
LEFT JOIN pawl.actors a ON a.id = e.actor
WHERE e.id >= $1 AND e.id <= $2
ORDER BY e.id

-- name: provenances for leaves
SELECT p.event_id, COALESCE(p.attempt, 0), p.id, p.item_id, p.verb, p.scope, p.idempotency_key, p.agent_id, p.agent_name, p.agent_version,
  p.model, p.request_fingerprint, p.extra
FROM pawl.provenances p
WHERE p.event_id >= $1 AND p.event_id <= $2
ORDER BY p.event_id, p.id
