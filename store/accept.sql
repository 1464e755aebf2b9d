-- name: hold lease
SELECT l.lease_expires_at, @state_name(l.state), l.task_id, l.failures, l.solo, l.queue_id, l.acquired_at, l.effects
FROM pawl.leases l
WHERE l.item_id = $1 AND l.namespace = $2 AND l.worker = @worker($3) AND l.attempt = $4
@lock

-- name: start lease
UPDATE pawl.leases
SET state = @state(in_progress)
WHERE item_id = $1

-- name: complain
UPDATE pawl.leases
SET error = $2
WHERE item_id = $1

-- name: solo submitted
INSERT INTO pawl.task_counters (task_id, namespace, state, version, todo, updated_at)
VALUES ($1, $2, 'submitted', 1, 1, $3)
ON CONFLICT (task_id) DO UPDATE SET state = 'submitted', version = pawl.task_counters.version + 1, todo = 1, ready_for_approval = 0, updated_at = $3

-- name: live part
SELECT p.id, p.status, p.checksum, p.payload, p.evidence, p.notes, p.worker_id, p.attempt, p.created_at
FROM pawl.item_parts p
WHERE p.item_id = $1 AND p.part_key = $2 AND COALESCE(p.seq, -1) = $3 AND p.superseded_at IS NULL

-- name: live parts
SELECT p.id
FROM pawl.item_parts p
WHERE p.item_id = $1 AND p.superseded_at IS NULL
ORDER BY p.id

-- name: count parts
SELECT COUNT(*)
FROM pawl.item_parts p
WHERE p.item_id = $1 AND p.superseded_at IS NULL

-- name: supersede part
UPDATE pawl.item_parts
SET superseded_at = $2
WHERE id = $1

-- name: put part
INSERT INTO pawl.item_parts (id, namespace, item_id, part_key, seq, status, payload, evidence, notes, errors, checksum, idempotency_key_hash, worker_id, attempt, created_at, superseded_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
