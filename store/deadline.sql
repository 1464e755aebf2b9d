-- Deadlines of items, and the limit of the time that an item may be queued.

-- name: forget passed deadlines
DELETE FROM pawl.deadlines
WHERE item_id IN @ids($1) AND at <= $2
