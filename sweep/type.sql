-- name: definitions
SELECT namespace, name, version, definition
FROM pawl.types
