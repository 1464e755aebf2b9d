-- Queues with limits, their gates, and what claims from them count.

-- name: limits of queue
SELECT l.rules, l.next_start, l.changed_at, l.searched_at
FROM pawl.queue_limits l
WHERE l.queue_id = $1

-- name: limits of queue locked
SELECT l.rules, l.next_start, l.changed_at, l.searched_at
FROM pawl.queue_limits l
WHERE l.queue_id = $1
@exclusive

-- name: limits of queue shared
SELECT l.rules, l.next_start, l.changed_at, l.searched_at
FROM pawl.queue_limits l
WHERE l.queue_id = $1
@shared

-- The same, if no other transaction locks the row.
-- name: limits of queue locked now
SELECT l.rules, l.next_start, l.changed_at, l.searched_at
FROM pawl.queue_limits l
WHERE l.queue_id = $1
@exclusive @unlocked

-- name: limits of queue shared now
SELECT l.rules, l.next_start, l.changed_at, l.searched_at
FROM pawl.queue_limits l
WHERE l.queue_id = $1
@shared @unlocked

-- A rate that is changed lets its burst start at once.
-- name: bound next start of queue
UPDATE pawl.queue_limits
SET next_start = $2
WHERE queue_id = $1 AND next_start > $2

-- name: bound next start of gates
UPDATE pawl.gates
SET next_start = $3
WHERE queue_id = $1 AND pointer = $2 AND next_start > $3

-- name: bound next start of unlocked gates
UPDATE pawl.gates
SET next_start = $3
WHERE id IN (
  SELECT x.id
  FROM pawl.gates x
  WHERE x.queue_id = $1 AND x.pointer = $2 AND x.next_start > $3
  @skip)

-- The first items of all gates, by rank and age.
-- name: first queued
SELECT x.id, x.pointer, x.key, x.next_start, (SELECT COUNT(*) FROM pawl.leases l WHERE l.queue_id = $1 AND l.gate = x.id)
FROM (
  SELECT r.gate, r.rank, r.item_id
  FROM pawl.ready r
  WHERE r.queue_id = $1 AND r.gate IS NOT NULL
  ORDER BY r.rank, r.item_id
  LIMIT $2) f
JOIN pawl.gates x ON x.id = f.gate
ORDER BY f.rank, f.item_id

-- name: search again
UPDATE pawl.queue_limits
SET changed_at = $2
WHERE queue_id IN (SELECT p.queue_id FROM pawl.parked_items p WHERE p.task_id = $1)

-- name: search copies
UPDATE pawl.queue_limits
SET changed_at = $2
WHERE queue_id IN (SELECT w.queue_id FROM pawl.items w WHERE w.task_id = $1)

-- name: only items
SELECT w.task_id, w.id
FROM pawl.items w
WHERE w.task_id IN @ids($1) AND w.kind = 'work'

-- name: add limits
INSERT INTO pawl.queue_limits (queue_id, namespace, rules, changed_at)
VALUES ($1, $2, '{}', $3)
ON CONFLICT (queue_id) DO NOTHING

-- name: set limits
UPDATE pawl.queue_limits
SET rules = $2, changed_at = $3
WHERE queue_id = $1

-- name: mark queue
UPDATE pawl.queues
SET limited = $2
WHERE id = $1

-- name: set next start of queue
UPDATE pawl.queue_limits
SET next_start = $2
WHERE queue_id = $1

-- name: set next start of gate
UPDATE pawl.gates
SET next_start = $2
WHERE id = $1

-- name: gates of keys
SELECT g.key, g.id, CASE WHEN g.idle_since IS NULL THEN 0 ELSE 1 END
FROM pawl.gates g
WHERE g.queue_id = $1 AND g.pointer = $2 AND g.key IN @list($3)

-- Those that another transaction locks are left: it uses them, or removes them.
-- name: use gates
UPDATE pawl.gates
SET idle_since = NULL
WHERE id IN (
  SELECT x.id
  FROM pawl.gates x
  WHERE x.id IN (SELECT CAST(j.value ->> 0 AS INTEGER) FROM @each($1) AS j) AND x.idle_since IS NOT NULL
  @skip)

-- name: note idle gates
UPDATE pawl.gates
SET idle_since = $2
WHERE id IN (
  SELECT x.id
  FROM pawl.gates x
  WHERE x.id IN (SELECT CAST(j.value ->> 0 AS INTEGER) FROM @each($1) AS j) AND x.idle_since IS NULL
  @skip)

-- name: lock idle gates
SELECT x.id
FROM pawl.gates x
WHERE x.id IN (SELECT CAST(j.value ->> 0 AS INTEGER) FROM @each($1) AS j) AND x.idle_since <= $2 AND x.id < (SELECT MAX(y.id) FROM pawl.gates y)
ORDER BY x.id
@skip

-- They are locked, and something may refer to them since they were read.
-- name: remove gates
DELETE FROM pawl.gates
WHERE id IN (
  SELECT x.id
  FROM pawl.gates x
  WHERE x.id IN (SELECT CAST(j.value ->> 0 AS INTEGER) FROM @each($1) AS j) AND x.next_start <= $2
    AND NOT EXISTS (SELECT 1 FROM pawl.ready r WHERE r.queue_id = x.queue_id AND r.gate = x.id)
    AND NOT EXISTS (SELECT 1 FROM pawl.leases l WHERE l.queue_id = x.queue_id AND l.gate = x.id)
    AND NOT EXISTS (SELECT 1 FROM pawl.scheduled s WHERE s.gate = x.id)
    AND NOT EXISTS (SELECT 1 FROM pawl.waiting w WHERE w.gate = x.id)
    AND NOT EXISTS (SELECT 1 FROM pawl.parked_items p WHERE p.gate = x.id))

-- name: add gate
INSERT INTO pawl.gates (queue_id, namespace, pointer, key)
VALUES ($1, $2, $3, $4)
ON CONFLICT (queue_id, pointer, key) DO NOTHING

-- name: leased of queue
SELECT COUNT(*)
FROM pawl.leases l
WHERE l.queue_id = $1 AND l.gate IS NOT NULL

-- name: leased of workers
SELECT @name_of(l.worker), COUNT(*)
FROM pawl.leases l
WHERE l.queue_id = $1 AND l.gate IS NOT NULL AND l.worker IN (SELECT a.id FROM pawl.actors a WHERE a.kind = 'worker' AND a.name IN @list($2))
GROUP BY l.worker

-- The gates after $2 that have queued items, in order of their numbers, at most $3.
-- name: gates with work
WITH RECURSIVE g (gate, n) AS (
  SELECT (SELECT r.gate FROM pawl.ready r WHERE r.queue_id = $1 AND r.gate > $2 ORDER BY r.gate LIMIT 1), 1
  UNION ALL
  SELECT (SELECT r.gate FROM pawl.ready r WHERE r.queue_id = $1 AND r.gate > g.gate ORDER BY r.gate LIMIT 1), g.n + 1
  FROM g
  WHERE g.gate IS NOT NULL AND g.n < $3)
SELECT x.id, x.pointer, x.key, x.next_start, (SELECT COUNT(*) FROM pawl.leases l WHERE l.queue_id = $1 AND l.gate = x.id)
FROM g
JOIN pawl.gates x ON x.id = g.gate
ORDER BY x.id

-- The gates after $2 that may have room and work, in order of their numbers, at most $3, with the
-- rows that say so.
-- name: hinted gates
WITH RECURSIVE g (gate, n) AS (
  SELECT (SELECT h.gate FROM pawl.gate_hints h WHERE h.queue_id = $1 AND h.at = 0 AND h.gate > $2 ORDER BY h.gate LIMIT 1), 1
  UNION ALL
  SELECT (SELECT h.gate FROM pawl.gate_hints h WHERE h.queue_id = $1 AND h.at = 0 AND h.gate > g.gate ORDER BY h.gate LIMIT 1), g.n + 1
  FROM g
  WHERE g.gate IS NOT NULL AND g.n < $3)
SELECT g.gate, COALESCE((SELECT x.pointer FROM pawl.gates x WHERE x.id = g.gate), ''), COALESCE((SELECT x.key FROM pawl.gates x WHERE x.id = g.gate), ''),
  COALESCE((SELECT x.next_start FROM pawl.gates x WHERE x.id = g.gate), 0),
  (SELECT COUNT(*) FROM pawl.leases l WHERE l.queue_id = $1 AND l.gate = g.gate),
  (SELECT COUNT(*) FROM (SELECT 1 FROM pawl.ready r WHERE r.queue_id = $1 AND r.gate = g.gate LIMIT 1) w),
  (SELECT CAST(@group(s.tx) AS TEXT) FROM (SELECT h.tx FROM pawl.gate_hints h WHERE h.queue_id = $1 AND h.at = 0 AND h.gate = g.gate ORDER BY h.tx LIMIT $4) s)
FROM g
WHERE g.gate IS NOT NULL
ORDER BY g.gate

-- The rows in $2, which are of gates from $3 to $4.
-- name: forget hints
DELETE FROM pawl.gate_hints
WHERE (queue_id, at, gate, tx) IN (
  SELECT h.queue_id, h.at, h.gate, h.tx
  FROM pawl.gate_hints h
  WHERE h.queue_id = $1 AND h.at = 0 AND h.gate >= $3 AND h.gate <= $4
    AND ((h.gate, h.tx) IN (SELECT CAST(j.value ->> 0 AS INTEGER), CAST(j.value ->> 1 AS BIGINT) FROM @each($2) AS j)) IS TRUE -- or it is joined row by row
  @skip)

-- name: drop hints
DELETE FROM pawl.gate_hints
WHERE (queue_id, at, gate, tx) IN (
  SELECT h.queue_id, h.at, h.gate, h.tx
  FROM pawl.gate_hints h
  WHERE h.queue_id = $1 AND h.at >= 0
  ORDER BY h.at, h.gate, h.tx
  LIMIT $2
  @skip)

-- An item has the number of a gate that is gone.
-- name: hint search
INSERT INTO pawl.gate_hints (queue_id, at, gate, tx)
VALUES ($1, $2, 0, @transaction)
ON CONFLICT (queue_id, at, gate, tx) DO NOTHING

-- name: hint later
INSERT INTO pawl.gate_hints (queue_id, at, gate, tx)
VALUES ($1, $2, $3, 0)
ON CONFLICT (queue_id, at, gate, tx) DO NOTHING

-- The gates whose rates allow a start at $2. A time after $3 is one from before the clock went back.
-- name: due hints
DELETE FROM pawl.gate_hints
WHERE (queue_id, at, gate, tx) IN (
  SELECT h.queue_id, h.at, h.gate, h.tx
  FROM pawl.gate_hints h
  WHERE h.queue_id = $1 AND h.at > 0 AND (h.at <= $2 OR h.at > $3)
  ORDER BY h.at
  LIMIT $4
  @skip)
RETURNING gate

-- name: next hint
SELECT h.at
FROM pawl.gate_hints h
WHERE h.queue_id = $1 AND h.at > 0
ORDER BY h.at
LIMIT 1

-- All gates of a queue that have work are looked at again.
-- name: hint all
WITH RECURSIVE g (gate) AS (
  SELECT (SELECT r.gate FROM pawl.ready r WHERE r.queue_id = $1 AND r.gate IS NOT NULL ORDER BY r.gate LIMIT 1)
  UNION ALL
  SELECT (SELECT r.gate FROM pawl.ready r WHERE r.queue_id = $1 AND r.gate > g.gate ORDER BY r.gate LIMIT 1)
  FROM g
  WHERE g.gate IS NOT NULL)
INSERT INTO pawl.gate_hints (queue_id, at, gate, tx)
SELECT CAST($1 AS INTEGER), 0, g.gate, @transaction
FROM g
JOIN pawl.gates x ON x.id = g.gate
WHERE x.pointer <> ''
ON CONFLICT (queue_id, at, gate, tx) DO NOTHING

-- name: lock gates
SELECT x.id, x.next_start
FROM pawl.gates x
WHERE x.id IN (SELECT CAST(j.value ->> 0 AS INTEGER) FROM @each($1) AS j)
ORDER BY x.id
@skip

-- name: lock gate
SELECT x.id, x.next_start
FROM pawl.gates x
WHERE x.id = $1
@lock

-- name: leased of gates
SELECT CAST(j.value ->> 0 AS INTEGER),
  (SELECT COUNT(*) FROM pawl.leases l WHERE l.queue_id = $1 AND l.gate = CAST(j.value ->> 0 AS INTEGER))
FROM @each($2) AS j

-- The oldest items of gates that are in back-off, and the oldest that are suspended.
-- name: holding
SELECT CAST(j.value ->> 0 AS INTEGER), (
    SELECT s.item_id FROM pawl.scheduled s WHERE s.gate = CAST(j.value ->> 0 AS INTEGER) AND s.attempt > 0 ORDER BY s.item_id LIMIT 1)
FROM @each($1) AS j
WHERE EXISTS (SELECT 1 FROM pawl.scheduled s WHERE s.gate = CAST(j.value ->> 0 AS INTEGER) AND s.attempt > 0)
UNION ALL
SELECT CAST(j.value ->> 0 AS INTEGER), (
    SELECT w.item_id FROM pawl.waiting w WHERE w.gate = CAST(j.value ->> 0 AS INTEGER) AND w.attempt > 0 ORDER BY w.item_id LIMIT 1)
FROM @each($1) AS j
WHERE EXISTS (SELECT 1 FROM pawl.waiting w WHERE w.gate = CAST(j.value ->> 0 AS INTEGER) AND w.attempt > 0)

-- Those of the items that no other transaction locks.
-- name: lock unkeyed
SELECT p.item_id
FROM pawl.leases p
WHERE p.queue_id = $1 AND p.item_id IN (SELECT @id(j.value ->> 0) FROM @each($2) AS j)
ORDER BY p.item_id
@skip

-- name: lock unkeyed ready
SELECT r.item_id
FROM pawl.ready r
WHERE r.queue_id = $1 AND (r.rank, r.item_id) IN (SELECT CAST(j.value ->> 1 AS INTEGER), @id(j.value ->> 0) FROM @each($2) AS j)
ORDER BY r.item_id
@skip

-- name: gates of picks
SELECT r.item_id, r.rank, x.id, x.pointer, x.key
FROM @each($2) AS j
JOIN pawl.ready r ON r.queue_id = $1 AND r.rank = CAST(j.value ->> 1 AS INTEGER) AND r.item_id = @id(j.value ->> 0)
JOIN pawl.gates x ON x.id = r.gate

-- Items of a queue without a gate of its pointer, in one of the tables of items.
-- name: unkeyed ready
SELECT p.item_id, p.rank, w.input, t.payload, t.metadata
FROM pawl.ready p
JOIN pawl.all_items w ON w.id = p.item_id
JOIN pawl.tasks t ON t.id = p.task_id
WHERE p.queue_id = $1 AND (p.rank, p.item_id) > ($3, $4) AND (p.gate IS NULL OR NOT EXISTS (SELECT 1 FROM pawl.gates x WHERE x.id = p.gate AND x.pointer = $2))
ORDER BY p.rank, p.item_id
LIMIT $5

-- name: key ready
UPDATE pawl.ready
SET gate = $4
WHERE queue_id = $1 AND rank = $3 AND item_id = $2

-- name: unkeyed
SELECT p.item_id, 0, w.input, t.payload, t.metadata
FROM pawl.leases p
JOIN pawl.all_items w ON w.id = p.item_id
JOIN pawl.tasks t ON t.id = p.task_id
WHERE p.queue_id = $1 AND $3 = 0 AND p.item_id > $4 AND (p.gate IS NULL OR NOT EXISTS (SELECT 1 FROM pawl.gates x WHERE x.id = p.gate AND x.pointer = $2))
ORDER BY p.item_id
LIMIT $5

-- name: key
UPDATE pawl.leases
SET gate = $4
WHERE queue_id = $1 AND item_id = $2 AND $3 = 0

-- name: keying due
SELECT l.queue_id, l.namespace, q.type, l.rules, l.keyed_at
FROM pawl.queue_limits l
JOIN pawl.queues q ON q.id = l.queue_id
WHERE q.limited IS NOT NULL
  AND (l.keyed_at < l.changed_at + $1 OR l.keyed_at < l.changed_at + $2 AND l.changed_at + $2 <= $3 OR l.keyed_at < $3 - $4
    OR EXISTS (SELECT 1 FROM pawl.gate_hints h WHERE h.queue_id = l.queue_id AND h.at = $5))

-- name: queues with bare leases
SELECT l.queue_id, l.namespace, q.type, l.rules, l.keyed_at
FROM pawl.queue_limits l
JOIN pawl.queues q ON q.id = l.queue_id
WHERE q.limited IS NOT NULL AND EXISTS (SELECT 1 FROM pawl.leases h WHERE h.queue_id = l.queue_id AND h.gate IS NULL)

-- name: key again
UPDATE pawl.queue_limits
SET keyed_at = 0
WHERE queue_id = $1

-- name: begin keying
UPDATE pawl.queue_limits
SET keyed_at = $3
WHERE queue_id = $1 AND keyed_at = $2

-- name: forget search
DELETE FROM pawl.gate_hints
WHERE queue_id = $1 AND at = $2

-- name: end keying
UPDATE pawl.queue_limits
SET searched_at = $3
WHERE queue_id = $1 AND changed_at = $2 AND searched_at < $3

-- name: gates of items
SELECT r.item_id, x.id, x.key, x.next_start,
  CASE WHEN $2 = 1 AND EXISTS (SELECT 1 FROM pawl.ready o WHERE o.queue_id = r.queue_id AND o.gate = r.gate AND o.item_id < r.item_id) THEN 1 ELSE 0 END
FROM pawl.item_ranks w
JOIN pawl.ready r ON r.queue_id = w.queue_id AND r.rank = w.rank AND r.item_id = w.id
JOIN pawl.gates x ON x.id = r.gate
WHERE w.id IN @ids($1) AND x.pointer = $3

-- name: leased of keys
SELECT l.namespace, q.type, l.rules, x.pointer, x.key, COUNT(*)
FROM pawl.queue_limits l
JOIN pawl.queues q ON q.id = l.queue_id AND q.limited IS NOT NULL
JOIN pawl.leases h ON h.queue_id = l.queue_id AND h.gate IS NOT NULL
JOIN pawl.gates x ON x.id = h.gate
GROUP BY l.namespace, q.type, l.rules, x.pointer, x.key
ORDER BY l.namespace, q.type
