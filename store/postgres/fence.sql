-- name: held
FROM c,
    LATERAL (
      SELECT l.*
      FROM pawl.leases l
      WHERE l.item_id = c.item_id AND l.namespace = c.namespace AND l.worker_id = c.worker_id AND l.attempt = c.attempt
      OFFSET 0
      FOR UPDATE) l),
n AS MATERIALIZED (SELECT pawl.now() AS now FROM (SELECT count(*) FROM k) locked)

-- name: begun
lease AS (
  UPDATE pawl.leases
  SET state = 'in_progress'
  WHERE item_id = ANY(ARRAY(SELECT item_id FROM x WHERE state = 'leased'))),
started AS (
  INSERT INTO pawl.task_events (namespace, task_id, item_id, attempt, event, from_state, to_state, actor_type, actor_id, key_id, created_at)
  SELECT namespace, task_id, item_id, attempt, 'in_progress', 'leased', 'in_progress', 'worker', worker_id, key_id, now
  FROM x, n
  WHERE state = 'leased'
  RETURNING 1)
