-- Blobs are named by the SHA-256 of what is stored: of the base's address, if it has a
-- base, and the body.

-- A blob and those under it, from the top. The rows come in the order in which they are
-- found; the reader checks it.
-- name: chain
WITH RECURSIVE chain (address, base, size, body) AS (
  SELECT b.address, b.base, b.size, b.body
  FROM pawl.blobs b
  WHERE b.namespace = $1 AND b.address = $2
  UNION ALL
  SELECT b.address, b.base, b.size, b.body
  FROM chain c
  JOIN pawl.blobs b ON b.namespace = $1 AND b.address = c.base)
SELECT address, base, size, body
FROM chain

-- name: last use
SELECT b.used_at
FROM pawl.blobs b
WHERE b.namespace = $1 AND b.address = $2

-- A row that another transaction marks is left to that one: see keep.
-- name: use
UPDATE pawl.blobs
SET used_at = $3
WHERE (namespace, address) IN (SELECT b.namespace, b.address FROM pawl.blobs b WHERE b.namespace = $1 AND b.address = $2 @exclusive @unlocked)

-- name: keep
SELECT 1
FROM pawl.blobs b
WHERE b.namespace = $1 AND b.address = $2
@kept

-- name: add
INSERT INTO pawl.blobs (namespace, address, base, depth, chain, size, body, used_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (namespace, address) DO NOTHING

-- Nothing is inserted, and no lock awaited, while another transaction that has not ended inserts the blob, or one of the
-- same beginning, or while the blob is there.
-- name: add at once
INSERT INTO pawl.blobs (namespace, address, base, depth, chain, size, body, used_at)
SELECT $1, $2, $3, $4, $5, $6, $7, $8
WHERE CASE WHEN EXISTS (SELECT 1 FROM pawl.blobs b WHERE b.namespace = $1 AND b.address = $2) THEN FALSE ELSE @apart END
ON CONFLICT (namespace, address) DO NOTHING

-- name: page
SELECT b.namespace, b.address, b.base, b.size, b.body
FROM pawl.blobs b
WHERE (b.namespace, b.address) > ($1, $2)
ORDER BY b.namespace, b.address
LIMIT $3

-- name: page to remove
SELECT b.namespace, b.address,
  CASE
    WHEN b.used_at > $4 OR EXISTS (SELECT 1 FROM pawl.checkpoints c WHERE c.blob = b.address AND c.namespace = b.namespace)
      OR EXISTS (SELECT 1 FROM pawl.blobs d WHERE d.namespace = b.namespace AND d.base = b.address)
      OR EXISTS (
        SELECT 1
        FROM pawl.relocations r
        WHERE r.open = 0 AND r.namespace IN ('', b.namespace)
          AND (r.side = 'target' AND r.step <> 'done' OR r.side = 'source' AND r.step IN ('flipped', 'done'))) THEN 0
    ELSE 1
  END
FROM pawl.blobs b
WHERE (b.namespace, b.address) > ($1, $2)
ORDER BY b.namespace, b.address
LIMIT $3

-- A blob that a transaction which has not ended refers to is passed over: see keep. What had referred to it before is
-- seen by the statement that removes it, which comes after this one.
-- name: lock idle
SELECT 1
FROM pawl.blobs b
WHERE b.namespace = $1 AND b.address = $2
@skip

-- name: remove
DELETE FROM pawl.blobs AS b
WHERE b.namespace = $1 AND b.address = $2 AND b.used_at <= $3
  AND NOT EXISTS (SELECT 1 FROM pawl.checkpoints c WHERE c.blob = b.address AND c.namespace = b.namespace)
  AND NOT EXISTS (SELECT 1 FROM pawl.blobs d WHERE d.namespace = b.namespace AND d.base = b.address)
RETURNING base
