-- The workers of queued items whose leases expired or were revoked, of the pairs of type and
-- rank in $2.
-- name: lost items
SELECT @name_of(x.worker), MAX(x.since)
FROM (
  SELECT r.worker, r.left_by, r.since
  FROM @each($2) AS j
  JOIN pawl.queues q ON q.namespace = $1 AND q.type = j.value ->> 0
  JOIN pawl.ready r ON r.queue_id = q.id AND r.rank = CAST(j.value ->> 1 AS INTEGER)
  LIMIT $3) x
WHERE x.left_by IN ('expired', 'revoked') AND x.worker IS NOT NULL
GROUP BY x.worker

-- name: pause queue
UPDATE pawl.queues
SET paused_at = $3
WHERE namespace = $1 AND type = $2 AND paused_at IS NULL

-- name: resume queue
UPDATE pawl.queues
SET paused_at = NULL
WHERE namespace = $1 AND type = $2 AND paused_at IS NOT NULL

-- name: pause namespace
INSERT INTO pawl.paused_namespaces (namespace, paused_at)
VALUES ($1, $2)
ON CONFLICT (namespace) DO NOTHING

-- name: resume namespace
DELETE FROM pawl.paused_namespaces
WHERE namespace = $1
