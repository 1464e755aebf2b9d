-- Signals. The sender of a signal and the call that suspends an item for it both lock the
-- signal's row before they read. So neither misses what the other has written.

-- name: lock signal
SELECT sent_at
FROM pawl.signals
WHERE namespace = $1 AND name = $2 AND key = $3
@lock

-- name: open signal
INSERT INTO pawl.signals (namespace, name, key, created_at)
VALUES ($1, $2, $3, $4)
ON CONFLICT (namespace, name, key) DO NOTHING

-- name: send signal
UPDATE pawl.signals
SET payload = $4, sent_at = $5, waking = NULL
WHERE namespace = $1 AND name = $2 AND key = $3

-- name: read signal
SELECT payload, sent_at
FROM pawl.signals
WHERE namespace = $1 AND name = $2 AND key = $3 AND sent_at IS NOT NULL

-- name: forget signal
DELETE FROM pawl.signals
WHERE namespace = $1 AND name = $2 AND key = $3 AND sent_at IS NULL
  AND NOT EXISTS (
    SELECT 1 FROM pawl.waiting g
    WHERE g.signal = $2 AND COALESCE(g.signal_key, '') = $3 AND g.queue_id IN @queues_of($1))

-- They are locked: none of them can begin another wait before it is taken.
-- name: waiting for signal
SELECT g.item_id
FROM pawl.waiting g
WHERE g.signal = $2 AND COALESCE(g.signal_key, '') = $3 AND g.queue_id IN @queues_of($1)
ORDER BY g.item_id
LIMIT $4
@lock

-- name: count waiting
SELECT COUNT(*), COALESCE(MAX(g.since), 0)
FROM pawl.waiting g
WHERE g.signal = $2 AND COALESCE(g.signal_key, '') = $3 AND g.queue_id IN @queues_of($1)

-- name: note waking
UPDATE pawl.signals
SET waking = $4
WHERE namespace = $1 AND name = $2 AND key = $3

-- name: next to wake
SELECT s.namespace, s.name, s.key
FROM pawl.signals s
WHERE s.waking IS NOT NULL AND (s.namespace, s.name, s.key) > ($1, $2, $3)
ORDER BY s.namespace, s.name, s.key
LIMIT 1

-- name: waking
SELECT s.waking
FROM pawl.signals s
WHERE s.namespace = $1 AND s.name = $2 AND s.key = $3 AND s.waking IS NOT NULL

-- An item that began to wait later has another wait.
-- name: left to wake
SELECT g.item_id
FROM pawl.waiting g
WHERE g.signal = $2 AND COALESCE(g.signal_key, '') = $3 AND g.queue_id IN @queues_of($1) AND g.since <= $4
ORDER BY g.item_id
LIMIT $5
@skip

-- name: nothing to wake
UPDATE pawl.signals
SET waking = NULL
WHERE namespace = $1 AND name = $2 AND key = $3 AND NOT EXISTS (
  SELECT 1 FROM pawl.waiting g
  WHERE g.signal = $2 AND COALESCE(g.signal_key, '') = $3 AND g.queue_id IN @queues_of($1) AND g.since <= $4)

-- The events of each task are read once, from the sending on: a task may have 100,000 items that wait.
-- name: told tasks
SELECT t.task_id
FROM (
  SELECT DISTINCT g.task_id
  FROM pawl.waiting g
  WHERE g.item_id IN @ids($1)) t
WHERE EXISTS (
  SELECT 1
  FROM pawl.task_events e
  JOIN pawl.moves m ON m.code = e.move
  WHERE e.task_id = t.task_id AND e.id > $3 AND m.event = 'signalled' AND e.data = $2)

-- name: signalled before
SELECT g.item_id
FROM pawl.waiting g
JOIN pawl.queues q ON q.id = g.queue_id
JOIN pawl.signals s ON s.namespace = q.namespace AND s.name = g.signal AND s.key = COALESCE(g.signal_key, '')
WHERE g.item_id IN @ids($1) AND s.sent_at IS NOT NULL

-- The signals that an item took: those that ended its waits, and those that its finished waits
-- have in their metadata.
-- name: taken signals
SELECT COALESCE(e.attempt, 0), 0, e.data
FROM pawl.task_events e
JOIN pawl.moves m ON m.code = e.move
WHERE e.task_id = $1 AND e.item_id = $2 AND e.data IS NOT NULL AND m.event = 'ready'
UNION ALL
SELECT 0, c.seq, c.metadata
FROM pawl.checkpoints c
WHERE c.task_id = $1 AND c.item_id = $2 AND c.metadata IS NOT NULL AND c.name IS NOT NULL

-- name: old signals
SELECT s.namespace, s.name, s.key
FROM pawl.signals s
WHERE s.sent_at < $1
  AND NOT EXISTS (
    SELECT 1 FROM pawl.waiting g
    WHERE g.signal = s.name AND COALESCE(g.signal_key, '') = s.key AND g.queue_id IN @queues_of(s.namespace))
ORDER BY s.sent_at
LIMIT $2

-- name: old signals of names
SELECT s.namespace, s.name, s.key
FROM pawl.signals s
WHERE s.name IN @list($3) AND s.sent_at < $1
  AND NOT EXISTS (
    SELECT 1 FROM pawl.waiting g
    WHERE g.signal = s.name AND COALESCE(g.signal_key, '') = s.key AND g.queue_id IN @queues_of(s.namespace))
ORDER BY s.sent_at
LIMIT $2

-- name: remove old signal
DELETE FROM pawl.signals
WHERE namespace = $1 AND name = $2 AND key = $3 AND sent_at < $4
  AND NOT EXISTS (
    SELECT 1 FROM pawl.waiting g
    WHERE g.signal = $2 AND COALESCE(g.signal_key, '') = $3 AND g.queue_id IN @queues_of($1))

-- A call that waits for a signal leaves a row of it, see above. These are the next rows, and
-- whether one was never sent and no item waits for it any more.
-- name: signals after
SELECT s.namespace, s.name, s.key, CASE WHEN s.sent_at IS NULL AND s.created_at < $4 AND NOT EXISTS (
    SELECT 1 FROM pawl.waiting g
    WHERE g.signal = s.name AND COALESCE(g.signal_key, '') = s.key AND g.queue_id IN @queues_of(s.namespace)) THEN 1 ELSE 0 END
FROM pawl.signals s
WHERE (s.namespace, s.name, s.key) > ($1, $2, $3)
ORDER BY s.namespace, s.name, s.key
LIMIT $5

-- name: count old signals
SELECT COUNT(*)
FROM pawl.signals
WHERE sent_at < $1 OR name IN @list($3) AND sent_at < $2

-- name: sent and waited for
SELECT @item_text(g.item_id), g.task_id, 'it waits for signal ' || g.signal || ', key "' || s.key || '", which was sent at ' || s.sent_at
FROM pawl.waiting g
JOIN pawl.queues q ON q.id = g.queue_id
JOIN pawl.signals s ON s.namespace = q.namespace AND s.name = g.signal AND s.key = COALESCE(g.signal_key, '')
WHERE s.sent_at > g.since AND s.waking IS NULL
