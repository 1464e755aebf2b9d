-- name: items
SELECT @columns(i.item), (SELECT l.acceptance FROM pawl.leases l WHERE l.item_id = i.id)
FROM pawl.item_rows i

-- name: tasks
SELECT @columns(t.task),
  COALESCE(t.retry_count,
    COALESCE((SELECT SUM(l.failures) FROM pawl.leases l WHERE l.task_id = t.id AND l.failures > 0), 0)
    + COALESCE((SELECT SUM(e.failures) FROM pawl.finished_items e WHERE e.task_id = t.id AND e.failures > 0), 0)
    + COALESCE((SELECT SUM(r.failures) FROM pawl.ready r WHERE r.task_id = t.id AND r.failures > 0), 0)
    + COALESCE((SELECT SUM(s.failures) FROM pawl.scheduled s WHERE s.task_id = t.id AND s.failures > 0), 0)
    + COALESCE((SELECT SUM(g.failures) FROM pawl.waiting g WHERE g.task_id = t.id AND g.failures > 0), 0)
    + COALESCE((SELECT SUM(p.failures) FROM pawl.parked_items p WHERE p.task_id = t.id AND p.failures > 0), 0)), t.applied_at, t.completed_at,
  COALESCE((SELECT e.created_at FROM pawl.task_events e WHERE e.task_id = t.id ORDER BY e.id DESC LIMIT 1), t.created_at),
  COALESCE((SELECT e.created_at FROM pawl.task_events e WHERE e.task_id = t.id AND e.move NOT IN @events(stateless) ORDER BY e.id DESC LIMIT 1), t.created_at),
  (SELECT r.error FROM pawl.parked_items r WHERE t.solo = 0 AND r.task_id = t.id AND r.error IS NOT NULL ORDER BY r.since DESC, r.item_id LIMIT 1),
  CASE WHEN t.state = 'submitted' THEN (SELECT k.ready_for_approval FROM pawl.task_counters k WHERE k.task_id = t.id) END,
  (SELECT p.children FROM pawl.parents p WHERE p.task_id = t.id)
FROM pawl.task_rows t

-- name: updated
COALESCE((SELECT e.created_at FROM pawl.task_events e WHERE e.task_id = t.id ORDER BY e.id DESC LIMIT 1), t.created_at)

-- name: span of events
SELECT o.created_at, n.created_at, n.id - o.id + 1
FROM (SELECT a.id, a.created_at FROM pawl.task_events a ORDER BY a.id LIMIT 1) o,
  (SELECT b.id, b.created_at FROM pawl.task_events b ORDER BY b.id DESC LIMIT 1) n

-- name: newest of its task
e.id = (SELECT n.id FROM pawl.task_events n WHERE n.task_id = e.task_id ORDER BY n.id DESC LIMIT 1)

-- name: available
(SELECT 1 -- with LIMIT, or the planner joins all items for a few tasks
  FROM pawl.item_ranks k
  JOIN pawl.ready r ON r.queue_id = k.queue_id AND r.rank = k.rank AND r.item_id = k.id
  WHERE k.task_id = t.id AND @claimable(r.queue_id) IS NOT NULL
  LIMIT 1) IS NOT NULL

-- name: events
SELECT e.id, e.namespace, e.task_id, e.item_id, e.attempt, e.move, COALESCE(a.kind, ''), NULLIF(a.name, ''),
  e.message, e.data, e.diff, e.key_id, e.created_at, (SELECT t.type FROM pawl.tasks t WHERE t.id = e.task_id),
  (SELECT t.trace_parent FROM pawl.tasks t WHERE t.id = e.task_id)
FROM pawl.task_events e
LEFT JOIN pawl.actors a ON a.id = e.actor

-- name: move
SELECT class, event, from_state, to_state, task_from, task_to
FROM pawl.moves
WHERE code = $1

-- name: checkpoints
SELECT c.id, c.namespace, c.task_id, c.item_id, c.attempt, c.seq, c.type, c.name, c.args_hash, c.snapshot, c.blob,
  (SELECT b.size FROM pawl.blobs b WHERE b.namespace = c.namespace AND b.address = c.blob), c.message_id, c.said, c.metadata, c.created_at
FROM pawl.checkpoints c

-- The same without snapshots.
-- name: checkpoints in brief
SELECT c.id, c.namespace, c.task_id, c.item_id, c.attempt, c.seq, c.type, c.name, c.args_hash, 'null', NULL, NULL, c.message_id, NULL, c.metadata,
  c.created_at
FROM pawl.checkpoints c

-- name: task exists
SELECT 1
FROM pawl.tasks
WHERE id = $1 AND namespace = $2

-- name: count tasks
SELECT COUNT(*)
FROM (SELECT 1 FROM pawl.tasks t WHERE t.namespace = $1 LIMIT $2) x

-- name: count events
SELECT COUNT(*)
FROM (SELECT 1 FROM pawl.tasks t JOIN pawl.task_events e ON e.task_id = t.id WHERE t.namespace = $1 LIMIT $2) x

-- name: events of few tasks
e.id IN (
  SELECT x.id FROM pawl.tasks t JOIN pawl.task_events x ON x.task_id = t.id WHERE t.namespace = ?
  UNION ALL
  SELECT b.event_id FROM pawl.tombstones b WHERE b.namespace = ?)

-- name: type of task
SELECT type, type_version, priority
FROM pawl.tasks
WHERE id = $1 AND namespace = $2

-- name: task state
SELECT t.state
FROM pawl.task_rows t
WHERE t.id = $1 AND t.namespace = $2

-- The newest checkpoint of each name and the newest step of each message after $2. Older
-- steps that refer to their message are left out: all of them together repeat it once for
-- each step. With $3, the newest of all and the newest of some types come first.
-- name: resume
SELECT c.id, c.namespace, c.task_id, c.item_id, c.attempt, c.seq, c.type, c.name, c.args_hash, c.snapshot, c.blob,
  (SELECT b.size FROM pawl.blobs b WHERE b.namespace = c.namespace AND b.address = c.blob), c.message_id, c.said, c.metadata, c.created_at, n.point, n.step
FROM (
  SELECT y.seq, MAX(y.point) AS point, MAX(y.step) AS step
  FROM (
    SELECT MAX(x.seq) AS seq, 1 AS point, 0 AS step FROM pawl.checkpoints x WHERE x.item_id = $1 AND $3 > 0
    UNION ALL SELECT MAX(x.seq), 1, 0 FROM pawl.checkpoints x WHERE x.item_id = $1 AND $3 > 0 AND x.type IN ('iteration_start', 'iteration_end', 'error_boundary') GROUP BY x.type
    UNION ALL SELECT MAX(x.seq), 0, 1 FROM pawl.checkpoints x WHERE x.item_id = $1 AND x.name IS NOT NULL AND (x.message_id IS NULL OR x.snapshot IS NOT NULL OR x.blob IS NOT NULL) GROUP BY x.name
    UNION ALL SELECT MAX(x.seq), 0, 1 FROM pawl.checkpoints x WHERE x.item_id = $1 AND x.message_id IS NOT NULL GROUP BY x.message_id) y
  WHERE y.seq > $2
  GROUP BY y.seq
  ORDER BY MAX(y.point) DESC, y.seq
  LIMIT $4) n
JOIN pawl.checkpoints c ON c.item_id = $1 AND c.seq = n.seq
ORDER BY n.point DESC, n.seq

-- The queues of a namespace that have ready rows, without a look at the other queues of the
-- namespace or at the rows of other namespaces: each step goes on to the next queue that has
-- rows, and from there to the next one of the namespace, along an index each. A row of rank $2,
-- which is below every rank, is a queue whose ranks come next; rank NULL is its end. With $3,
-- paused queues are among them.
-- name: groups
WITH RECURSIVE g (queue_id, rank) AS (
  SELECT CAST(0 AS INTEGER), CAST(NULL AS INTEGER)
  UNION ALL
  SELECT
    CASE WHEN g.rank IS NOT NULL THEN g.queue_id ELSE (
      SELECT q.id
      FROM pawl.queues q
      WHERE q.namespace = $1 AND q.id >= (SELECT r.queue_id FROM pawl.ready r WHERE r.queue_id > g.queue_id ORDER BY r.queue_id LIMIT 1)
      ORDER BY q.id
      LIMIT 1) END,
    CASE WHEN g.rank IS NULL THEN $2 ELSE (
      SELECT r.rank
      FROM pawl.ready r
      WHERE r.queue_id = g.queue_id AND r.rank > g.rank
      ORDER BY r.rank
      LIMIT 1) END
  FROM g
  WHERE g.queue_id IS NOT NULL)
SELECT @type_of(g.queue_id), g.rank
FROM g
WHERE g.rank > $2 AND ($3 OR @claimable(g.queue_id) IS NOT NULL)

-- What the items that still ask by tasks need: their number, the sum of the amounts as
-- quotients and remainders, which do not overflow, and the least amount. The metadata has what was decided.
-- name: asked
SELECT t.id, COALESCE(k.state, ''), t.metadata, COUNT(q.item_id), CAST(COALESCE(SUM(q.amount / $3), 0) AS bigint),
  CAST(COALESCE(SUM(q.amount % $3), 0) AS bigint), COALESCE(MIN(q.amount), 0)
FROM pawl.tasks t
LEFT JOIN pawl.task_counters k ON k.task_id = t.id
LEFT JOIN pawl.budget_questions q ON q.task_id = t.id
  AND EXISTS (SELECT 1 FROM pawl.item_rows i WHERE i.id = q.item_id AND i.state IN @list($2))
  AND NOT EXISTS (
    SELECT 1
    FROM pawl.budget_reservations r
    WHERE r.budget_id = q.budget_id AND r.item_id = q.item_id AND r.key = q.key AND r.period_number >= q.period_number
      AND (r.state = 1 OR r.state = 0 AND r.amount >= q.amount))
WHERE t.id IN @ids($1)
GROUP BY t.id, k.state, t.metadata
