-- name: homes
SELECT m.id, m.item_id, m.state
FROM pawl.messages m
WHERE m.namespace = $1 AND m.id IN @list($2)

-- name: set thread
UPDATE pawl.tasks
SET thread = $2
WHERE id = $1

-- name: open message
SELECT m.id
FROM pawl.messages m
WHERE m.item_id = $1 AND m.state = 'streaming'
ORDER BY m.id
LIMIT 1

-- A message that was never open was never replayable.
-- $5 is how often the item was sent back for rework: what it had said until then is not of its new work.
-- name: said by item
SELECT m.id, m.state, m.chunks, m.step_number, COALESCE(m.model, ''), m.max_steps
FROM pawl.messages m
WHERE m.task_id = $1 AND m.item_id = $2 AND (m.state = 'streaming' OR m.replayable IS NOT NULL)
  AND ($5 = 0 OR m.state = 'streaming' OR COALESCE(m.attempt, 0) > COALESCE((
    SELECT e.attempt
    FROM pawl.task_events e
    WHERE e.task_id = $1 AND e.item_id = $2 AND e.move IN @events(item reject)
    ORDER BY e.id DESC
    LIMIT 1), 0))
  AND ($3 = '' OR (m.created_at, m.id) > (SELECT x.created_at, x.id FROM pawl.messages x WHERE x.id = $3))
ORDER BY m.created_at, m.id
LIMIT $4

-- name: hold messages
SELECT m.id
FROM pawl.messages m
WHERE m.task_id = $1 AND m.item_id IN @ids($2)
ORDER BY m.id
@lock

-- name: resume messages
UPDATE pawl.messages
SET state = 'streaming', content = NULL, ended_at = NULL
WHERE state = 'error' AND task_id = $1 AND item_id IN @ids($2)
RETURNING id, item_id, namespace

-- name: tell lease
UPDATE pawl.leases
SET stopped = $2
WHERE item_id = $1

-- name: next writer
UPDATE pawl.messages
SET attempt = attempt + 1
WHERE id = $1
RETURNING attempt

-- The messages that a task has itself and that were opened: complete ones have no `replayable`.
-- name: own message of thread
SELECT m.id
FROM pawl.messages m
WHERE m.task_id = $1 AND m.item_id IS NULL AND m.thread = $2 AND (m.state <> 'complete' OR m.replayable IS NOT NULL)
ORDER BY m.id
LIMIT 1

-- name: start message
INSERT INTO pawl.messages (id, namespace, thread, task_id, item_id, attempt, role, content, state, model, max_steps, metadata, created_at, ended_at, step_offset)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, 0)

-- name: thread of task
SELECT COALESCE(thread, '')
FROM pawl.tasks
WHERE id = $1

-- name: heads
SELECT m.id, m.state, m.chunks, m.step_number, m.cuts
FROM pawl.messages m
WHERE m.id IN @list($1)

-- name: own strays
SELECT m.id, m.namespace, ''
FROM pawl.messages m

-- name: strays
SELECT m.id, m.namespace, COALESCE(@state_name(r.state), @state_name(e.state))
FROM pawl.messages m
LEFT JOIN pawl.parked_items r ON r.item_id = m.item_id
LEFT JOIN pawl.finished_items e ON e.item_id = m.item_id

-- name: breaches of chunks
WITH c AS MATERIALIZED (
  SELECT p.message_id, SUM(p.count) AS held, MAX(p.seq + p.count) AS until, SUM(CASE WHEN p.seq <> p.place THEN 1 ELSE 0 END) AS gaps
  FROM (
    SELECT b.message_id, b.seq, b.count, COALESCE(LAG(b.seq + b.count) OVER (PARTITION BY b.message_id ORDER BY b.seq), 0) AS place
    FROM pawl.message_chunks b
  ) p
  GROUP BY p.message_id
)
SELECT x.id, x.task_id, 'it counts ' || x.chunks || ' chunks; there are ' || x.held || ', the last ends at ' || x.until || ', gaps ' || x.gaps
FROM (
  SELECT m.id, m.task_id, m.chunks, m.state, COALESCE(m.replayable, 0) AS replayable,
    COALESCE(c.held, 0) AS held, COALESCE(c.until, 0) AS until, COALESCE(c.gaps, 0) AS gaps
  FROM pawl.messages m
  LEFT JOIN c ON c.message_id = m.id
) x
WHERE x.gaps > 0 OR (x.state IN ('streaming', 'error') OR x.replayable = 1) AND (x.held <> x.chunks OR x.until <> x.chunks)

-- name: breaches of open message
SELECT m.id, m.task_id, 'item ' || @item_text(m.item_id) || ' has another one: ' || o.id
FROM pawl.messages m
JOIN pawl.messages o ON o.item_id = m.item_id AND o.state = 'streaming' AND o.id > m.id
WHERE m.state = 'streaming'
UNION ALL
SELECT m.id, m.task_id, 'it is ' || m.state || ' without content'
FROM pawl.messages m
WHERE m.state <> 'streaming' AND m.content IS NULL

-- name: end message
UPDATE pawl.messages
SET state = $2, content = $3, usage = $4, ended_at = $5, replayable = $6
WHERE id = $1

-- name: retired messages
SELECT m.id, m.ended_at
FROM pawl.messages m
WHERE m.replayable = 1 AND m.ended_at <= $1 AND m.ended_at >= $2 AND (m.ended_at > $2 OR m.id > $3)
  AND NOT EXISTS (SELECT 1 FROM pawl.tasks t WHERE t.id = m.task_id AND t.namespace = '*') -- it is being restored
  AND NOT EXISTS (
    SELECT 1
    FROM pawl.relocations r
    WHERE r.open = 0 AND r.namespace IN ('', m.namespace)
      AND (r.side = 'target' AND r.step <> 'done' OR r.side = 'source' AND r.step IN ('flipped', 'done')))
ORDER BY m.ended_at, m.id
LIMIT $4

-- name: remove chunks
DELETE FROM pawl.message_chunks
WHERE message_id IN @list($1)

-- name: not replayable
UPDATE pawl.messages
SET replayable = 0
WHERE id IN @list($1) AND replayable = 1 AND ended_at <= $2
RETURNING id

-- name: look at own message
SELECT m.state, m.chunks, m.bytes
FROM pawl.messages m
WHERE m.id = $1 AND m.namespace = $2 AND m.item_id IS NULL
@lock

-- name: grow own message
UPDATE pawl.messages
SET chunks = $2, bytes = $3
WHERE id = $1

-- name: put chunks
INSERT INTO pawl.message_chunks (message_id, seq, count, attempt, body, created_at)
VALUES ($1, $2, $3, $4, $5, $6)

-- name: keep task of message
SELECT t.id
FROM pawl.tasks t
WHERE t.id = (SELECT m.task_id FROM pawl.messages m WHERE m.id = $1 AND m.namespace = $2)
@kept
