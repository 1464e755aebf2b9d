-- The rows of items are removed from the tables of their states and inserted into others.
-- The columns are listed in state_table.go and item_columns.go. Rows of leases and of
-- waiting are locked in the order of item ids, as the hot verbs do: see store.Hot.

-- Each row is looked up by its key, whatever the planner believes of the table.
-- name: take ready
DELETE FROM pawl.ready
WHERE @ready_rows SELECT @ready_row FROM pawl.item_ranks w WHERE w.id IN @ids($1) @end_rows
RETURNING @columns(ready), @namespace_of(queue_id), @type_of(queue_id), @priority_of(rank, item_id)

-- name: take scheduled
DELETE FROM pawl.scheduled
WHERE item_id IN @ids($1)
RETURNING @columns(scheduled), @namespace_of(queue_id), @type_of(queue_id)

-- name: take waiting
WITH held AS MATERIALIZED (
  SELECT item_id
  FROM pawl.waiting
  WHERE item_id IN @ids($1)
  ORDER BY item_id
  @lock)
DELETE FROM pawl.waiting
WHERE item_id IN (SELECT item_id FROM held)
RETURNING @columns(waiting), @namespace_of(queue_id), @type_of(queue_id)

-- name: take leases
WITH held AS MATERIALIZED (
  SELECT item_id
  FROM pawl.leases
  WHERE item_id IN @ids($1)
  ORDER BY item_id
  @lock)
DELETE FROM pawl.leases
WHERE item_id IN (SELECT item_id FROM held)
RETURNING @columns(leases), @namespace_of(queue_id), @type_of(queue_id)

-- A lease that is removed ends its effects, unless their number is below 0.
-- name: keep effects
UPDATE pawl.leases
SET effects = -effects
WHERE item_id IN @ids($1) AND effects > 0

-- name: take parked_items
DELETE FROM pawl.parked_items
WHERE item_id IN @ids($1) AND @state_name(state) IN @list($2)
RETURNING @columns(parked_items), @namespace_of(queue_id), @type_of(queue_id)

-- name: put ready
INSERT INTO pawl.ready (@columns(ready))
VALUES (@values(ready, $1))

-- name: put scheduled
INSERT INTO pawl.scheduled (@columns(scheduled))
VALUES (@values(scheduled, $1))

-- name: put waiting
INSERT INTO pawl.waiting (@columns(waiting))
VALUES (@values(waiting, $1))

-- name: put leases
INSERT INTO pawl.leases (@columns(leases))
VALUES (@values(leases, $1))

-- name: put parked_items
INSERT INTO pawl.parked_items (@columns(parked_items))
VALUES (@values(parked_items, $1))

-- name: put finished_items
INSERT INTO pawl.finished_items (@columns(finished_items))
VALUES (@values(finished_items, $1))

-- Rows that concurrent calls change are updated in place. A call that waits for the lock of
-- such a row then finds its newest version. It would not find a row that was removed and
-- inserted again.
-- name: amend scheduled
UPDATE pawl.scheduled
SET solo = COALESCE($2, solo), feeds = COALESCE($3 + feeds - feeds % 2, feeds), priority = COALESCE($4, priority)
WHERE item_id IN @ids($1)
RETURNING item_id, @namespace_of(queue_id), @type_of(queue_id), @state(scheduled)

-- name: amend waiting
WITH held AS MATERIALIZED (
  SELECT item_id
  FROM pawl.waiting
  WHERE item_id IN @ids($1)
  ORDER BY item_id
  @lock)
UPDATE pawl.waiting
SET solo = COALESCE($2, solo), feeds = COALESCE($3 + feeds - feeds % 2, feeds), priority = COALESCE($4, priority)
WHERE item_id IN (SELECT item_id FROM held)
RETURNING item_id, @namespace_of(queue_id), @type_of(queue_id), @state(waiting)

-- name: amend leases
WITH held AS MATERIALIZED (
  SELECT item_id
  FROM pawl.leases
  WHERE item_id IN @ids($1)
  ORDER BY item_id
  @lock)
UPDATE pawl.leases
SET solo = COALESCE($2, solo), feeds = COALESCE($3 + feeds - feeds % 2, feeds), priority = COALESCE($4, priority)
WHERE item_id IN (SELECT item_id FROM held)
RETURNING item_id, @namespace_of(queue_id), @type_of(queue_id), state

-- name: amend parked_items
UPDATE pawl.parked_items
SET solo = COALESCE($2, solo), feeds = COALESCE($3 + feeds - feeds % 2, feeds), priority = COALESCE($4, priority)
WHERE item_id IN @ids($1)
RETURNING item_id, @namespace_of(queue_id), @type_of(queue_id), state

-- name: still in
SELECT i.id
FROM pawl.item_rows i
WHERE i.id @among_ids($1) AND i.state IN @list($2)

-- name: record
INSERT INTO pawl.task_events (namespace, task_id, item_id, attempt, move, actor, message, data, diff, key_id, created_at, queue_id, since, request, digest)
VALUES ($1, $2, $3, $4, $5, COALESCE($6, @actor($7, $8)), $9, $10, $11, $12, $13, $14, $15, $16, $17)

-- name: solo of item
SELECT CASE WHEN w.kind = 'work' THEN t.solo ELSE 2 END
FROM pawl.all_items w
JOIN pawl.tasks t ON t.id = w.task_id
WHERE w.id = $1
