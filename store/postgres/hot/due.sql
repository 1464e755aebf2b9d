WITH n AS MATERIALIZED (SELECT pawl.now() AS now),
s AS MATERIALIZED (
  SELECT q.item_id
  FROM pawl.scheduled q
  WHERE q.run_at <= (SELECT now FROM n) AND ($2::uuid[] IS NULL OR q.item_id = ANY($2::uuid[]))
  ORDER BY q.run_at
  LIMIT $1::int
  FOR UPDATE SKIP LOCKED),
timed AS MATERIALIZED (
  SELECT q.item_id
  FROM pawl.waiting q
  WHERE q.until <= (SELECT now FROM n) AND q.needs = 0 AND ($2::uuid[] IS NULL OR q.item_id = ANY($2::uuid[]))
    AND NOT EXISTS ( -- its signal was sent, and is still waking its items
      SELECT 1
      FROM pawl.signals w
      WHERE w.waking IS NOT NULL AND w.namespace = @namespace_of(q.queue_id) AND w.name = q.signal AND w.key = COALESCE(q.signal_key, ''))
  ORDER BY q.until
  LIMIT $1::int - (SELECT count(*) FROM s)
  FOR UPDATE SKIP LOCKED),
freed AS MATERIALIZED (
  SELECT q.item_id
  FROM pawl.waiting q
  WHERE q.needs = 0 AND q.until IS NULL AND q.signal IS NULL AND ($2::uuid[] IS NULL OR q.item_id = ANY($2::uuid[]))
  ORDER BY q.item_id
  LIMIT $1::int - (SELECT count(*) FROM s) - (SELECT count(*) FROM timed)
  FOR UPDATE SKIP LOCKED),
due AS (
  DELETE FROM pawl.scheduled
  WHERE item_id = ANY(ARRAY(SELECT item_id FROM s))
  RETURNING queue_id, priority, item_id, task_id, @columns(carried), left_by, worker, started_at, error, claimed_at),
roused AS (
  DELETE FROM pawl.waiting
  WHERE item_id = ANY(ARRAY(SELECT item_id FROM timed UNION ALL SELECT item_id FROM freed))
  RETURNING queue_id, priority, item_id, task_id, @columns(carried), left_by, worker, started_at, error, claimed_at),
r AS MATERIALIZED (
  SELECT @move(due, 'scheduled', 'queued', solo) AS move, n.now, @namespace_of(due.queue_id) AS namespace, @back_rank(due.priority, due.attempt, due.claimed_at, n.now) AS rank, due.*
  FROM due, n
  UNION ALL
  SELECT @move(ready, 'waiting', 'queued', solo), n.now, @namespace_of(roused.queue_id), @back_rank(roused.priority, roused.attempt, roused.claimed_at, n.now), roused.*
  FROM roused, n),
ready AS (
  INSERT INTO pawl.ready (queue_id, rank, item_id, task_id, @columns(carried), left_by, worker, started_at, since, error)
  SELECT queue_id, rank, item_id, task_id, @columns(carried), left_by, worker, started_at, now, error
  FROM r),
record AS (
  INSERT INTO pawl.task_events (namespace, task_id, item_id, attempt, move, actor, created_at, queue_id)
  SELECT namespace, task_id, item_id, NULLIF(attempt, 0), move, @system, now, queue_id
  FROM r)
SELECT namespace, item_id, @type_of(queue_id), rank
FROM r
