-- name: blobs of item
SELECT COALESCE(c.name, ''), b.address, b.depth, b.chain, b.size
FROM pawl.checkpoints c
JOIN pawl.blobs b ON b.namespace = c.namespace AND b.address = c.blob
WHERE c.item_id = $1 AND c.namespace = $2 AND c.blob IS NOT NULL
ORDER BY c.seq DESC
LIMIT $3

-- name: blobs of task
SELECT COALESCE(c.name, ''), b.address, b.depth, b.chain, b.size
FROM pawl.checkpoints c
JOIN pawl.blobs b ON b.namespace = c.namespace AND b.address = c.blob
WHERE c.task_id = $1 AND c.namespace = $2 AND c.item_id IS NULL AND c.blob IS NOT NULL
ORDER BY c.seq DESC
LIMIT $3
