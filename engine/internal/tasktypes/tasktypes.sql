-- name: newest version
SELECT t.version, t.definition, t.created_at, t.removed_at
FROM pawl.types t
WHERE t.namespace = $1 AND t.name = $2
ORDER BY t.version DESC
LIMIT 1

-- name: one version
SELECT t.version, t.definition, t.created_at, t.removed_at
FROM pawl.types t
WHERE t.namespace = $1 AND t.name = $2 AND t.version = $3

-- name: put type
INSERT INTO pawl.types (namespace, name, version, definition, created_at)
VALUES ($1, $2, $3, $4, $5)

-- name: remove type
UPDATE pawl.types
SET removed_at = $3
WHERE namespace = $1 AND name = $2 AND removed_at IS NULL

-- The last column: there are several versions, of which one may name a lease.
-- name: registry
SELECT t.namespace, t.name, MAX(t.version), MAX(CASE WHEN t.removed_at IS NULL THEN 1 ELSE 0 END),
  CASE WHEN COUNT(*) > 1 THEN MAX(CASE WHEN t.definition LIKE '%"lease_seconds":%' THEN 1 ELSE 0 END) ELSE 0 END
FROM pawl.types t
GROUP BY t.namespace, t.name

-- name: about to fail
SELECT l.item_id, l.failures, t.type, t.type_version
FROM pawl.leases l
JOIN pawl.tasks t ON t.id = l.task_id
WHERE l.item_id IN @ids($1) AND l.namespace = $2 AND t.type_version > 0

-- name: failing tasks
SELECT k.task_id, t.namespace, t.type, t.type_version
FROM pawl.task_counters k
JOIN pawl.tasks t ON t.id = k.task_id
WHERE k.state = 'open' AND k.failed > 0 AND t.type_version > 0 AND k.task_id > $1
  AND ($2 OR k.task_id = $3)
ORDER BY k.task_id
LIMIT $4

-- The newest failure of the items that are failed, not with a dependency, or the newest retry by a caller: 1 = the failure
-- is newer. An item that failed before a retry is no reason to cancel what that retry has queued.
-- name: failed since retry
SELECT CASE WHEN e.move IN @events(item retry) THEN 0 ELSE 1 END
FROM pawl.task_events e
WHERE e.task_id = $1 AND e.item_id IS NOT NULL
  AND (e.move IN @events(item retry) AND @kind_of(e.actor) <> 'system'
    OR e.move IN @events(item fail, expire) AND EXISTS (
      SELECT 1 FROM pawl.parked_items r
      WHERE r.item_id = e.item_id AND r.state = @state(failed) AND COALESCE(r.left_by, '') <> 'dependency'))
ORDER BY e.id DESC
LIMIT 1

-- name: still to run
SELECT i.id
FROM pawl.item_rows i
WHERE i.task_id = $1 AND i.state IN @list($2)
ORDER BY i.id
LIMIT $3

-- name: types
SELECT t.name, t.version, t.definition, t.created_at, t.removed_at
FROM pawl.types t

-- name: fit leases
UPDATE pawl.leases
SET lease_seconds = $2, lease_expires_at = acquired_at + CAST(CASE WHEN start_to_close < $2 THEN start_to_close ELSE $2 END AS bigint) * $3
WHERE item_id IN @ids($1)
RETURNING item_id, lease_expires_at

-- name: note hook
INSERT INTO pawl.type_hooks (type, hook)
VALUES ($1, $2)
ON CONFLICT (type, hook) DO NOTHING

-- name: forget hook
DELETE FROM pawl.type_hooks
WHERE type = $1 AND hook = $2

-- name: noted hooks
SELECT h.type || ' ' || h.hook
FROM pawl.type_hooks h
ORDER BY h.type, h.hook

-- Tasks whose checks no process has tried for a while.
-- name: unchecked
SELECT k.namespace, t.type, COUNT(*), MIN(k.updated_at)
FROM pawl.task_counters k
JOIN pawl.tasks t ON t.id = k.task_id
WHERE k.todo = 1 AND k.state = 'submitted' AND k.ready_for_approval = 0 AND k.updated_at < $1
  AND EXISTS (SELECT 1 FROM pawl.type_hooks h WHERE h.type = t.type)
GROUP BY k.namespace, t.type
ORDER BY k.namespace, t.type
LIMIT $2

-- name: newest attempts
SELECT e.item_id, e.attempt, w.namespace, w.type, m.event, e.created_at
FROM (
  SELECT id, item_id, attempt, move, created_at
  FROM pawl.task_events
  WHERE item_id IS NOT NULL AND attempt IS NOT NULL
  ORDER BY id DESC
  LIMIT $1
) e
JOIN pawl.moves m ON m.code = e.move AND m.event IN ('leased', 'completed', 'submitted', 'lease_expired')
JOIN pawl.all_items w ON w.id = e.item_id
ORDER BY e.id DESC
