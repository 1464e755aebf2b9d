-- Ending leases before their time. The rows are locked first: whoever moves such
-- an item at the same moment is waited for, and what it left is not found here.

-- name: lease
SELECT l.attempt, l.worker_id, l.lease_expires_at /* item */
FROM pawl.leases l
WHERE l.item_id = $1 AND l.namespace = $2
@lock

-- name: leases of key
SELECT l.item_id
FROM pawl.leases l
WHERE l.key_id = $1 AND l.lease_expires_at > $2
ORDER BY l.item_id
LIMIT $3
@lock

-- name: leases of revoked keys
SELECT l.item_id
FROM pawl.leases l
WHERE l.key_id IN (SELECT k.id FROM pawl.api_keys k WHERE k.revoked_at IS NOT NULL) AND l.lease_expires_at > $1
ORDER BY l.item_id
LIMIT $2
@lock
