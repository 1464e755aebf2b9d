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

-- name: pending tasks
SELECT x.place, COUNT(*)
FROM (
  SELECT CASE WHEN t.solo = 1 THEN t.item_state
    WHEN t.items > t.scheduled + t.waiting THEN 'queued'
    WHEN t.scheduled > 0 THEN 'scheduled'
    WHEN t.waiting > 0 THEN 'waiting'
    ELSE 'queued' END AS place
  FROM (
    SELECT t.solo, t.item_state, t.items,
      CASE WHEN t.solo = 1 THEN 0 ELSE (SELECT COUNT(*) FROM pawl.scheduled s WHERE s.task_id = t.id) END AS scheduled,
      CASE WHEN t.solo = 1 THEN 0 ELSE (SELECT COUNT(*) FROM pawl.waiting g WHERE g.task_id = t.id) END AS waiting
    FROM pawl.task_rows t
    WHERE t.namespace = $1 AND t.state = 'queued'
  ) t
) x
GROUP BY x.place

-- Tasks of which an item is leased: those of one by the state of the item; those of many whose
-- items are all open.
-- name: held tasks
SELECT @state_name(l.state), COUNT(*)
FROM pawl.leases l
WHERE l.namespace = $1 AND l.solo = 1
GROUP BY l.state
UNION ALL
SELECT @state_name(x.state), COUNT(*)
FROM (
  SELECT l.task_id, MAX(l.state) AS state
  FROM pawl.leases l
  JOIN pawl.task_counters k ON k.task_id = l.task_id
  WHERE l.namespace = $1 AND l.solo = 0 AND k.state = 'open' AND k.planning = 0 AND k.open = k.items
  GROUP BY l.task_id) x
GROUP BY x.state

-- name: begun tasks
SELECT COUNT(*)
FROM pawl.task_counters k
JOIN pawl.tasks t ON t.id = k.task_id
WHERE k.state <> 'completed' AND k.state = 'open' AND k.namespace = $1 AND k.open < k.items AND t.solo = 0

-- The items of tasks of many that are not queued yet, and their tasks of which no item is.
-- name: pending of many
SELECT CAST(COALESCE(SUM(x.scheduled), 0) AS bigint), CAST(COALESCE(SUM(x.waiting), 0) AS bigint),
  COALESCE(SUM(CASE WHEN x.later AND x.scheduled > 0 THEN 1 ELSE 0 END), 0), COALESCE(SUM(CASE WHEN x.later AND x.scheduled = 0 THEN 1 ELSE 0 END), 0)
FROM (
  SELECT p.scheduled, p.waiting,
    COALESCE(k.state = 'open' AND CASE WHEN k.planning = 1 THEN 0 ELSE k.items END <= p.scheduled + p.waiting AND k.open >= k.items
      AND NOT EXISTS (SELECT 1 FROM pawl.leases l WHERE l.task_id = p.task_id AND k.planning = 0), FALSE) AS later
  FROM (
    SELECT m.task_id, SUM(m.scheduled) AS scheduled, SUM(m.waiting) AS waiting
    FROM (
      SELECT s.task_id, 1 AS scheduled, 0 AS waiting FROM pawl.scheduled s WHERE s.solo = 0 AND s.queue_id IN @queues_of($1)
      UNION ALL
      SELECT g.task_id, 0, 1 FROM pawl.waiting g WHERE g.solo = 0 AND g.queue_id IN @queues_of($1)) m
    GROUP BY m.task_id) p
  LEFT JOIN pawl.task_counters k ON k.task_id = p.task_id) x

-- The oldest item of each queue in each state that has not ended and is not leased.
-- name: oldest
SELECT q.namespace, q.type, 'queued', (
  WITH RECURSIVE g (rank) AS (
    SELECT (SELECT r.rank FROM pawl.ready r WHERE r.queue_id = q.id ORDER BY r.rank LIMIT 1)
    UNION ALL
    SELECT (SELECT r.rank FROM pawl.ready r WHERE r.queue_id = q.id AND r.rank > g.rank ORDER BY r.rank LIMIT 1)
    FROM g
    WHERE g.rank IS NOT NULL)
  SELECT @least(f.item_id)
  FROM (SELECT (SELECT r.item_id FROM pawl.ready r WHERE r.queue_id = q.id AND r.rank = g.rank ORDER BY r.item_id LIMIT 1) AS item_id FROM g) f)
FROM pawl.queues q
WHERE q.namespace = $1 OR $1 = ''
UNION ALL
SELECT q.namespace, q.type, 'scheduled', (SELECT s.item_id FROM pawl.scheduled s WHERE s.queue_id = q.id ORDER BY s.item_id LIMIT 1)
FROM pawl.queues q
WHERE q.namespace = $1 OR $1 = ''
UNION ALL
SELECT q.namespace, q.type, 'waiting', (SELECT g.item_id FROM pawl.waiting g WHERE g.queue_id = q.id ORDER BY g.item_id LIMIT 1)
FROM pawl.queues q
WHERE q.namespace = $1 OR $1 = ''
UNION ALL
SELECT q.namespace, q.type, @state_name(p.state), (SELECT x.item_id FROM pawl.parked_items x WHERE x.queue_id = q.id AND x.state = p.state ORDER BY x.item_id LIMIT 1)
FROM pawl.queues q
CROSS JOIN (SELECT @state(submitted) AS state UNION ALL SELECT @state(accepted) UNION ALL SELECT @state(failed) UNION ALL SELECT @state(dead_lettered)) p
WHERE q.namespace = $1 OR $1 = ''

-- name: checkpoints
SELECT COUNT(*)
FROM pawl.checkpoints
WHERE namespace = $1

-- name: key stats
SELECT COALESCE(SUM(CASE WHEN status = 'pending' THEN 1 ELSE 0 END), 0), COALESCE(SUM(CASE WHEN status = 'completed' THEN 1 ELSE 0 END), 0),
  COALESCE(SUM(CASE WHEN status = 'failed' THEN 1 ELSE 0 END), 0), COALESCE(SUM(hits), 0), COALESCE(SUM(misses), 0), COALESCE(SUM(replays), 0)
FROM pawl.idempotency_keys
WHERE namespace = $1 AND code IS NULL

-- name: depths
SELECT @namespace_of(queue_id), @type_of(queue_id), 'queued' AS state, COUNT(*), @least(item_id) FROM pawl.ready GROUP BY queue_id
UNION ALL SELECT @namespace_of(queue_id), @type_of(queue_id), 'scheduled', COUNT(*), @least(item_id) FROM pawl.scheduled GROUP BY queue_id
UNION ALL SELECT @namespace_of(queue_id), @type_of(queue_id), 'waiting', COUNT(*), @least(item_id) FROM pawl.waiting GROUP BY queue_id
UNION ALL SELECT @namespace_of(queue_id), @type_of(queue_id), @state_name(state), COUNT(*), @least(item_id) FROM pawl.leases WHERE lease_expires_at > $1 GROUP BY queue_id, state
UNION ALL SELECT @namespace_of(queue_id), @type_of(queue_id), 'expired', COUNT(*), @least(item_id) FROM pawl.leases WHERE lease_expires_at <= $1 GROUP BY queue_id
UNION ALL SELECT @namespace_of(queue_id), @type_of(queue_id), @state_name(state), COUNT(*), @least(item_id) FROM pawl.parked_items GROUP BY queue_id, state

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

-- name: live types
SELECT namespace, COALESCE(types, '')
FROM pawl.workers
WHERE last_seen_at >= $1
LIMIT $2

-- name: register worker
INSERT INTO pawl.workers (namespace, worker_id, name, version, types, started_at, last_seen_at)
VALUES ($1, $2, $3, $4, $5, $6, $6)
ON CONFLICT (namespace, worker_id) DO UPDATE SET name = $3, version = $4, types = $5, last_seen_at = $6

-- name: see worker
INSERT INTO pawl.workers (namespace, worker_id, started_at, last_seen_at)
VALUES ($1, $2, $3, $3)
ON CONFLICT (namespace, worker_id) DO UPDATE SET last_seen_at = $3
WHERE pawl.workers.last_seen_at < $3

-- name: count live
SELECT COUNT(*)
FROM pawl.workers
WHERE namespace = $1 AND last_seen_at >= $2

-- name: workers
SELECT k.worker_id, k.name, k.version, k.types, k.started_at, k.last_seen_at,
  (SELECT COUNT(*) FROM pawl.leases l WHERE l.namespace = k.namespace AND l.worker = @worker(k.worker_id))
FROM pawl.workers k

-- The types of a namespace, the given one first.
-- name: types of queues
SELECT type
FROM pawl.queues
WHERE namespace = $1
ORDER BY CASE WHEN type = $2 THEN 0 ELSE 1 END, type
LIMIT $3

-- name: forget workers
DELETE FROM pawl.workers
WHERE (namespace, worker_id) IN (
  SELECT k.namespace, k.worker_id
  FROM (
    SELECT namespace, worker_id, last_seen_at, row_number() OVER (PARTITION BY namespace ORDER BY last_seen_at DESC, worker_id DESC) AS nth
    FROM pawl.workers
  ) k
  WHERE k.last_seen_at < $1 OR k.nth > $2
  LIMIT $3)

-- name: remove old
DELETE FROM pawl.queue_minutes
WHERE (queue_id, minute) IN (
  SELECT queue_id, minute
  FROM pawl.queue_minutes
  WHERE minute < $1
  LIMIT $2)

-- The backlog of a step is that of its last minute that has one: the number of the minute is in
-- the upper digits, above $8.
-- name: series
SELECT q.type, m.minute - m.minute % $4,
  MAX(m.minute * CAST($8 AS bigint) + m.queued) % CAST($8 AS bigint), MAX(m.minute * CAST($8 AS bigint) + m.leased) % CAST($8 AS bigint),
  MAX(m.minute * CAST($8 AS bigint) + m.waiting) % CAST($8 AS bigint), MAX(m.minute * CAST($8 AS bigint) + m.scheduled) % CAST($8 AS bigint),
  CAST(SUM(m.created) AS bigint), CAST(SUM(m.claimed) AS bigint), CAST(SUM(m.completed) AS bigint), CAST(SUM(m.failed) AS bigint),
  CAST(SUM(m.expired) AS bigint), CAST(SUM(m.retried) AS bigint), CAST(SUM(m.cancelled) AS bigint), CAST(SUM(m.dead_lettered) AS bigint),
  @summed(minute_waits), @summed(minute_runs)
FROM pawl.queues q
JOIN pawl.queue_minutes m ON m.queue_id = q.id
WHERE q.namespace = $1 AND m.minute >= $2 AND m.minute < $3 AND ($5 OR q.type IN @list($6))
GROUP BY q.type, 2
ORDER BY q.type, 2
LIMIT $7

-- name: counted rows
SELECT e.namespace, 'events', COUNT(*)
FROM pawl.task_events e
GROUP BY e.namespace
UNION ALL
SELECT @namespace_of(x.queue_id), x.state, x.items
FROM (
  SELECT queue_id, 'queued' AS state, COUNT(*) AS items FROM pawl.ready GROUP BY queue_id
  UNION ALL
  SELECT queue_id, 'scheduled', COUNT(*) FROM pawl.scheduled GROUP BY queue_id
  UNION ALL
  SELECT queue_id, 'waiting', COUNT(*) FROM pawl.waiting GROUP BY queue_id
  UNION ALL
  SELECT queue_id, @state_name(state), COUNT(*) FROM pawl.leases GROUP BY queue_id, state
  UNION ALL
  SELECT queue_id, @state_name(state), COUNT(*) FROM pawl.parked_items GROUP BY queue_id, state
  UNION ALL
  SELECT queue_id, @state_name(state), COUNT(*) FROM pawl.finished_items GROUP BY queue_id, state) x

-- name: states of tasks
SELECT t.namespace, t.state, COUNT(*)
FROM pawl.task_rows t
GROUP BY t.namespace, t.state

-- A task of no namespace is being restored.
-- name: deletion
SELECT 0
FROM pawl.tasks t
WHERE t.namespace = '*'
UNION ALL
SELECT d.id
FROM pawl.task_events d
WHERE d.move IN @events(task 'deleted') AND EXISTS (SELECT 1 FROM pawl.tasks t WHERE t.id = d.task_id)
  AND NOT EXISTS (SELECT 1 FROM pawl.tombstones b WHERE b.task_id = d.task_id AND b.event_id = d.id AND b.restored_at IS NOT NULL)
LIMIT 1
