-- An item of a key is there as long as the transaction that begins the key: see DeleteTask.
-- name: keep tasks
SELECT t.id
FROM pawl.tasks t
WHERE t.id IN (CAST($1 AS @uuid), (SELECT w.task_id FROM pawl.all_items w WHERE w.id = $2)) AND t.namespace = $3
ORDER BY t.id
@kept

-- name: open
INSERT INTO pawl.idempotency_keys (namespace, scope, key_hash, request_hash, status, token, task_id, item_id, created_at, expires_at, locked_until, code)
SELECT CAST($1 AS TEXT), CAST($2 AS TEXT), CAST($3 AS TEXT), CAST($4 AS TEXT), 'pending', CAST($5 AS TEXT), CAST($6 AS @uuid), CAST($7 AS @uuid),
  CAST($8 AS BIGINT), CAST($9 AS BIGINT), CAST($10 AS BIGINT), CAST($11 AS INTEGER)
WHERE @alone
ON CONFLICT (namespace, scope, key_hash) DO NOTHING

-- For a key that counts as absent.
-- name: reopen
UPDATE pawl.idempotency_keys
SET request_hash = $4, status = 'pending', token = $5, response = NULL, code = $11, content_type = NULL, location = NULL, task_id = $6, item_id = $7, created_at = $8, completed_at = NULL,
  expires_at = $9, locked_until = $10, hits = 0, misses = 1, replays = 0
WHERE namespace = $1 AND scope = $2 AND key_hash = $3

-- For a key whose holder is gone or has failed.
-- name: take over
UPDATE pawl.idempotency_keys
SET status = 'pending', token = $4, completed_at = NULL, locked_until = $5, misses = misses + 1,
  expires_at = CASE WHEN expires_at < $5 THEN $5 ELSE expires_at END
WHERE namespace = $1 AND scope = $2 AND key_hash = $3

-- name: renew
UPDATE pawl.idempotency_keys
SET locked_until = $5, expires_at = CASE WHEN expires_at < $5 THEN $5 ELSE expires_at END
WHERE namespace = $1 AND scope = $2 AND key_hash = $3 AND token = $4 AND status = 'pending'

-- name: hit
UPDATE pawl.idempotency_keys
SET hits = hits + 1, replays = replays + $4
WHERE namespace = $1 AND scope = $2 AND key_hash = $3

-- name: settle
UPDATE pawl.idempotency_keys
SET status = $5, response = $6, completed_at = $7, locked_until = NULL
WHERE namespace = $1 AND scope = $2 AND key_hash = $3 AND token = $4 AND status = 'pending' AND code IS NULL

-- name: answer
UPDATE pawl.idempotency_keys
SET status = 'completed', response = $5, code = $6, content_type = $7, location = $8, completed_at = $9, locked_until = NULL
WHERE namespace = $1 AND scope = $2 AND key_hash = $3 AND token = $4 AND status = 'pending'

-- name: drop
DELETE FROM pawl.idempotency_keys
WHERE namespace = $1 AND scope = $2 AND key_hash = $3 AND token = $4 AND status = 'pending'

-- name: keys
SELECT k.scope, k.key_hash, k.request_hash, k.status, k.token, k.response, k.task_id, k.item_id, k.created_at, k.completed_at, k.expires_at, k.locked_until,
  k.code, k.content_type, k.location
FROM pawl.idempotency_keys k

-- name: remove expired
DELETE FROM pawl.idempotency_keys
WHERE (namespace, scope, key_hash) IN (
  SELECT namespace, scope, key_hash
  FROM pawl.idempotency_keys
  WHERE expires_at <= $1
  ORDER BY expires_at
  LIMIT $2
  @skip)

-- name: remove old
DELETE FROM pawl.idempotency_keys
WHERE (namespace, scope, key_hash) IN (
  SELECT namespace, scope, key_hash
  FROM pawl.idempotency_keys
  WHERE expires_at IS NULL AND completed_at <= $1
  ORDER BY completed_at
  LIMIT $2
  @skip)

-- name: count old
SELECT COUNT(*)
FROM pawl.idempotency_keys
WHERE expires_at <= $1 OR (expires_at IS NULL AND completed_at <= $2)

-- name: wrong keys
SELECT k.scope || ' ' || k.key_hash, k.task_id, 'status ' || k.status
FROM pawl.idempotency_keys k
WHERE k.status = 'pending' AND (k.token IS NULL OR k.locked_until IS NULL) OR k.status <> 'pending' AND k.completed_at IS NULL
