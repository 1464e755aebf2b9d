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
