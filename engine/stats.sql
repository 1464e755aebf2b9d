-- name: register worker
INSERT INTO pawl.workers (namespace, worker_id, name, version, types, started_at, last_seen_at)
VALUES ($1, $2, $3, $4, $5, $6, $6)
ON CONFLICT (namespace, worker_id) DO UPDATE SET name = $3, version = $4, types = $5, last_seen_at = $6

-- name: see worker
INSERT INTO pawl.workers (namespace, worker_id, started_at, last_seen_at)
VALUES ($1, $2, $3, $3)
ON CONFLICT (namespace, worker_id) DO UPDATE SET last_seen_at = $3
WHERE pawl.workers.last_seen_at < $3

-- name: checkpoints
SELECT COUNT(*)
FROM pawl.checkpoints
WHERE namespace = $1

-- name: depths
SELECT @namespace_of(queue_id), @type_of(queue_id), 'queued' AS state, COUNT(*), @least(item_id) FROM pawl.ready GROUP BY queue_id
UNION ALL SELECT @namespace_of(queue_id), @type_of(queue_id), 'scheduled', COUNT(*), @least(item_id) FROM pawl.scheduled GROUP BY queue_id
UNION ALL SELECT @namespace_of(queue_id), @type_of(queue_id), 'waiting', COUNT(*), @least(item_id) FROM pawl.waiting GROUP BY queue_id
UNION ALL SELECT @namespace_of(queue_id), @type_of(queue_id), @state_name(state), COUNT(*), @least(item_id) FROM pawl.leases WHERE lease_expires_at > $1 GROUP BY queue_id, state
UNION ALL SELECT @namespace_of(queue_id), @type_of(queue_id), 'expired', COUNT(*), @least(item_id) FROM pawl.leases WHERE lease_expires_at <= $1 GROUP BY queue_id
UNION ALL SELECT @namespace_of(queue_id), @type_of(queue_id), @state_name(state), COUNT(*), @least(item_id) FROM pawl.parked_items GROUP BY queue_id, state

-- name: count live
SELECT COUNT(*)
FROM pawl.workers
WHERE namespace = $1 AND last_seen_at >= $2

-- name: live types
SELECT namespace, COALESCE(types, '')
FROM pawl.workers
WHERE last_seen_at >= $1
LIMIT $2

-- name: workers
SELECT k.worker_id, k.name, k.version, k.types, k.started_at, k.last_seen_at,
  (SELECT COUNT(*) FROM pawl.leases l WHERE l.namespace = k.namespace AND l.worker = @worker(k.worker_id))
FROM pawl.workers k

-- name: key stats
SELECT COALESCE(SUM(CASE WHEN status = 'pending' THEN 1 ELSE 0 END), 0), COALESCE(SUM(CASE WHEN status = 'completed' THEN 1 ELSE 0 END), 0),
  COALESCE(SUM(CASE WHEN status = 'failed' THEN 1 ELSE 0 END), 0), COALESCE(SUM(hits), 0), COALESCE(SUM(misses), 0), COALESCE(SUM(replays), 0)
FROM pawl.idempotency_keys
WHERE namespace = $1 AND code IS NULL
