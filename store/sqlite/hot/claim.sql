-- name: Head
SELECT r.rank, @priority_of(r.rank, r.item_id), r.item_id, r.task_id, @columns(r.carried), r.started_at, r.since, r.error,
  CASE WHEN r.solo <> 1 THEN (SELECT w.key FROM pawl.items w WHERE w.id = r.item_id) END,
  CASE r.solo WHEN 1 THEN (SELECT t.input FROM pawl.tasks t WHERE t.id = r.item_id) ELSE (SELECT w.input FROM pawl.items w WHERE w.id = r.item_id) END,
  (SELECT t.trace_parent FROM pawl.tasks t WHERE t.id = r.task_id),
  (SELECT t.forked_at > 0 FROM pawl.tasks t WHERE t.id = r.task_id),
  CASE WHEN r.rework > 0 THEN (SELECT w.reasons FROM pawl.all_items w WHERE w.id = r.item_id) END,
  (SELECT m.state || ' ' || m.id || ' ' || m.chunks || ' ' || m.step_number
   FROM pawl.messages m
   WHERE m.item_id = r.item_id AND m.state IN ('streaming', 'stopped')
   ORDER BY m.state DESC, m.id DESC
   LIMIT 1)
FROM pawl.ready r
WHERE r.queue_id = @unlimited($1) AND r.rank = $2 AND r.item_id >= $3
ORDER BY r.item_id
LIMIT $4

-- name: Take
DELETE FROM pawl.ready
WHERE queue_id = $1 AND rank = $2 AND item_id BETWEEN $3 AND $4

-- name: Pick
DELETE FROM pawl.ready
WHERE queue_id = @unlimited($1) AND rank = $2 AND item_id = $3
RETURNING rank, @priority_of(rank, item_id), item_id, task_id, @columns(carried), started_at, since, error,
  CASE WHEN solo <> 1 THEN (SELECT w.key FROM pawl.items w WHERE w.id = item_id) END,
  CASE solo WHEN 1 THEN (SELECT t.input FROM pawl.tasks t WHERE t.id = item_id) ELSE (SELECT w.input FROM pawl.items w WHERE w.id = item_id) END,
  (SELECT t.trace_parent FROM pawl.tasks t WHERE t.id = pawl.ready.task_id),
  (SELECT t.forked_at > 0 FROM pawl.tasks t WHERE t.id = pawl.ready.task_id),
  CASE WHEN rework > 0 THEN (SELECT w.reasons FROM pawl.all_items w WHERE w.id = item_id) END,
  (SELECT m.state || ' ' || m.id || ' ' || m.chunks || ' ' || m.step_number
   FROM pawl.messages m
   WHERE m.item_id = pawl.ready.item_id AND m.state IN ('streaming', 'stopped')
   ORDER BY m.state DESC, m.id DESC
   LIMIT 1)

-- An item of a queue with limits, which has admitted it.
-- name: PickAdmitted
DELETE FROM pawl.ready
WHERE queue_id = @claimable($1) AND rank = $2 AND item_id = $3
RETURNING rank, @priority_of(rank, item_id), item_id, task_id, @columns(carried), started_at, since, error,
  CASE WHEN solo <> 1 THEN (SELECT w.key FROM pawl.items w WHERE w.id = item_id) END,
  CASE solo WHEN 1 THEN (SELECT t.input FROM pawl.tasks t WHERE t.id = item_id) ELSE (SELECT w.input FROM pawl.items w WHERE w.id = item_id) END,
  (SELECT t.trace_parent FROM pawl.tasks t WHERE t.id = pawl.ready.task_id),
  (SELECT t.forked_at > 0 FROM pawl.tasks t WHERE t.id = pawl.ready.task_id),
  CASE WHEN rework > 0 THEN (SELECT w.reasons FROM pawl.all_items w WHERE w.id = item_id) END,
  (SELECT m.state || ' ' || m.id || ' ' || m.chunks || ' ' || m.step_number
   FROM pawl.messages m
   WHERE m.item_id = pawl.ready.item_id AND m.state IN ('streaming', 'stopped')
   ORDER BY m.state DESC, m.id DESC
   LIMIT 1)

-- name: Peek
SELECT item_id
FROM pawl.ready
WHERE queue_id = @unlimited($1) AND rank = $2 AND item_id >= $3
ORDER BY item_id
LIMIT $4

-- name: Lease
INSERT INTO pawl.leases (item_id, namespace, task_id, queue_id, priority, state, prefetch, worker, lease_seconds, started_at,
  acquired_at, heartbeat_at, lease_expires_at, error, key_id, stopped, @columns(carried))
VALUES ($1, $2, $3, $4, $5, @state(leased), $6, $7, $8, $9,
  $10, $10, $11, $12, $13, $14, @values(carried, $15))

-- name: Heads
SELECT r.rank, r.item_id
FROM pawl.ready r
WHERE r.queue_id = $1 AND r.gate = $2
ORDER BY r.rank, r.item_id
LIMIT $3

-- The oldest item of each rank of a gate.
-- name: Oldest
WITH RECURSIVE k (rank) AS (
  SELECT (SELECT r.rank FROM pawl.ready r WHERE r.queue_id = $1 AND r.gate = $2 ORDER BY r.rank LIMIT 1)
  UNION ALL
  SELECT (SELECT r.rank FROM pawl.ready r WHERE r.queue_id = $1 AND r.gate = $2 AND r.rank > k.rank ORDER BY r.rank LIMIT 1)
  FROM k
  WHERE k.rank IS NOT NULL)
SELECT k.rank, (SELECT r.item_id FROM pawl.ready r WHERE r.queue_id = $1 AND r.gate = $2 AND r.rank = k.rank ORDER BY r.item_id LIMIT 1)
FROM k
WHERE k.rank IS NOT NULL
ORDER BY 2
LIMIT $3
