-- name: all leases
SELECT l.item_id
FROM pawl.leases l
ORDER BY l.item_id
LIMIT $1
@lock

-- name: end gates
UPDATE pawl.effects
SET sent_until = $1
WHERE state = 'open' AND sent_until > $1

-- name: new secret
UPDATE pawl.secrets
SET value = $1
WHERE name = 'task tokens'

-- The secret that signs task tokens.
-- name: secret
SELECT s.value
FROM pawl.secrets s
WHERE s.name = $1
