-- name: keys of leases
SELECT l.item_id, l.attempt, l.key_id
FROM pawl.leases l
WHERE l.item_id IN @ids($1) AND l.key_id IS NOT NULL
