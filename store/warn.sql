-- What pawl doctor warns of.

-- name: sweeps and work
SELECT (SELECT MAX(s.started_at) FROM pawl.sweeps s),
  (SELECT MIN(x.at)
   FROM (
     SELECT MIN(l.lease_expires_at) AS at FROM pawl.leases l
     UNION ALL
     SELECT MIN(s.run_at) FROM pawl.scheduled s
     UNION ALL
     SELECT MIN(g.until) FROM pawl.waiting g WHERE g.until IS NOT NULL AND g.needs = 0
   ) x)

-- name: queued types
SELECT q.namespace, q.type
FROM pawl.queues q
WHERE EXISTS (SELECT 1 FROM pawl.ready r WHERE r.queue_id = q.id)
ORDER BY q.namespace, q.type

-- Queues and namespaces ('' as the type) that have queued work and were paused before $1; $2 at most.
-- name: long pauses
SELECT x.namespace, x.type, x.paused_at
FROM (
  SELECT q.namespace, q.type, q.paused_at
  FROM pawl.queues q
  WHERE q.paused_at < $1 AND EXISTS (SELECT 1 FROM pawl.ready r WHERE r.queue_id = q.id)
  UNION ALL
  SELECT n.namespace, '', n.paused_at
  FROM pawl.paused_namespaces n
  WHERE n.paused_at < $1 AND EXISTS (
    SELECT 1
    FROM pawl.queues q
    WHERE q.namespace = n.namespace AND EXISTS (SELECT 1 FROM pawl.ready r WHERE r.queue_id = q.id))
) x
ORDER BY x.namespace, x.type
LIMIT $2

-- name: events without position
SELECT MIN(e.created_at), COUNT(*)
FROM (
  SELECT created_at
  FROM pawl.task_events
  WHERE id > $1
  ORDER BY id
  LIMIT $2
) e
