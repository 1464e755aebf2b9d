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
