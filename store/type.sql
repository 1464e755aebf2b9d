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

-- name: registry stamp
SELECT COUNT(*), COALESCE(MAX(t.created_at), 0), COUNT(t.removed_at), COALESCE(MAX(t.removed_at), 0)
FROM pawl.types t

-- name: end planning
UPDATE pawl.task_counters
SET planning = 0, todo = 0, items = $2, open = $2, updated_at = $3
WHERE task_id = $1 AND state = 'open' AND planning = 1

-- name: fit leases
UPDATE pawl.leases
SET lease_seconds = $2, lease_expires_at = acquired_at + CAST(CASE WHEN start_to_close < $2 THEN start_to_close ELSE $2 END AS bigint) * $3
WHERE item_id IN @ids($1)
RETURNING item_id, lease_expires_at

-- name: types of tasks
SELECT id, namespace, type, type_version
FROM pawl.tasks
WHERE id IN @ids($1)
