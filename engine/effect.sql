-- name: open of attempt
SELECT f.id
FROM pawl.effects f
WHERE f.item_id = $1 AND f.attempt = $2 AND f.sender = 'attempt' AND f.state = 'open'
ORDER BY f.id
LIMIT 1

-- name: keep sending
UPDATE pawl.effects
SET sent_until = $3
WHERE id = $1 AND namespace = $2 AND sender = 'gate' AND state = 'open' AND item_id = $4 AND worker_id = $5 AND attempt = $6
  AND COALESCE(key_id, '') = $7

-- name: waits for effect
SELECT w.signal_key
FROM pawl.waiting w
WHERE w.item_id = $1 AND w.signal = $2

-- name: namespace of item
SELECT w.namespace
FROM pawl.all_items w
WHERE w.id = $1

-- Each namespace and state is looked up in the index of these: the effects that are decided are many, and are kept.
-- name: count states
WITH RECURSIVE g (namespace) AS (
  SELECT (SELECT f.namespace FROM pawl.effects f ORDER BY f.namespace LIMIT 1)
  UNION ALL
  SELECT (SELECT f.namespace FROM pawl.effects f WHERE f.namespace > g.namespace ORDER BY f.namespace LIMIT 1)
  FROM g
  WHERE g.namespace IS NOT NULL),
c AS MATERIALIZED (
  SELECT g.namespace, s.state, (
    SELECT COUNT(*)
    FROM pawl.effects f
    WHERE f.namespace = g.namespace AND f.state = s.state AND (f.gone = 0 AND s.state = 'waiting' OR @undecided(f))) AS n
  FROM g
  CROSS JOIN (SELECT 'open' AS state UNION ALL SELECT 'unknown' UNION ALL SELECT 'waiting') s
  WHERE g.namespace IS NOT NULL)
SELECT c.namespace, c.state, c.n
FROM c
WHERE c.n > 0
ORDER BY c.namespace, c.state
LIMIT $1
