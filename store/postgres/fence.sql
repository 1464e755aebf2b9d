-- Parts of the statements of the hot verbs; each is inserted where its mark is.
-- @held locks the leases whose fences match. @begun records the first sign of life
-- of the leases in x. @counted and @settling write the counters of the tasks in b
-- and settle the tasks without an open item; between them is the condition that has
-- them run last. @known_types reads the
-- types of the queues of x once, and @known_type is that of a row.

-- name: held
FROM c,
    LATERAL (
      SELECT l.*
      FROM pawl.leases l
      WHERE l.item_id = c.item_id AND l.namespace = c.namespace AND l.worker = c.worker AND l.attempt = c.attempt
      OFFSET 0
      FOR UPDATE) l),
n AS MATERIALIZED (SELECT pawl.now() AS now FROM (SELECT count(*) FROM k) locked)

-- name: known_types
q AS MATERIALIZED (SELECT array_agg(q.id) AS ids, array_agg(q.type) AS types FROM pawl.queues q WHERE q.id = ANY(ARRAY(SELECT DISTINCT queue_id FROM x)))

-- name: known_type
(SELECT types FROM q)[array_position((SELECT ids FROM q), queue_id)]

-- name: begun
lease AS (
  UPDATE pawl.leases
  SET state = @state(in_progress)
  WHERE item_id = ANY(ARRAY(SELECT item_id FROM x WHERE state = @state(leased)))),
started AS (
  INSERT INTO pawl.task_events (namespace, task_id, item_id, attempt, move, actor, key_id, created_at, queue_id)
  SELECT namespace, task_id, item_id, attempt, @move(in_progress, 'leased', 'in_progress', solo), worker, key_id, now, queue_id
  FROM x, n
  WHERE state = @state(leased)
  RETURNING 1)

-- name: counted
u AS (
  INSERT INTO pawl.task_counters (task_id, namespace, state, items, open, failed, checkpoints, updated_at)
  SELECT b.task_id, b.namespace, CASE WHEN b.solo <> 0 THEN 'open' WHEN b.acceptance = 1 THEN @settled(submitted) ELSE @settled(completed) END, b.solo, CASE WHEN b.solo = 0 THEN b.spent ELSE 1 END, CASE WHEN b.solo = 0 THEN b.spent ELSE 0 END, b.checkpoints, n.now
  FROM b, n

-- name: settling
ORDER BY b.task_id
  ON CONFLICT (task_id) DO UPDATE
  SET checkpoints = task_counters.checkpoints + excluded.checkpoints,
    open = task_counters.open - CASE WHEN excluded.items = 0 THEN excluded.open ELSE 0 END,
    failed = task_counters.failed + excluded.failed,
    state = CASE
      WHEN (excluded.items, task_counters.open, task_counters.state, task_counters.failed * task_counters.ignores_failures * task_counters.todo) = (0, excluded.open, 'open', 0) THEN CASE WHEN task_counters.ignores_failures = 1 AND task_counters.failed + excluded.failed + task_counters.dead + task_counters.cancelled < task_counters.items THEN excluded.state ELSE @settled(failed) END
      ELSE task_counters.state END,
    todo = CASE WHEN (excluded.items, task_counters.open, task_counters.state, task_counters.failed * task_counters.ignores_failures * task_counters.todo) = (0, excluded.open, 'open', 0) AND task_counters.ignores_failures = 1 AND task_counters.failed + excluded.failed + task_counters.dead + task_counters.cancelled < task_counters.items AND excluded.state = @settled(submitted) THEN 1 ELSE task_counters.todo END,
    version = task_counters.version + CASE WHEN (excluded.items, task_counters.open, task_counters.state, task_counters.failed * task_counters.ignores_failures * task_counters.todo) = (0, excluded.open, 'open', 0) THEN 1 ELSE 0 END,
    completed_at = CASE WHEN (excluded.items, task_counters.open, task_counters.state, task_counters.failed * task_counters.ignores_failures * task_counters.todo) = (0, excluded.open, 'open', 0) AND NOT (task_counters.ignores_failures = 1 AND task_counters.failed + excluded.failed + task_counters.dead + task_counters.cancelled < task_counters.items AND excluded.state = @settled(submitted)) THEN excluded.updated_at ELSE task_counters.completed_at END,
    updated_at = CASE WHEN (excluded.items, task_counters.open, task_counters.state, task_counters.failed * task_counters.ignores_failures * task_counters.todo) = (0, excluded.open, 'open', 0) THEN excluded.updated_at ELSE task_counters.updated_at END
  RETURNING task_id, namespace, open, state, updated_at, checkpoints),
settled AS (
  INSERT INTO pawl.task_events (namespace, task_id, move, actor, created_at)
  SELECT namespace, task_id, @move(to, 'open', state, task), @system, updated_at
  FROM u
  WHERE open = 0 AND state <> 'open' AND updated_at = (SELECT now FROM n) AND task_id = ANY(ARRAY(SELECT task_id FROM b WHERE solo = 0))
