WITH c AS MATERIALIZED (
  SELECT item_id, COALESCE(namespace, ($2::text[])[1]) AS namespace, @workers($6)[COALESCE(who, ($3::int[])[1])] AS worker, COALESCE(attempt, ($4::int[])[1]) AS attempt, result, digest, ord
  FROM unnest($1::uuid[], $2::text[], $3::int[], $4::int[], $5::text[], $8::bytea[])
    WITH ORDINALITY AS c(item_id, namespace, who, attempt, result, digest, ord)),
k AS MATERIALIZED (
  SELECT c.item_id, c.namespace, l.task_id, l.queue_id, l.state, @columns(l.kept), l.solo, l.feeds, c.worker, l.started_at, l.acquired_at, l.lease_expires_at,
    l.stage, l.key_id, c.ord, c.result, c.digest
  FROM c,
    LATERAL (
      SELECT l.task_id, l.queue_id, l.state, @columns(l.kept), l.solo, l.feeds, l.started_at, l.acquired_at, l.lease_expires_at, l.stage, l.key_id
      FROM pawl.leases l
      WHERE l.item_id = c.item_id AND l.namespace = c.namespace AND l.worker = c.worker AND l.attempt = c.attempt AND l.acceptance = 0 AND l.effects = 0
      OFFSET 0
      FOR UPDATE) l),
n AS MATERIALIZED (SELECT pawl.now() AS now FROM (SELECT count(*) FROM k) locked),
x AS MATERIALIZED (
  SELECT k.*
  FROM k
  WHERE k.lease_expires_at > (SELECT now FROM n)),
@known_types,
gone AS (
  DELETE FROM pawl.leases
  WHERE item_id = ANY(ARRAY(SELECT item_id FROM x))),
ended AS (
  INSERT INTO pawl.finished_items (item_id, queue_id, task_id, state, @columns(kept), worker, started_at, ended_at, stage, result)
  SELECT item_id, queue_id, task_id, @state(completed), @columns(kept), worker, started_at, (SELECT now FROM n), stage, result
  FROM x
  RETURNING 1),
event AS (
  INSERT INTO pawl.task_events (namespace, task_id, item_id, attempt, move, actor, key_id, created_at, queue_id, since, request, digest)
  SELECT namespace, task_id, item_id, attempt, @move(completed, state, 'completed', solo), worker, key_id, (SELECT now FROM n), queue_id, acquired_at, ($7::bigint[])[ord], digest
  FROM x
  RETURNING 1),
fed AS MATERIALIZED (
  SELECT d.item_id, count(*)::int AS needs
  FROM x,
    LATERAL (SELECT d.item_id FROM pawl.item_deps d WHERE d.needs_id = x.item_id OFFSET 0) d
  WHERE x.feeds % 2 = 1
  GROUP BY d.item_id
  ORDER BY d.item_id),
needs AS (
  INSERT INTO pawl.waiting (item_id, queue_id, task_id, priority, needs, max_attempts, solo)
  SELECT fed.item_id, w.queue_id, w.task_id, w.priority, fed.needs, w.max_attempts, w.solo
  FROM fed,
    LATERAL (SELECT w.* FROM pawl.waiting w WHERE w.item_id = fed.item_id FOR UPDATE) w
  ON CONFLICT (item_id) DO UPDATE
  SET needs = waiting.needs - excluded.needs
  RETURNING 1),
b AS MATERIALIZED (
  SELECT task_id, namespace, count(*)::int AS items, max(feeds % 2)::int AS feeds
  FROM x
  WHERE solo = 0
  GROUP BY task_id, namespace
  ORDER BY task_id),
u AS (
  INSERT INTO pawl.task_counters (task_id, namespace, items, open, failed, updated_at)
  SELECT b.task_id, b.namespace, 0, b.items, b.feeds, (SELECT now FROM n)
  FROM b
  WHERE (SELECT count(*) FROM ended) + (SELECT count(*) FROM event) + (SELECT count(*) FROM needs) >= 0
  ORDER BY b.task_id
  ON CONFLICT (task_id) DO UPDATE
  SET open = task_counters.open - excluded.open,
    state = CASE
      WHEN (task_counters.open, task_counters.state, task_counters.failed * task_counters.ignores_failures * (excluded.failed + task_counters.todo)) <> (excluded.open, 'open', 0) THEN task_counters.state
      WHEN task_counters.failed > 0 AND task_counters.ignores_failures = 0 THEN @settled(failed)
      WHEN task_counters.dead > 0 AND task_counters.ignores_failures = 0 THEN @settled(dead)
      ELSE @settled(completed) END,
    todo = CASE
      WHEN task_counters.state = 'open' AND task_counters.failed * task_counters.ignores_failures * (excluded.failed + task_counters.todo) > 0 THEN 1
      WHEN (task_counters.open, task_counters.state, task_counters.failed * task_counters.ignores_failures * (excluded.failed + task_counters.todo)) = (excluded.open, 'open', 0) AND task_counters.failed = 0 AND task_counters.dead > 0 AND task_counters.ignores_failures = 0 THEN 1
      ELSE task_counters.todo END,
    version = task_counters.version + CASE WHEN (task_counters.open, task_counters.state, task_counters.failed * task_counters.ignores_failures * (excluded.failed + task_counters.todo)) = (excluded.open, 'open', 0) THEN 1 ELSE 0 END,
    completed_at = CASE WHEN (task_counters.open, task_counters.state, task_counters.failed * task_counters.ignores_failures * (excluded.failed + task_counters.todo)) = (excluded.open, 'open', 0) THEN excluded.updated_at ELSE task_counters.completed_at END,
    updated_at = CASE WHEN (task_counters.open, task_counters.state, task_counters.failed * task_counters.ignores_failures * (excluded.failed + task_counters.todo)) = (excluded.open, 'open', 0) THEN excluded.updated_at ELSE task_counters.updated_at END
  RETURNING task_id, namespace, open, state, updated_at),
settled AS (
  INSERT INTO pawl.task_events (namespace, task_id, move, actor, created_at)
  SELECT namespace, task_id, @move(to, 'open', state, task), @system, updated_at
  FROM u
  WHERE open = 0 AND state <> 'open' AND updated_at = (SELECT now FROM n)
  RETURNING task_id)
SELECT ord, task_id, 'completed', failures, 0, @known_type, 0::bigint, (SELECT now FROM n),
  CASE WHEN task_id = ANY(ARRAY(SELECT task_id FROM u WHERE open = 0 AND state = 'open')) THEN feeds | 1 ELSE feeds END, solo /* item */
FROM x
UNION ALL
SELECT 0, task_id, state, 0, 0, '', 0, 0, 0, 0 /* none */
FROM u
WHERE task_id = ANY(ARRAY(SELECT task_id FROM settled))
