-- Effects whose sender is gone: a gate whose lease is over, or an attempt without a lease.
-- name: abandoned
SELECT f.id
FROM pawl.effects f
WHERE f.state = 'open' AND (f.sent_until <= $1
  OR f.sender = 'attempt' AND NOT EXISTS (SELECT 1 FROM pawl.leases l WHERE l.item_id = f.item_id AND l.attempt = f.attempt))
ORDER BY f.id
LIMIT $2

-- Effects whose task is gone, and which only keep their keys.
-- name: remove old
DELETE FROM pawl.effects
WHERE id IN (SELECT f.id FROM pawl.effects f WHERE f.gone = 1 AND f.created_at <= $1 ORDER BY f.created_at LIMIT $2)
