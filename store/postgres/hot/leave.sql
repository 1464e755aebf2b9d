WITH c AS MATERIALIZED (
  SELECT *, @workers($15)[who] AS worker
  FROM unnest($1::uuid[], $2::text[], $3::int[], $4::int[], $5::text[], $6::text[], $7::bool[], $8::bigint[], $9::float8[], $11::bigint[], $12::text[], $13::text[])
    WITH ORDINALITY AS c(item_id, namespace, who, attempt, verb, detail, retryable, delay, jitter, until, signal, signal_key, ord)),
k AS MATERIALIZED (
  SELECT l.*, c.ord, c.verb, c.detail, c.until, c.signal, c.signal_key,
    CASE WHEN c.verb = 'fail' THEN c.detail ELSE l.error END AS new_error,
    CASE WHEN c.verb = 'fail' THEN l.failures + 1 ELSE l.failures END AS new_failures,
    c.verb = 'fail' AND NOT (c.retryable AND l.failures + 1 < l.max_attempts) AS spent,
    CASE WHEN c.verb = 'fail' THEN COALESCE(c.delay, trunc(($14::bigint[])[LEAST(l.failures + 1, cardinality($14::bigint[]))] * c.jitter)::bigint) WHEN c.verb = 'release' THEN COALESCE(c.delay, 0) ELSE 0 END AS wait
  @held,
x AS MATERIALIZED (
  SELECT k.*
  FROM k, n
  WHERE k.lease_expires_at > n.now),
y AS MATERIALIZED (
  SELECT x.*, n.now, n.now + x.wait AS run_at,
    CASE verb WHEN 'fail' THEN 'failed' WHEN 'release' THEN 'released' ELSE 'suspended' END AS event,
    CASE WHEN spent THEN 'failed' WHEN verb = 'suspend' THEN 'waiting' WHEN wait > 0 THEN 'scheduled' ELSE 'queued' END AS to_state,
    @back_rank(priority, attempt, acquired_at, n.now) AS rank, CASE WHEN attempt > 1 THEN acquired_at END AS claimed_at
  FROM x, n),
@known_types,
gone AS (
  DELETE FROM pawl.leases
  WHERE item_id = ANY(ARRAY(SELECT item_id FROM x))),
ready AS (
  INSERT INTO pawl.ready (queue_id, rank, item_id, task_id, @columns(carried), left_by, worker, started_at, since, error)
  SELECT queue_id, rank, item_id, task_id, @columns(carried, failures: new_failures), event, worker, started_at, now, new_error
  FROM y
  WHERE to_state = 'queued'
  RETURNING 1),
scheduled AS (
  INSERT INTO pawl.scheduled (item_id, queue_id, task_id, priority, run_at, @columns(carried), left_by, worker, started_at, since, error, claimed_at)
  SELECT item_id, queue_id, task_id, priority, run_at, @columns(carried, failures: new_failures), event, worker, started_at, now, new_error, claimed_at
  FROM y
  WHERE to_state = 'scheduled'
  RETURNING 1),
waiting AS (
  INSERT INTO pawl.waiting (item_id, queue_id, task_id, priority, until, signal, signal_key, @columns(carried), left_by, worker, started_at, since, error, claimed_at)
  SELECT item_id, queue_id, task_id, priority, until, signal, signal_key, @columns(carried, failures: new_failures), event, worker, started_at, now, new_error, claimed_at
  FROM y
  WHERE to_state = 'waiting'
  RETURNING 1),
rested AS (
  INSERT INTO pawl.parked_items (item_id, queue_id, task_id, priority, state, @columns(carried), left_by, worker, started_at, since, completed_at, progress, stage, error, failure, claimed_at)
  SELECT item_id, queue_id, task_id, priority, @state(failed), @columns(carried, failures: new_failures), event, worker, started_at, now, now, progress, stage, new_error, ($16::bigint[])[ord], claimed_at
  FROM y
  WHERE spent
  RETURNING 1),
event AS (
  INSERT INTO pawl.task_events (namespace, task_id, item_id, attempt, move, actor, key_id, data, created_at, queue_id, since, request)
  SELECT namespace, task_id, item_id, attempt,
    CASE verb
      WHEN 'fail' THEN @move(failed, state, to_state, solo)
      WHEN 'release' THEN @move(released, state, to_state, solo)
      WHEN 'suspend' THEN @move(suspended, state, 'waiting', solo)
    END, worker, key_id,
    CASE
      WHEN verb = 'release' THEN CASE WHEN to_state = 'scheduled' THEN json_build_object('run_at', to_char(pawl.stamp(run_at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))::text END
      WHEN to_state = 'scheduled' THEN json_build_object('error', new_error::json, 'failures', new_failures, 'max_attempts', max_attempts,
        'run_at', to_char(pawl.stamp(run_at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))::text
      WHEN verb = 'fail' THEN json_build_object('error', new_error::json, 'failures', new_failures, 'max_attempts', max_attempts)::text
      WHEN detail IS NOT NULL THEN json_build_object('until', to_char(pawl.stamp(until) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), 'signal', signal, 'key', signal_key, 'children', detail::json)::text
      WHEN verb = 'suspend' THEN json_build_object('until', to_char(pawl.stamp(until) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), 'signal', signal, 'key', signal_key)::text
    END, now, queue_id, acquired_at, ($17::bigint[])[ord]
  FROM y
  RETURNING 1),
broke AS MATERIALIZED (
  SELECT d.item_id, count(*)::int AS broken
  FROM y,
    LATERAL (SELECT d.item_id FROM pawl.item_deps d WHERE d.needs_id = y.item_id OFFSET 0) d
  WHERE y.spent AND y.feeds % 2 = 1
  GROUP BY d.item_id
  ORDER BY d.item_id),
broken AS (
  INSERT INTO pawl.waiting (item_id, queue_id, task_id, priority, broken, max_attempts, solo)
  SELECT broke.item_id, w.queue_id, w.task_id, w.priority, broke.broken, w.max_attempts, w.solo
  FROM broke,
    LATERAL (SELECT w.* FROM pawl.waiting w WHERE w.item_id = broke.item_id FOR UPDATE) w
  ON CONFLICT (item_id) DO UPDATE
  SET broken = waiting.broken + excluded.broken
  RETURNING 1),
b AS MATERIALIZED (
  SELECT task_id, namespace, solo, count(*) AS checkpoints, (count(*) FILTER (WHERE spent))::int AS spent, max(acceptance) AS acceptance
  FROM y
  WHERE verb = 'fail'
  GROUP BY task_id, namespace, solo
  ORDER BY task_id),
@counted
  WHERE (SELECT count(*) FROM event) + (SELECT count(*) FROM broken)
    + (SELECT count(*) FROM ready) + (SELECT count(*) FROM scheduled) + (SELECT count(*) FROM waiting) + (SELECT count(*) FROM rested) >= 0
  @settling
  RETURNING task_id),
z AS MATERIALIZED (
  SELECT *
  FROM (
    SELECT ord, namespace, task_id, item_id, attempt, new_failures, max_attempts, now,
      max(checkpoints) OVER task - count(ord) OVER task + row_number() OVER (PARTITION BY task_id ORDER BY ord) AS seq
    FROM (
      SELECT ord, namespace, task_id, item_id, attempt, new_failures, max_attempts, now, NULL::bigint AS checkpoints
      FROM y
      WHERE verb = 'fail'
      UNION ALL
      SELECT NULL, NULL, task_id, NULL, NULL, NULL, NULL, NULL, checkpoints
      FROM u) both_kinds
    WINDOW task AS (PARTITION BY task_id)) numbered
  WHERE ord IS NOT NULL),
boundary AS (
  INSERT INTO pawl.checkpoints (id, namespace, task_id, item_id, attempt, seq, type, snapshot, created_at)
  SELECT ($10::text[])[ord], namespace, task_id, item_id, attempt, seq, 'error_boundary',
    json_build_object('error', ($6::text[])[ord]::json, 'failures', new_failures, 'max_attempts', max_attempts, 'expired_lease', NULL)::text, now
  FROM z)
SELECT ord, task_id, to_state, new_failures, rank, @known_type,
  CASE to_state WHEN 'scheduled' THEN run_at WHEN 'waiting' THEN COALESCE(until, 0) ELSE 0 END, now,
  CASE WHEN NOT spent THEN 0 WHEN task_id = ANY(ARRAY(SELECT task_id FROM u WHERE open = 0 AND state = 'open')) THEN feeds | 1 ELSE feeds END,
  CASE WHEN spent THEN solo ELSE 0 END /* item */
FROM y
UNION ALL
SELECT 0, task_id, state, 0, 0, '', 0, 0, 0, 0 /* none */
FROM u
WHERE task_id = ANY(ARRAY(SELECT task_id FROM settled))
