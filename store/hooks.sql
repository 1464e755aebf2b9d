-- name: note hook
INSERT INTO pawl.type_hooks (type, hook)
VALUES ($1, $2)
ON CONFLICT (type, hook) DO NOTHING

-- name: forget hooks
DELETE FROM pawl.type_hooks
WHERE type = $1
