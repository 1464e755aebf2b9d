-- The hash chain of each task's events, written after their commit. A link is the SHA-256
-- of the previous link and the event in canonical form; see docs/provenance.md.

-- name: sealed to
SELECT position, updated_at
FROM pawl.relay_cursors
WHERE sink = 'seal'

-- name: links of events
SELECT e.id, e.namespace, e.task_id, e.item_id, e.attempt, e.event, e.from_state, e.to_state, e.task_from, e.task_to, e.actor_type, e.actor_id,
  e.message, e.data, e.diff, e.trace_parent, e.created_at, e.key_id
FROM pawl.task_events e

-- name: vouchers
SELECT p.event_id, p.id, p.item_id, p.attempt, p.verb, p.scope, p.idempotency_key, p.agent_id, p.agent_name, p.agent_version, p.model,
  p.request_fingerprint, p.extra
FROM pawl.provenances p
WHERE p.event_id >= $1 AND p.event_id <= $2
ORDER BY p.event_id, p.id

-- name: heads
SELECT t.value ->> 0, (SELECT s.last || ' ' || substr(s.links, length(s.links) - $2 + 1) FROM pawl.seals s WHERE s.task_id = t.value ->> 0 ORDER BY s.last DESC LIMIT 1)
FROM @each($1) AS t

-- name: put seals
INSERT INTO pawl.seals (task_id, namespace, last, count, ids, links, created_at)
SELECT t.id, t.namespace, CAST(s.value ->> 1 AS BIGINT), CAST(s.value ->> 2 AS INTEGER), s.value ->> 3, s.value ->> 4, CAST($2 AS BIGINT)
FROM @each($1) AS s
JOIN pawl.tasks t ON t.id = s.value ->> 0

-- name: seals
SELECT last, count, ids, links, created_at
FROM pawl.seals
WHERE task_id = $1
ORDER BY last

-- name: numbers of task
SELECT id
FROM pawl.task_events
WHERE task_id = $1 AND event <> 'deleted'
ORDER BY id

-- name: tasks before
SELECT id
FROM pawl.tasks
WHERE id < $1
ORDER BY id DESC
LIMIT $2
