-- name: leases of ended keys
SELECT l.item_id
FROM pawl.leases l
WHERE l.key_id IN (SELECT k.id FROM pawl.api_keys k WHERE k.revoked_at IS NOT NULL OR k.expires_at <= $1) AND l.lease_expires_at > $1
LIMIT $2

-- name: leases of ended keys among
SELECT l.item_id
FROM pawl.leases l
WHERE l.item_id IN @ids($2) AND l.lease_expires_at > $1
  AND l.key_id IN (SELECT k.id FROM pawl.api_keys k WHERE k.revoked_at IS NOT NULL OR k.expires_at <= $1)
ORDER BY l.item_id
@skip
