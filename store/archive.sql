-- All rows of a task. They are read in the order in which they can be inserted again. They
-- are removed in bounded steps, in an order in which the remaining rows can still be found. The link of
-- a child is that of its parent too: both archives have it.
-- $1 is the task, $2 the largest number of rows. Each "= $1" may become a list of tasks: see manySQL.

-- name: rows tasks
SELECT @columns(new_task), parts_required, reasons, thread, created_at
FROM pawl.tasks
WHERE id = $1

-- name: rows task_counters
SELECT task_id, namespace, state, version, items, positions, open, failed, dead, cancelled, checkpoints, pruned, failed_in, error, ready_for_approval, applied_at, completed_at, updated_at, ignores_failures
FROM pawl.task_counters
WHERE task_id = $1

-- name: rows items
SELECT id, namespace, task_id, type, kind, position, key, priority, max_attempts, run_at, after, input, parts_required, reasons, created_at, deadline
FROM pawl.items
WHERE task_id = $1
ORDER BY position, id

-- name: count items
SELECT task_id, COUNT(*)
FROM pawl.all_items
WHERE task_id = $1
GROUP BY task_id

-- name: rows item_deps
SELECT needs_id, item_id
FROM pawl.item_deps
WHERE needs_id IN (SELECT id FROM pawl.all_items WHERE task_id = $1)
ORDER BY needs_id, item_id

-- name: rows parked_items
SELECT item_id, @namespace_of(queue_id) AS namespace, task_id, @type_of(queue_id) AS type, priority, @state_name(state) AS state, @columns(carried, gate: NULL AS gate), left_by, @name_of(worker) AS worker_id, started_at, since, completed_at, accepted_at, progress, stage, result, assembled_result, evidence, notes, error
FROM pawl.parked_items
WHERE item_id IN (SELECT id FROM pawl.all_items WHERE task_id = $1)
ORDER BY item_id

-- name: rows finished_items
SELECT item_id, @namespace_of(queue_id) AS namespace, task_id, @state_name(state) AS state, @columns(kept), left_by, @name_of(worker) AS worker_id, started_at, ended_at, accepted_at, stage, result, assembled_result, error
FROM pawl.finished_items
WHERE item_id IN (SELECT id FROM pawl.all_items WHERE task_id = $1)
ORDER BY item_id

-- name: rows deadlines
SELECT item_id, namespace, task_id, at
FROM pawl.deadlines
WHERE item_id IN (SELECT id FROM pawl.all_items WHERE task_id = $1)
ORDER BY item_id

-- name: rows item_parts
SELECT id, namespace, item_id, part_key, seq, status, payload, evidence, notes, errors, checksum, worker_id, attempt, idempotency_key_hash, created_at, superseded_at
FROM pawl.item_parts
WHERE item_id IN (SELECT id FROM pawl.all_items WHERE task_id = $1)
ORDER BY id

-- name: rows blobs
SELECT namespace, address, base, depth, chain, size, body
FROM pawl.blobs
WHERE (namespace, address) IN (
  WITH RECURSIVE needed (namespace, address, base) AS (
    SELECT b.namespace, b.address, b.base
    FROM pawl.checkpoints c
    JOIN pawl.blobs b ON b.namespace = c.namespace AND b.address = c.blob
    WHERE c.task_id = $1 AND c.blob IS NOT NULL
    UNION
    SELECT b.namespace, b.address, b.base
    FROM needed n
    JOIN pawl.blobs b ON b.namespace = n.namespace AND b.address = n.base)
  SELECT namespace, address FROM needed)
ORDER BY depth, address

-- name: rows checkpoints
SELECT id, namespace, task_id, item_id, attempt, seq, type, name, args_hash, message_id, snapshot, metadata, said, blob, created_at
FROM pawl.checkpoints
WHERE task_id = $1
ORDER BY seq

-- name: rows task_events
SELECT id, namespace, task_id, item_id, attempt, class, event, from_state, to_state, task_from, task_to, @kind_of(actor) AS actor_type, @name_of(actor) AS actor_id, message, data, diff, trace_parent, key_id, created_at
FROM pawl.event_rows
WHERE task_id = $1 AND event <> 'deleted'
ORDER BY id

-- name: rows task_results
SELECT task_id, namespace, payload, created_at
FROM pawl.task_results
WHERE task_id = $1

-- name: rows provenances
SELECT id, namespace, task_id, item_id, attempt, event_id, verb, scope, idempotency_key, agent_id, agent_name, agent_version, model, request_fingerprint, extra, created_at
FROM pawl.provenances
WHERE task_id = $1
ORDER BY id

-- name: rows messages
SELECT id, namespace, thread, task_id, item_id, attempt, role, content, state, model, step_number, max_steps, chunks, bytes, checkpoint_id, usage, metadata, created_at, ended_at, step_offset, cuts, replayable
FROM pawl.messages
WHERE task_id = $1
ORDER BY id

-- name: rows message_chunks
SELECT message_id, seq, count, attempt, body, created_at
FROM pawl.message_chunks
WHERE message_id IN (SELECT id FROM pawl.messages WHERE task_id = $1)
ORDER BY message_id, seq

-- name: rows parents
SELECT task_id, namespace, depth, children
FROM pawl.parents
WHERE task_id = $1

-- name: rows child_links
SELECT child_id, namespace, parent_id, item_id, key, depth
FROM pawl.child_links
WHERE child_id = $1 OR parent_id = $1
ORDER BY child_id

-- name: rows child_waits
SELECT item_id, namespace, task_id, attempt, name, need, on_failure, total, ended, failed, over
FROM pawl.child_waits
WHERE item_id IN (SELECT id FROM pawl.all_items WHERE task_id = $1)
ORDER BY item_id

-- name: rows effects
SELECT id, namespace, key, name, task_id, item_id, request_hash, state, repeatable, sender, worker_id, attempt, key_id, sent_until, sendings, senders, approval, decided_by, budget, amount, reservation, outcome, comment, answer, answer_hash, error, late, contradicts, late_report, copied, source, opened_at, ended_at, created_at
FROM pawl.effects
WHERE task_id = $1 AND gone = 0
ORDER BY id

-- name: rows awaited_children
SELECT child_id, item_id, state, error
FROM pawl.awaited_children
WHERE item_id IN (SELECT id FROM pawl.all_items WHERE task_id = $1)
ORDER BY item_id, child_id

-- name: unlink keys of task
UPDATE pawl.idempotency_keys
SET task_id = NULL
WHERE (namespace, scope, key_hash) IN (
  SELECT namespace, scope, key_hash
  FROM pawl.idempotency_keys
  WHERE task_id = $1
  LIMIT $2)

-- name: unlink reservations
UPDATE pawl.budget_reservations
SET task_id = NULL, item_id = NULL
WHERE id IN (
  SELECT id
  FROM pawl.budget_reservations
  WHERE task_id = $1
  LIMIT $2)

-- name: unlink keys of items
UPDATE pawl.idempotency_keys
SET item_id = NULL
WHERE (namespace, scope, key_hash) IN (
  SELECT k.namespace, k.scope, k.key_hash
  FROM pawl.all_items w
  JOIN pawl.idempotency_keys k ON k.item_id = w.id
  WHERE w.task_id = $1
  LIMIT $2)

-- name: remove message_chunks
DELETE FROM pawl.message_chunks
WHERE (message_id, seq) IN (
  SELECT c.message_id, c.seq
  FROM pawl.messages m
  JOIN pawl.message_chunks c ON c.message_id = m.id
  WHERE m.task_id = $1
  LIMIT $2)

-- name: remove messages
DELETE FROM pawl.messages
WHERE id IN (SELECT id FROM pawl.messages WHERE task_id = $1 LIMIT $2)

-- name: remove provenances
DELETE FROM pawl.provenances
WHERE id IN (SELECT id FROM pawl.provenances WHERE task_id = $1 LIMIT $2)

-- Each row is looked up by its key. With a join, statistics of an empty table made the planner walk
-- over all rows for each row.
-- name: remove ready
DELETE FROM pawl.ready
WHERE @ready_rows
    SELECT @ready_row
    FROM pawl.item_ranks w
    WHERE w.task_id = $1
      AND (SELECT 1 FROM pawl.ready r WHERE r.queue_id = w.queue_id AND r.rank = w.rank AND r.item_id = w.id) IS NOT NULL
    LIMIT $2 @end_rows

-- name: remove scheduled
DELETE FROM pawl.scheduled
WHERE item_id @among_rows
    SELECT w.id FROM pawl.all_items w WHERE w.task_id = $1 AND (SELECT 1 FROM pawl.scheduled p WHERE p.item_id = w.id) IS NOT NULL
    LIMIT $2 @end_rows

-- name: remove waiting
DELETE FROM pawl.waiting
WHERE item_id @among_rows
    SELECT w.id FROM pawl.all_items w WHERE w.task_id = $1 AND (SELECT 1 FROM pawl.waiting p WHERE p.item_id = w.id) IS NOT NULL
    LIMIT $2 @end_rows

-- name: remove leases
DELETE FROM pawl.leases
WHERE item_id @among_rows
    SELECT w.id FROM pawl.all_items w WHERE w.task_id = $1 AND (SELECT 1 FROM pawl.leases p WHERE p.item_id = w.id) IS NOT NULL
    LIMIT $2 @end_rows

-- name: remove parked_items
DELETE FROM pawl.parked_items
WHERE item_id @among_rows
    SELECT w.id FROM pawl.all_items w WHERE w.task_id = $1 AND (SELECT 1 FROM pawl.parked_items p WHERE p.item_id = w.id) IS NOT NULL
    LIMIT $2 @end_rows

-- name: remove finished_items
DELETE FROM pawl.finished_items
WHERE item_id @among_rows
    SELECT w.id FROM pawl.all_items w WHERE w.task_id = $1 AND (SELECT 1 FROM pawl.finished_items p WHERE p.item_id = w.id) IS NOT NULL
    LIMIT $2 @end_rows

-- name: newest event
SELECT COALESCE(MAX(id), 0)
FROM pawl.task_events

-- Those who wait for these effects open them again, and learn what became of them. The items are queued later, as those are
-- that one transaction does not queue.
-- name: tell of effects
INSERT INTO pawl.signals (namespace, name, key, payload, created_at, sent_at, waking)
SELECT f.namespace, CAST($3 AS text), f.id, 'null', CAST($4 AS bigint), CAST($4 AS bigint), CAST($5 AS text)
FROM (SELECT f.* FROM pawl.effects f WHERE f.task_id = $1 AND f.gone = 0 ORDER BY f.id LIMIT $2) f
WHERE f.state IN ('waiting', 'open', 'unknown')
ORDER BY f.id
ON CONFLICT (namespace, name, key) DO UPDATE
SET payload = excluded.payload, waking = excluded.waking,
  sent_at = CASE WHEN pawl.signals.sent_at >= excluded.sent_at THEN pawl.signals.sent_at + 1 ELSE excluded.sent_at END

-- The key of an effect stays, so that nothing acts again with it. The key of one that was
-- never sent, and waits for that, is free.
-- name: keep keys of effects
UPDATE pawl.effects
SET gone = 1, key = CASE WHEN state = 'waiting' AND sendings = 0 THEN id ELSE key END, answer = NULL, error = NULL, late_report = NULL, comment = NULL, senders = '[]', sent_until = NULL,
  state = CASE WHEN state = 'open' THEN 'unknown' ELSE state END
WHERE id IN (SELECT f.id FROM pawl.effects f WHERE f.task_id = $1 AND f.gone = 0 ORDER BY f.id LIMIT $2)

-- name: remove awaited children
DELETE FROM pawl.awaited_children
WHERE (child_id, item_id) IN (
  SELECT a.child_id, a.item_id
  FROM pawl.all_items w
  JOIN pawl.awaited_children a ON a.item_id = w.id
  WHERE w.task_id = $1
  LIMIT $2)

-- name: remove child waits
DELETE FROM pawl.child_waits
WHERE item_id IN (SELECT w.id FROM pawl.all_items w JOIN pawl.child_waits p ON p.item_id = w.id WHERE w.task_id = $1 LIMIT $2)

-- The link of a child stays as long as one of the two tasks is there: a child that retention has
-- removed keeps its key, and a parent that comes back from its archive has its children again. A
-- deletion, which has a tombstone, removes the link.
-- name: remove links of children
DELETE FROM pawl.child_links
WHERE child_id IN (
  SELECT l.child_id
  FROM pawl.child_links l
  WHERE l.parent_id = $1
    AND (NOT EXISTS (SELECT 1 FROM pawl.tasks c WHERE c.id = l.child_id AND NOT c.id = $1)
      OR EXISTS (SELECT 1 FROM pawl.tombstones b WHERE b.task_id = l.parent_id AND b.restored_at IS NULL))
  LIMIT $2)

-- name: remove link to parent
DELETE FROM pawl.child_links
WHERE child_id IN (
  SELECT l.child_id
  FROM pawl.child_links l
  WHERE l.child_id = $1
    AND (NOT EXISTS (SELECT 1 FROM pawl.tasks p WHERE p.id = l.parent_id AND NOT p.id = $1)
      OR EXISTS (SELECT 1 FROM pawl.tombstones b WHERE b.task_id = l.child_id AND b.restored_at IS NULL))
  LIMIT $2)

-- name: remove parent
DELETE FROM pawl.parents
WHERE task_id IN (SELECT task_id FROM pawl.parents WHERE task_id = $1 LIMIT $2)

-- name: remove deadlines
DELETE FROM pawl.deadlines
WHERE item_id IN (SELECT w.id FROM pawl.all_items w JOIN pawl.deadlines p ON p.item_id = w.id WHERE w.task_id = $1 LIMIT $2)

-- A task has one key at most. It outlives the task until the end of its window.
-- name: remove expired key
DELETE FROM pawl.uniques
WHERE task_id = $1 AND until <= $2

-- name: remove key
DELETE FROM pawl.uniques
WHERE task_id = $1

-- name: remove item_deps
DELETE FROM pawl.item_deps
WHERE (needs_id, item_id) IN (
  SELECT d.needs_id, d.item_id
  FROM pawl.all_items w
  JOIN pawl.item_deps d ON d.needs_id = w.id
  WHERE w.task_id = $1
  LIMIT $2)

-- name: remove item_parts
DELETE FROM pawl.item_parts
WHERE id IN (SELECT p.id FROM pawl.all_items w JOIN pawl.item_parts p ON p.item_id = w.id WHERE w.task_id = $1 LIMIT $2)

-- name: remove items
DELETE FROM pawl.items
WHERE id IN (SELECT id FROM pawl.items WHERE task_id = $1 LIMIT $2)

-- name: remove checkpoints
DELETE FROM pawl.checkpoints
WHERE id IN (SELECT id FROM pawl.checkpoints WHERE task_id = $1 LIMIT $2)

-- name: remove task_results
DELETE FROM pawl.task_results
WHERE task_id IN (SELECT task_id FROM pawl.task_results WHERE task_id = $1 LIMIT $2)

-- name: numbers to remove
SELECT task_id, id
FROM pawl.task_events
WHERE task_id = $1 AND move NOT IN @events(task 'deleted')

-- name: events to remove
SELECT id
FROM pawl.task_events
WHERE task_id = $1 AND move NOT IN @events(task 'deleted')
ORDER BY id
LIMIT $2

-- name: remove provenances of events
DELETE FROM pawl.provenances
WHERE event_id IN (
  SELECT id
  FROM pawl.task_events
  WHERE task_id = $1 AND move NOT IN @events(task 'deleted')
  ORDER BY id
  LIMIT $2)

-- name: remove task_events
DELETE FROM pawl.task_events
WHERE id IN (
  SELECT id
  FROM pawl.task_events
  WHERE task_id = $1 AND move NOT IN @events(task 'deleted')
  ORDER BY id
  LIMIT $2)

-- name: marks of deletion
SELECT id
FROM pawl.task_events
WHERE task_id = $1 AND move IN @events(task 'deleted') AND id NOT IN (SELECT event_id FROM pawl.tombstones WHERE task_id = $1)
ORDER BY id
LIMIT $2

-- name: remove marks of deletion
DELETE FROM pawl.task_events
WHERE id IN (
  SELECT id
  FROM pawl.task_events
  WHERE task_id = $1 AND move IN @events(task 'deleted') AND id NOT IN (SELECT event_id FROM pawl.tombstones WHERE task_id = $1)
  ORDER BY id
  LIMIT $2)

-- name: remove task_counters
DELETE FROM pawl.task_counters
WHERE task_id IN (SELECT task_id FROM pawl.task_counters WHERE task_id = $1 LIMIT $2)

-- name: remove tasks
DELETE FROM pawl.tasks
WHERE id IN (SELECT id FROM pawl.tasks WHERE id = $1 LIMIT $2)

-- name: namespace of task
SELECT namespace
FROM pawl.tasks
WHERE id = $1

-- name: lock task_counters
SELECT task_id
FROM pawl.task_counters
WHERE task_id = $1
ORDER BY task_id
@lock

-- name: lock task
SELECT id
FROM pawl.tasks
WHERE id = $1
ORDER BY id
@lock

-- name: lock parked_items
SELECT item_id
FROM pawl.parked_items
WHERE item_id IN (SELECT id FROM pawl.all_items WHERE task_id = $1)
ORDER BY item_id
@lock

-- name: newest events
SELECT task_id, MAX(id)
FROM pawl.task_events
WHERE task_id @among_ids($1)
GROUP BY task_id

-- A task of a segment has no row before: the row has no checksum, path or body.
-- Archives do not say that a task is being planned: it has no items then. One that is cancelled or dead-lettered is that too.
-- name: plan again
UPDATE pawl.task_counters
SET planning = 1
WHERE task_id = $1 AND items = 0

-- name: mark restored
INSERT INTO pawl.archives (task_id, namespace, bytes, sha256, created_at, restored_at)
VALUES ($1, $2, 0, '', 0, $3)
ON CONFLICT (task_id) DO UPDATE
SET restored_at = excluded.restored_at

-- A link to a task that was deleted meanwhile is none.
-- name: remove links to none
DELETE FROM pawl.child_links
WHERE (child_id = $1 OR parent_id = $1)
  AND NOT EXISTS (
    SELECT 1
    FROM pawl.tasks t
    WHERE t.id = CASE WHEN pawl.child_links.child_id = $1 THEN pawl.child_links.parent_id ELSE pawl.child_links.child_id END)
  AND NOT EXISTS (
    SELECT 1
    FROM pawl.archives a
    WHERE a.task_id = CASE WHEN pawl.child_links.child_id = $1 THEN pawl.child_links.parent_id ELSE pawl.child_links.child_id END
      AND NOT EXISTS (SELECT 1 FROM pawl.tombstones b WHERE b.task_id = a.task_id AND b.restored_at IS NULL))

-- The archives of older programs have no links. Children have the id of their parent.
-- name: link again
INSERT INTO pawl.child_links (child_id, namespace, parent_id, depth)
SELECT t.id, t.namespace, t.parent_id, COALESCE((SELECT l.depth FROM pawl.child_links l WHERE l.child_id = t.parent_id), 0) + 1
FROM pawl.tasks t
JOIN pawl.tasks p ON p.id = t.parent_id AND p.namespace = t.namespace
WHERE (t.id = $1 OR t.parent_id = $1) AND NOT EXISTS (SELECT 1 FROM pawl.child_links l WHERE l.child_id = t.id)

-- name: count links again
INSERT INTO pawl.parents (task_id, namespace, depth, children)
SELECT l.parent_id, l.namespace, MIN(l.depth), COUNT(*)
FROM pawl.child_links l
WHERE l.parent_id = $1 AND NOT EXISTS (SELECT 1 FROM pawl.parents p WHERE p.task_id = l.parent_id)
GROUP BY l.parent_id, l.namespace

-- name: hash in use
SELECT COUNT(*)
FROM pawl.tasks
WHERE namespace = $1 AND type = $2 AND input_hash = $3 AND dedupes = 1

-- An item that has not ended and is not scheduled at $2, which is pawl.Never.
-- name: holds work
SELECT i.id
FROM pawl.all_items i
WHERE i.task_id = $1
  AND NOT EXISTS (SELECT 1 FROM pawl.finished_items e WHERE e.item_id = i.id)
  AND NOT EXISTS (SELECT 1 FROM pawl.scheduled s WHERE s.item_id = i.id AND s.run_at = $2)
LIMIT 1
