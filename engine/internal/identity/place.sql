-- name: forget place
DELETE FROM pawl.places
WHERE kind = $1 AND place = $2

-- name: forget places
DELETE FROM pawl.places

-- name: places
SELECT p.kind, p.place, COALESCE(p.how, ''), COALESCE(p.position, 0), COALESCE(p.leaves, 0), p.created_at
FROM pawl.places p
ORDER BY p.created_at, p.kind, p.place

-- name: put place
INSERT INTO pawl.places (kind, place, how, position, leaves, created_at)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (kind, place) DO UPDATE SET how = excluded.how, created_at = excluded.created_at

-- name: questions
SELECT p.place
FROM pawl.places p
WHERE p.kind = 'asked' AND p.created_at > $1
