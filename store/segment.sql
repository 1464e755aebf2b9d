-- Segments: the archives of many tasks together.

-- name: part of segment
SELECT SUBSTR(body, CAST($2 AS integer), CAST($3 AS integer))
FROM pawl.segments
WHERE id = $1

-- name: body of segment
SELECT body
FROM pawl.segments
WHERE id = $1
