-- name: read key
SELECT k.scope, k.key_hash, k.request_hash, k.status, k.token, k.response, k.task_id, k.item_id, k.created_at, k.completed_at, k.expires_at, k.locked_until,
  k.code, k.content_type, k.location
FROM pawl.idempotency_keys k
WHERE k.namespace = $1 AND k.scope = $2 AND k.key_hash = $3

-- name: list keys
SELECT k.scope, k.key_hash, k.request_hash, k.status, k.token, k.response, k.task_id, k.item_id, k.created_at, k.completed_at, k.expires_at, k.locked_until,
  k.code, k.content_type, k.location
FROM pawl.idempotency_keys k
