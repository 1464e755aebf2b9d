-- name: set group
UPDATE pawl.parked_items
SET failure = $2
WHERE item_id = $1

-- name: without group
SELECT p.item_id, p.error
FROM pawl.parked_items p
WHERE p.failure IS NULL AND p.error IS NOT NULL AND (p.state = @state(failed) OR p.state = @state(dead_lettered))
ORDER BY p.item_id
LIMIT $1
@skip
