-- The feed has a position for each event, which a sequencer assigns after the commit. A
-- page holds the numbers of the events from its first position on, in feed order. Where
-- numbers are in the order of commit, only the transparency log uses the pages.

-- name: feed at
SELECT position, detail, updated_at
FROM pawl.relay_cursors
WHERE sink = 'feed'

-- name: hold feed
SELECT position, detail, updated_at
FROM pawl.relay_cursors
WHERE sink = 'feed'
@lock

-- name: move feed
UPDATE pawl.relay_cursors
SET position = $1, detail = $2, updated_at = $3
WHERE sink = 'feed'

-- name: numbers
SELECT id
FROM pawl.task_events
WHERE id > $1 AND id <= $2
ORDER BY id
LIMIT $3

-- name: newest number
SELECT COALESCE(MAX(id), 0)
FROM pawl.task_events

-- name: put page
INSERT INTO pawl.feed_pages (page, ids, count, low, high, created_at)
VALUES ($1, $2, $3, $4, $5, $6)

-- name: pages
SELECT page, ids, count
FROM pawl.feed_pages
WHERE page >= COALESCE((SELECT MAX(p.page) FROM pawl.feed_pages p WHERE p.page <= $1), 0)
ORDER BY page
LIMIT $2

-- name: remove pages
DELETE FROM pawl.feed_pages
WHERE page >= $1 AND page <= $2

-- name: old pages
SELECT page, ids, count
FROM pawl.feed_pages
WHERE page > $1 AND page < $2 AND created_at < $3
ORDER BY page
LIMIT $4

-- name: any number
SELECT 1
FROM pawl.task_events
WHERE id >= $1 AND id <= $2
LIMIT 1
