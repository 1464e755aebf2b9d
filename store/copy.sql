-- A copy of a large task is made in several transactions: see Copy. Its mark is a row of
-- idempotency_keys of no namespace, in a scope that no caller can use. request_hash is the new task, location
-- the namespace of a task that is restored: see RestoreParts.
-- The statements that begin with "begin" put the items of a copy into the tables of their first states.
-- There is one for each table: no row is read into this process.

-- name: begin copy
INSERT INTO pawl.idempotency_keys (namespace, scope, key_hash, request_hash, status, token, created_at, locked_until, code, location)
VALUES ($1, $2, $3, $3, 'pending', $4, $5, $6, 0, $7)

-- name: keep copy
UPDATE pawl.idempotency_keys
SET locked_until = $5
WHERE namespace = $1 AND scope = $2 AND key_hash = $3 AND token = $4

-- name: end copy
DELETE FROM pawl.idempotency_keys
WHERE namespace = $1 AND scope = $2 AND key_hash = $3 AND token = $4

-- name: copies
SELECT k.request_hash
FROM pawl.idempotency_keys k
WHERE k.namespace = $1 AND k.scope = $2
ORDER BY k.key_hash
LIMIT $3

-- name: given up copies
SELECT k.request_hash
FROM pawl.idempotency_keys k
WHERE k.namespace = $1 AND k.scope = $2 AND k.locked_until <= $3
ORDER BY k.key_hash
LIMIT $4

-- name: give up copy
UPDATE pawl.idempotency_keys
SET token = 'none', locked_until = $4
WHERE namespace = $1 AND scope = $2 AND key_hash = $3 AND locked_until <= $4

-- name: is copy
SELECT 1
FROM pawl.idempotency_keys k
WHERE k.namespace = $1 AND k.scope = $2 AND k.key_hash = $3

-- name: restoring
SELECT k.request_hash
FROM pawl.idempotency_keys k
WHERE k.namespace = $1 AND k.scope = $2 AND k.location = $3
ORDER BY k.key_hash
LIMIT 1

-- name: namespace is moving
SELECT 1
FROM pawl.relocations r
WHERE r.side = 'source' AND r.namespace = $1 AND r.step <> 'done'
LIMIT 1

-- name: show restored
UPDATE pawl.tasks
SET namespace = $2, dedupes = $3
WHERE id = $1

-- A restore that was given up has marked them when it began.
-- name: tombstones again
UPDATE pawl.tombstones
SET restored_at = NULL
WHERE task_id = $1 AND restored_at >= (
  SELECT k.created_at
  FROM pawl.idempotency_keys k
  WHERE k.namespace = $2 AND k.scope = $3 AND k.key_hash = $4)

-- name: items to copy
SELECT w.id, w.position, octet_length(w.input)
FROM pawl.items w
WHERE w.task_id = $1 AND w.kind = 'work' AND (w.position > $2 OR w.position = $2 AND w.id > $3)
ORDER BY w.position, w.id
LIMIT $4

-- name: copy item
INSERT INTO pawl.items (id, namespace, queue_id, task_id, type, kind, position, key, priority, max_attempts, run_at, after, input, created_at)
VALUES ($1, $2, $3, $4, $5, 'work', $6, $7, $8, $9, $10, $11, $12, $13)

-- name: copy dependency
INSERT INTO pawl.item_deps (needs_id, item_id)
VALUES ($1, $2)
ON CONFLICT DO NOTHING

-- name: begin waiting
INSERT INTO pawl.waiting (item_id, queue_id, task_id, priority, until, needs, max_attempts, solo, feeds, acceptance, start_to_close, schedule_to_start)
SELECT w.id, w.queue_id, w.task_id, w.priority, w.run_at, n.needs, w.max_attempts, 0,
  CASE WHEN EXISTS (SELECT 1 FROM pawl.item_deps f WHERE f.needs_id = w.id) THEN 1 ELSE 0 END, CAST($2 AS INTEGER), CAST($3 AS BIGINT), CAST($4 AS BIGINT)
FROM (
  SELECT d.item_id, COUNT(*) AS needs
  FROM pawl.items i
  JOIN pawl.item_deps d ON d.item_id = i.id
  WHERE i.task_id = $1
  GROUP BY d.item_id) n
JOIN pawl.items w ON w.id = n.item_id

-- name: begin scheduled
INSERT INTO pawl.scheduled (item_id, queue_id, task_id, priority, run_at, max_attempts, solo, feeds, acceptance, start_to_close, schedule_to_start)
SELECT w.id, w.queue_id, w.task_id, w.priority, w.run_at, w.max_attempts, 0,
  CASE WHEN EXISTS (SELECT 1 FROM pawl.item_deps f WHERE f.needs_id = w.id) THEN 1 ELSE 0 END, CAST($2 AS INTEGER), CAST($3 AS BIGINT), CAST($4 AS BIGINT)
FROM pawl.items w
WHERE w.task_id = $1 AND w.run_at > CAST($5 AS BIGINT)
  AND NOT EXISTS (SELECT 1 FROM pawl.item_deps d WHERE d.item_id = w.id)

-- name: begin ready
INSERT INTO pawl.ready (queue_id, rank, item_id, task_id, since, max_attempts, solo, feeds, acceptance, start_to_close, schedule_to_start)
SELECT w.queue_id, @new_rank(w.priority), w.id, w.task_id, CASE WHEN CAST($4 AS BIGINT) IS NOT NULL THEN CAST($5 AS BIGINT) END, w.max_attempts, 0,
  CASE WHEN EXISTS (SELECT 1 FROM pawl.item_deps f WHERE f.needs_id = w.id) THEN 1 ELSE 0 END, CAST($2 AS INTEGER), CAST($3 AS BIGINT), CAST($4 AS BIGINT)
FROM pawl.items w
WHERE w.task_id = $1 AND COALESCE(w.run_at, 0) <= CAST($5 AS BIGINT)
  AND NOT EXISTS (SELECT 1 FROM pawl.item_deps d WHERE d.item_id = w.id)

-- name: begin records
INSERT INTO pawl.task_events (namespace, task_id, item_id, move, actor, key_id, created_at, queue_id)
SELECT w.namespace, w.task_id, w.id,
  CASE
    WHEN EXISTS (SELECT 1 FROM pawl.item_deps d WHERE d.item_id = w.id) THEN @move(planned, -, 'waiting', item)
    WHEN w.run_at > CAST($2 AS BIGINT) THEN @move(planned, -, 'scheduled', item)
    ELSE @move(planned, -, 'queued', item)
  END, @actor($3, $4), $5, CAST($2 AS BIGINT), w.queue_id
FROM pawl.items w
WHERE w.task_id = $1
ORDER BY w.position, w.id

-- name: items with needs
SELECT w.id, w.position, w.after
FROM pawl.items w
WHERE w.task_id = $1 AND w.after IS NOT NULL AND (w.position > $2 OR w.position = $2 AND w.id > $3)
ORDER BY w.position, w.id
LIMIT $4

-- name: size of checkpoints
SELECT COUNT(*), COALESCE(SUM(COALESCE(octet_length(x.snapshot), 0) + COALESCE(octet_length(x.metadata), 0)), 0)
FROM (
  SELECT c.snapshot, c.metadata
  FROM pawl.checkpoints c
  WHERE c.task_id = $1 AND c.seq <= $2
  ORDER BY c.seq
  LIMIT $3) x

-- name: size of task
SELECT CASE WHEN t.solo = 1 THEN 1 ELSE (SELECT k.items FROM pawl.task_counters k WHERE k.task_id = t.id) END
FROM pawl.tasks t
WHERE t.id = $1 AND t.namespace = $2
