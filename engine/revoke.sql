-- name: lease
SELECT l.attempt, @name_of(l.worker), l.lease_expires_at /* item */
FROM pawl.leases l
WHERE l.item_id = $1 AND l.namespace = $2
@lock

-- name: leases of key
SELECT l.item_id
FROM pawl.leases l
WHERE l.key_id = $1 AND l.lease_expires_at > $2
ORDER BY l.item_id
LIMIT $3
@skip

-- name: keys of leases
SELECT l.item_id, l.attempt, l.key_id
FROM pawl.leases l
WHERE l.item_id IN @ids($1) AND l.key_id IS NOT NULL
