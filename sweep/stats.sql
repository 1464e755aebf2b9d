-- name: forget workers
DELETE FROM pawl.workers
WHERE (namespace, worker_id) IN (
  SELECT k.namespace, k.worker_id
  FROM (
    SELECT namespace, worker_id, last_seen_at, row_number() OVER (PARTITION BY namespace ORDER BY last_seen_at DESC, worker_id DESC) AS nth
    FROM pawl.workers
  ) k
  WHERE k.last_seen_at < $1 OR k.nth > $2
  LIMIT $3)
