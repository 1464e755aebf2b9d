-- Newest archives of tasks that are not there.
-- name: archives to check
SELECT a.task_id, a.namespace
FROM pawl.archives a
WHERE NOT EXISTS (SELECT 1 FROM pawl.tasks t WHERE t.id = a.task_id)
ORDER BY a.task_id DESC
LIMIT $1

-- Tasks of a page that have ended or failed, whose newest event is at most $3, and that were not restored.
-- $4: the states.
-- name: at rest before
SELECT x.id, x.namespace, x.type, x.type_version, x.state, x.last
FROM (
  SELECT t.id, t.namespace, t.type, t.type_version, (SELECT r.state FROM pawl.task_rows r WHERE r.id = t.id) AS state,
    (SELECT MAX(e.id) FROM pawl.task_events e WHERE e.task_id = t.id) AS last
  FROM pawl.tasks t
  WHERE t.id > $1
  ORDER BY t.id
  LIMIT $2
) x
WHERE x.last <= $3 AND x.state @among($4) AND NOT EXISTS (SELECT 1 FROM pawl.archives a WHERE a.task_id = x.id AND a.restored_at IS NOT NULL)
ORDER BY x.id

-- The last task of that page.
-- name: end of page
SELECT COALESCE((SELECT t.id FROM pawl.tasks t WHERE t.id > $1 ORDER BY t.id LIMIT 1 OFFSET $2), $3)

-- What a task has: its newest event, and what may be written without one, which is checkpoints and
-- chunks. An archive that was read before has all of it if none of this has changed.
-- name: extents
SELECT t.id, t.namespace, COALESCE((SELECT MAX(e.id) FROM pawl.task_events e WHERE e.task_id = t.id), 0), COALESCE(k.checkpoints, 0), COALESCE(k.pruned, 0),
  CAST(COALESCE((SELECT SUM(m.chunks + COALESCE(m.attempt, 0)) FROM pawl.messages m WHERE m.task_id = t.id), 0) AS bigint)
FROM pawl.tasks t
LEFT JOIN pawl.task_counters k ON k.task_id = t.id
WHERE t.id @among_ids($1)

-- Those of the tasks that are in a state and have no event after a time, and whether their newest
-- checkpoint and chunks are no younger either; and those that have one, but with a number of at most $4.
-- name: resting since
SELECT r.id,
  CASE WHEN (SELECT e.created_at FROM pawl.task_events e WHERE e.task_id = r.id ORDER BY e.id DESC LIMIT 1) <= $3
    AND COALESCE((SELECT c.created_at FROM pawl.checkpoints c WHERE c.task_id = r.id ORDER BY c.seq DESC LIMIT 1), 0) <= $3
    AND NOT EXISTS (
      SELECT 1
      FROM pawl.messages m
      WHERE m.task_id = r.id AND (SELECT x.created_at FROM pawl.message_chunks x WHERE x.message_id = m.id ORDER BY x.seq DESC LIMIT 1) > $3)
    THEN 1 ELSE 0 END
FROM pawl.task_rows r
WHERE r.id @among_ids($1) AND r.state = $2
  AND ((SELECT e.created_at FROM pawl.task_events e WHERE e.task_id = r.id ORDER BY e.id DESC LIMIT 1) <= $3
    OR (SELECT MAX(e.id) FROM pawl.task_events e WHERE e.task_id = r.id) <= $4)

-- Those of the tasks with consequences that are still to come: a cancel or a delete that their children,
-- or they as children, have not got; a step of the engine; an open message that has to be
-- ended; a reservation that has to be settled; an effect of which it is not known whether it happened; an item that
-- waits, or has waited, for it as a child, and may still ask for its result: it has neither ended nor failed. $2: the final states.
-- name: unfinished
SELECT p.task_id
FROM pawl.parents p
WHERE p.task_id @among_ids($1) AND p.todo > 0
UNION
SELECT l.child_id
FROM pawl.child_links l
LEFT JOIN pawl.parents p ON p.task_id = l.parent_id
WHERE l.child_id @among_ids($1) AND (l.doomed = 1 OR p.todo > 0)
UNION
SELECT c.task_id
FROM pawl.child_cancels c
WHERE c.task_id @among_ids($1)
UNION
SELECT c.child_id
FROM pawl.child_cancels c
WHERE c.child_id @among_ids($1)
UNION
SELECT k.task_id
FROM pawl.task_counters k
WHERE k.task_id @among_ids($1) AND k.todo = 1
UNION
SELECT m.task_id
FROM pawl.messages m
WHERE m.task_id @among_ids($1) AND m.state = 'streaming'
  AND (m.item_id IS NOT NULL OR EXISTS (SELECT 1 FROM pawl.task_rows t WHERE t.id = m.task_id AND t.state @among($2)))
UNION
SELECT r.task_id
FROM pawl.budget_reservations r
WHERE r.task_id @among_ids($1) AND r.state = 0
UNION
SELECT f.task_id
FROM pawl.effects f
WHERE f.task_id @among_ids($1) AND @undecided(f)
UNION
SELECT a.child_id
FROM pawl.awaited_children a
WHERE a.child_id @among_ids($1) AND (a.state IS NULL OR a.state = 'completed')
  AND NOT EXISTS (SELECT 1 FROM pawl.finished_items f WHERE f.item_id = a.item_id)
  AND NOT EXISTS (SELECT 1 FROM pawl.parked_items k WHERE k.item_id = a.item_id AND k.state IN (@state(failed), @state(dead_lettered)))
