-- name: create api key
INSERT INTO pawl.api_keys (id, namespace, name, roles, payloads, rate, actor_type, actor_id, secret_hash, created_at, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)

-- name: api keys
SELECT k.id, k.namespace, k.name, k.roles, k.payloads, k.rate, k.actor_type, k.actor_id, k.secret_hash, k.refusals, k.created_at, k.expires_at, k.revoked_at, k.last_used_at
FROM pawl.api_keys k
ORDER BY k.id DESC

-- name: api key
SELECT k.id, k.namespace, k.name, k.roles, k.payloads, k.rate, k.actor_type, k.actor_id, k.secret_hash, k.refusals, k.created_at, k.expires_at, k.revoked_at, k.last_used_at
FROM pawl.api_keys k
WHERE k.id = $1

-- name: ended of
SELECT k.id
FROM pawl.api_keys k
WHERE k.id IN @list($1) AND (k.revoked_at IS NOT NULL OR k.expires_at <= $2)

-- name: revoke api key
UPDATE pawl.api_keys
SET revoked_at = COALESCE(revoked_at, $2)
WHERE id = $1

-- name: use api key
UPDATE pawl.api_keys
SET last_used_at = $2, refusals = refusals + $3
WHERE id = $1
