-- name: actors
INSERT INTO pawl.actors (kind, name)
SELECT n.kind, n.name
FROM unnest($1::text[], $2::text[]) AS n(kind, name)
WHERE NOT EXISTS (SELECT 1 FROM pawl.actors a WHERE a.kind = n.kind AND a.name = n.name)
ORDER BY n.kind, n.name
ON CONFLICT (kind, name) DO NOTHING

-- name: queues
INSERT INTO pawl.queues (namespace, type)
SELECT n.namespace, n.type
FROM unnest($1::text[], $2::text[]) AS n(namespace, type)
WHERE NOT EXISTS (SELECT 1 FROM pawl.queues q WHERE q.namespace = n.namespace AND q.type = n.type)
ORDER BY n.namespace, n.type
ON CONFLICT (namespace, type) DO NOTHING
