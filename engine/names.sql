-- The types of a namespace, the given one first.
-- name: types of queues
SELECT type
FROM pawl.queues
WHERE namespace = $1
ORDER BY CASE WHEN type = $2 THEN 0 ELSE 1 END, type
LIMIT $3

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
