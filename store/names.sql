-- The dictionary of names: see names.go.

-- name: actor
SELECT id
FROM pawl.actors
WHERE kind = $1 AND name = $2

-- name: add actor
INSERT INTO pawl.actors (kind, name)
VALUES ($1, $2)
ON CONFLICT (kind, name) DO NOTHING

-- name: names of actors
SELECT a.id, a.kind, a.name
FROM @each($1) AS x
JOIN pawl.actors a ON a.id = CAST(x.value ->> 0 AS INTEGER)

-- name: queue
SELECT id
FROM pawl.queues
WHERE namespace = $1 AND type = $2

-- name: name of queue
SELECT namespace, type
FROM pawl.queues
WHERE id = $1

-- name: add queue
INSERT INTO pawl.queues (namespace, type)
VALUES ($1, $2)
ON CONFLICT (namespace, type) DO NOTHING

-- The namespaces that had work, those after $2, $1 at most. Each is found by one look-up in the index.
-- name: namespaces
WITH RECURSIVE x (namespace, n) AS (
  SELECT (SELECT q.namespace FROM pawl.queues q WHERE q.namespace > $2 ORDER BY q.namespace LIMIT 1), 1
  UNION ALL
  SELECT (SELECT q.namespace FROM pawl.queues q WHERE q.namespace > x.namespace ORDER BY q.namespace LIMIT 1), x.n + 1
  FROM x
  WHERE x.namespace IS NOT NULL AND x.n < $1)
SELECT x.namespace
FROM x
WHERE x.namespace IS NOT NULL
