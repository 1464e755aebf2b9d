-- The transparency log: a Merkle tree (RFC 6962) over the events in feed order. A tile
-- holds 256 leaf hashes and their root. The leaves of the last, incomplete tile are in
-- runs. At a higher level a row holds the root of 256 rows of the level below.

-- name: put run
INSERT INTO pawl.log_runs (first, leaves)
VALUES ($1, $2)

-- name: runs
SELECT first, leaves
FROM pawl.log_runs
ORDER BY first

-- name: remove runs
DELETE FROM pawl.log_runs

-- name: put tile
INSERT INTO pawl.log_tiles (level, n, root, leaves)
VALUES ($1, $2, $3, $4)

-- name: leaves of tile
SELECT leaves
FROM pawl.log_tiles
WHERE level = 0 AND n = $1

-- name: roots
SELECT n, root
FROM pawl.log_tiles
WHERE level = $1 AND n >= $2 AND n < $3
ORDER BY n

-- name: page of event
SELECT page, ids, count
FROM pawl.feed_pages
WHERE high = (SELECT MIN(p.high) FROM pawl.feed_pages p WHERE p.high >= $1)
UNION ALL
SELECT page, ids, count
FROM pawl.log_pages
WHERE high = (SELECT MIN(p.high) FROM pawl.log_pages p WHERE p.high >= $1)

-- name: pages around event
SELECT page, ids, count
FROM pawl.feed_pages
WHERE high >= $1 AND low <= $1
UNION ALL
SELECT page, ids, count
FROM pawl.log_pages
WHERE high >= $1 AND low <= $1

-- name: put removal
INSERT INTO pawl.log_removals (ids, restored, created_at, counts)
VALUES ($1, $2, $3, $4)

-- name: removals to log
SELECT id, ids, restored, leaf, created_at, counts
FROM pawl.log_removals
WHERE leaf IS NULL AND id > $1
ORDER BY id
LIMIT $2

-- name: log removal
UPDATE pawl.log_removals
SET ids = $2, leaf = $3, counts = NULL
WHERE id = $1

-- name: forget removal
DELETE FROM pawl.log_removals
WHERE id = $1

-- name: removal
SELECT id, ids, restored, leaf, created_at, counts
FROM pawl.log_removals
WHERE id = $1

-- name: keep page
INSERT INTO pawl.log_pages (page, ids, count, created_at, low, high)
SELECT page, ids, count, created_at, low, high
FROM pawl.feed_pages
WHERE page = $1

-- name: numbers of task
SELECT id
FROM pawl.task_events
WHERE task_id = $1
ORDER BY id

-- name: some numbers of task
SELECT id
FROM pawl.task_events
WHERE task_id = $1 AND id > $2
ORDER BY id
LIMIT $3

-- name: pages of log
SELECT page, ids, count
FROM (
  SELECT page, ids, count
  FROM pawl.feed_pages
  UNION ALL
  SELECT page, ids, count
  FROM pawl.log_pages
) p
WHERE page >= COALESCE((
  SELECT MAX(m.page)
  FROM (
    SELECT MAX(f.page) AS page FROM pawl.feed_pages f WHERE f.page <= $1
    UNION ALL
    SELECT MAX(l.page) FROM pawl.log_pages l WHERE l.page <= $1
  ) m), 0)
ORDER BY page
LIMIT $2
