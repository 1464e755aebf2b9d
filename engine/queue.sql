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

-- The counts of the queues whose types are between $2 and $3.
-- name: counts of queues
SELECT x.queue_id, x.place, COUNT(*)
FROM (
  SELECT queue_id, 'queued' AS place FROM pawl.ready WHERE queue_id IN (SELECT q.id FROM pawl.queues q WHERE q.namespace = $1 AND q.type >= $2 AND q.type <= $3)
  UNION ALL
  SELECT queue_id, 'leased' FROM pawl.leases WHERE queue_id IN (SELECT q.id FROM pawl.queues q WHERE q.namespace = $1 AND q.type >= $2 AND q.type <= $3)
  UNION ALL
  SELECT queue_id, 'waiting' FROM pawl.waiting WHERE queue_id IN (SELECT q.id FROM pawl.queues q WHERE q.namespace = $1 AND q.type >= $2 AND q.type <= $3)
  UNION ALL
  SELECT queue_id, 'scheduled' FROM pawl.scheduled WHERE queue_id IN (SELECT q.id FROM pawl.queues q WHERE q.namespace = $1 AND q.type >= $2 AND q.type <= $3)
) x
GROUP BY x.queue_id, x.place

-- New items of a rank were created in the order of their ids. Of those that were queued again,
-- all are read.
-- name: oldest queued
WITH RECURSIVE g (rank) AS (
  SELECT (SELECT r.rank FROM pawl.ready r WHERE r.queue_id = $1 ORDER BY r.rank LIMIT 1)
  UNION ALL
  SELECT (SELECT r.rank FROM pawl.ready r WHERE r.queue_id = $1 AND r.rank > g.rank ORDER BY r.rank LIMIT 1)
  FROM g
  WHERE g.rank IS NOT NULL)
SELECT MIN(CASE
  WHEN g.rank % 2 = 0 THEN (SELECT MIN(r.since) FROM pawl.ready r WHERE r.queue_id = $1 AND r.rank = g.rank)
  ELSE (
    SELECT w.created_at
    FROM pawl.all_items w
    WHERE w.id = (SELECT r.item_id FROM pawl.ready r WHERE r.queue_id = $1 AND r.rank = g.rank ORDER BY r.item_id LIMIT 1))
  END)
FROM g
WHERE g.rank IS NOT NULL

-- name: queues
SELECT q.id, q.type, q.paused_at, (SELECT n.paused_at FROM pawl.paused_namespaces n WHERE n.namespace = q.namespace),
  CASE WHEN q.limited IS NOT NULL THEN (SELECT l.rules FROM pawl.queue_limits l WHERE l.queue_id = q.id) END
FROM pawl.queues q
