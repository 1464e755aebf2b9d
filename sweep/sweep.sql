-- name: cursor
SELECT position, detail
FROM pawl.relay_cursors
WHERE sink = $1

-- name: due items
SELECT x.item_id
FROM (
  SELECT item_id FROM pawl.scheduled WHERE run_at <= $1
  UNION ALL
  SELECT item_id FROM pawl.waiting WHERE until <= $1 AND needs = 0
  UNION ALL
  SELECT item_id FROM pawl.waiting WHERE needs = 0 AND until IS NULL AND signal IS NULL
) x
ORDER BY x.item_id
LIMIT $2

-- Tasks that failed when they were planned or applied, with the item that did it, if an item does.
-- name: failed aside before
SELECT k.task_id, k.namespace
FROM pawl.task_counters k
WHERE k.state = 'failed' AND k.failed_in IS NOT NULL AND k.completed_at <= $1 AND k.task_id > $2
ORDER BY k.task_id
LIMIT $3

-- name: failed before
SELECT since, item_id, task_id, @namespace_of(queue_id)
FROM pawl.parked_items
WHERE state = @state(failed) AND solo < 2 AND since <= $1 AND (since, item_id) > ($2, $3)
  AND NOT EXISTS (SELECT 1 FROM pawl.tasks t WHERE t.id = task_id AND t.namespace = '*') -- it is being restored
ORDER BY since, item_id
LIMIT $4

-- name: fold sweeps
INSERT INTO pawl.sweeps AS s (id, scans, expired_found, recovered, failed, checkpoints_created, errors, scan_duration_ms, started_at)
VALUES (0, $1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (id) DO UPDATE
SET scans = s.scans + excluded.scans,
  expired_found = s.expired_found + excluded.expired_found,
  recovered = s.recovered + excluded.recovered,
  failed = s.failed + excluded.failed,
  checkpoints_created = s.checkpoints_created + excluded.checkpoints_created,
  errors = s.errors + excluded.errors,
  scan_duration_ms = s.scan_duration_ms + excluded.scan_duration_ms,
  started_at = CASE WHEN s.started_at > excluded.started_at THEN s.started_at ELSE excluded.started_at END

-- Whether an open task no longer changes by itself: this is its newest event, no worker
-- holds an item of it, and no item waits for a time.
-- name: forgotten
SELECT t.namespace
FROM pawl.tasks t
JOIN pawl.task_rows r ON r.id = t.id
WHERE t.id = $1
  AND r.state IN ('queued', 'in_progress')
  AND NOT EXISTS (SELECT 1 FROM pawl.task_events n WHERE n.task_id = $1 AND n.id > $2)
  AND NOT EXISTS (SELECT 1 FROM pawl.all_items w JOIN pawl.leases l ON l.item_id = w.id WHERE w.task_id = $1)
  AND NOT EXISTS (SELECT 1 FROM pawl.all_items w JOIN pawl.scheduled s ON s.item_id = w.id WHERE w.task_id = $1)
  AND NOT EXISTS (SELECT 1 FROM pawl.all_items w JOIN pawl.waiting g ON g.item_id = w.id WHERE w.task_id = $1 AND g.until IS NOT NULL)

-- name: hold cursor
SELECT position, detail
FROM pawl.relay_cursors
WHERE sink = $1
@lock

-- name: lists of
SELECT sink
FROM pawl.relay_cursors
WHERE sink >= $1 AND sink < $2
ORDER BY updated_at, sink
LIMIT $3

-- name: move cursor
UPDATE pawl.relay_cursors
SET position = $2, detail = $3, updated_at = $4
WHERE sink = $1 AND position <= $2

-- The same for a reader that does not ask which events are the newest of their tasks.
-- name: moves after
SELECT e.id, e.created_at, e.task_id, e.namespace, e.move, 0
FROM pawl.task_events e
WHERE e.id > $1
  AND (SELECT f.created_at FROM pawl.task_events f WHERE f.id > $1 ORDER BY f.id LIMIT 1) NOT BETWEEN $3 AND $4
ORDER BY e.id
LIMIT $2

-- name: record after
SELECT e.id, e.created_at, e.task_id, e.namespace, e.move,
  CASE WHEN EXISTS (SELECT 1 FROM pawl.task_events n WHERE n.task_id = e.task_id AND n.id > e.id) THEN 0 ELSE 1 END
FROM pawl.task_events e
WHERE e.id > $1
  AND (SELECT f.created_at FROM pawl.task_events f WHERE f.id > $1 ORDER BY f.id LIMIT 1) NOT BETWEEN $3 AND $4
ORDER BY e.id
LIMIT $2

-- name: record among
SELECT e.id, e.created_at, e.task_id, e.namespace, e.move,
  CASE WHEN EXISTS (SELECT 1 FROM pawl.task_events n WHERE n.task_id = e.task_id AND n.id > e.id) THEN 0 ELSE 1 END
FROM @each($1) AS j
JOIN pawl.task_events e ON e.id >= CAST(j.value ->> 0 AS BIGINT) AND e.id <= CAST(j.value ->> 1 AS BIGINT)
ORDER BY e.id

-- name: record sweep
INSERT INTO pawl.sweeps (server, expired_found, recovered, failed, checkpoints_created, errors, scan_duration_ms, detail, started_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)

-- name: take old sweeps
DELETE FROM pawl.sweeps
WHERE id IN (
  SELECT id
  FROM pawl.sweeps
  WHERE id > 0 AND started_at < $1
  ORDER BY id
  LIMIT $2
  @skip)
RETURNING scans, expired_found, recovered, failed, checkpoints_created, errors, scan_duration_ms, started_at

-- name: take tick
UPDATE pawl.relay_cursors
SET position = position + 1, updated_at = $2
WHERE sink = $1 AND (updated_at <= $3 OR updated_at > $2)

-- The time of the first event after a number that is not ahead of the clock.
-- name: time after
SELECT e.created_at
FROM pawl.task_events e
WHERE e.id > $1 AND e.created_at <= $2
ORDER BY e.id
LIMIT 1

-- name: expired leases
SELECT item_id
FROM pawl.leases
WHERE lease_expires_at <= $1
ORDER BY item_id
LIMIT $2

-- name: sweep totals
SELECT CAST(COALESCE(SUM(scans), 0) AS BIGINT), CAST(COALESCE(SUM(recovered), 0) AS BIGINT), CAST(COALESCE(SUM(failed), 0) AS BIGINT)
FROM pawl.sweeps

-- name: sweeps before
SELECT id, server, expired_found, recovered, failed, checkpoints_created, errors, scan_duration_ms, detail, started_at
FROM pawl.sweeps
WHERE id > 0 AND id < $1
ORDER BY id DESC
LIMIT $2
