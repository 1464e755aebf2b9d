-- name: leases
SELECT @namespace_of(queue_id), @type_of(queue_id), @state_name(state), COUNT(*), @least(item_id) FROM pawl.leases WHERE lease_expires_at > $1 GROUP BY queue_id, state
UNION ALL
SELECT @namespace_of(queue_id), @type_of(queue_id), 'expired', COUNT(*), @least(item_id) FROM pawl.leases WHERE lease_expires_at <= $1 GROUP BY queue_id

-- Since when the item of each queue that has been queued longest is queued: see "oldest queued".
-- name: queued since
SELECT q.namespace, q.type, (
  WITH RECURSIVE g (rank) AS (
    SELECT (SELECT r.rank FROM pawl.ready r WHERE r.queue_id = q.id ORDER BY r.rank LIMIT 1)
    UNION ALL
    SELECT (SELECT r.rank FROM pawl.ready r WHERE r.queue_id = q.id AND r.rank > g.rank ORDER BY r.rank LIMIT 1)
    FROM g
    WHERE g.rank IS NOT NULL)
  SELECT MIN(CASE
    WHEN g.rank % 2 = 0 THEN (SELECT MIN(r.since) FROM pawl.ready r WHERE r.queue_id = q.id AND r.rank = g.rank)
    ELSE (
      SELECT w.created_at
      FROM pawl.all_items w
      WHERE w.id = (SELECT r.item_id FROM pawl.ready r WHERE r.queue_id = q.id AND r.rank = g.rank ORDER BY r.item_id LIMIT 1))
    END)
  FROM g
  WHERE g.rank IS NOT NULL)
FROM pawl.queues q
WHERE EXISTS (SELECT 1 FROM pawl.ready r WHERE r.queue_id = q.id)
