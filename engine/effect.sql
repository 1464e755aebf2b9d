-- name: open of attempt
SELECT f.id
FROM pawl.effects f
WHERE f.item_id = $1 AND f.attempt = $2 AND f.sender = 'attempt' AND f.state = 'open'
ORDER BY f.id
LIMIT 1

-- name: keep sending
UPDATE pawl.effects
SET sent_until = $3
WHERE id = $1 AND namespace = $2 AND sender = 'gate' AND state = 'open' AND item_id = $4 AND worker_id = $5 AND attempt = $6
  AND COALESCE(key_id, '') = $7

-- name: waits for effect
SELECT w.signal_key
FROM pawl.waiting w
WHERE w.item_id = $1 AND w.signal = $2

-- name: namespace of item
SELECT w.namespace
FROM pawl.all_items w
WHERE w.id = $1
