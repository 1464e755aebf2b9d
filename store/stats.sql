-- name: item counts
SELECT 'queued', COUNT(*) FROM pawl.ready WHERE queue_id IN @queues_of($1)
UNION ALL SELECT 'scheduled', COUNT(*) FROM pawl.scheduled WHERE queue_id IN @queues_of($1)
UNION ALL SELECT 'waiting', COUNT(*) FROM pawl.waiting WHERE queue_id IN @queues_of($1)
UNION ALL SELECT @state_name(l.state), COUNT(*) FROM pawl.leases l WHERE l.namespace = $1 GROUP BY l.state
UNION ALL SELECT @state_name(t.state), COUNT(*) FROM pawl.parked_items t WHERE t.queue_id IN @queues_of($1) GROUP BY t.state
UNION ALL SELECT @state_name(e.state), COUNT(*) FROM pawl.finished_items e WHERE e.queue_id IN @queues_of($1) GROUP BY e.state

-- name: task counts
SELECT t.state, COUNT(*)
FROM pawl.task_rows t
WHERE t.namespace = $1
GROUP BY t.state

-- name: held
SELECT
  (SELECT COUNT(*) FROM pawl.leases WHERE namespace = $1),
  (SELECT COUNT(*) FROM pawl.leases WHERE namespace = $1 AND lease_expires_at <= $2),
  (SELECT COUNT(*) FROM pawl.leases WHERE namespace = $1 AND lease_expires_at > $2 AND ($2 - heartbeat_at) * $3 > (lease_expires_at - heartbeat_at) * $4),
  (SELECT COUNT(*) FROM pawl.workers WHERE namespace = $1),
  (SELECT COUNT(*) FROM pawl.messages WHERE state = 'streaming' AND namespace || '' = $1) -- by the index of open messages, not through all of the namespace

-- name: created
SELECT created_at
FROM pawl.all_items
WHERE id = $1

-- name: events
SELECT COUNT(*)
FROM pawl.task_events
WHERE namespace = $1
