-- now is read before the locks: the statement waits for no lock, and an earlier time ends
-- no lease too early. A lease that was extended meanwhile is read again when it is locked.
WITH n AS MATERIALIZED (SELECT pawl.now() AS now),
x AS MATERIALIZED (
  SELECT l.*
  FROM pawl.leases l
  WHERE l.lease_expires_at <= (SELECT now FROM n) AND ($4::uuid[] IS NULL OR l.item_id = ANY($4::uuid[]))
  ORDER BY l.item_id
  LIMIT $1::int
  FOR UPDATE SKIP LOCKED),
w AS MATERIALIZED (
  SELECT x.*, n.now, p.spare, x.failures + CASE WHEN p.spare THEN 0 ELSE 1 END AS new_failures,
    NOT p.spare AND x.failures + 1 >= x.max_attempts AS spent,
    $2::bool AND NOT p.spare AS leaves_boundary, p.capped,
    CASE WHEN p.capped THEN 'The attempt took longer than start_to_close_seconds - ' ELSE CASE WHEN x.failures + 1 < x.max_attempts THEN 'Lease expired - ' ELSE '' END END
      || CASE WHEN x.failures + 1 < x.max_attempts THEN 'retry ' || x.failures + 1 || '/' || x.max_attempts WHEN p.capped THEN 'max retries exceeded' ELSE 'Max retries exceeded' END AS message
  FROM x, n,
    LATERAL (SELECT COALESCE(x.lease_expires_at >= x.acquired_at + x.start_to_close * 1000000::bigint, false) AS capped, x.prefetch = 1 AND x.state = @state(leased) AND x.spared < x.max_attempts AS spare OFFSET 0) p),
y AS MATERIALIZED (
  SELECT w.*,
    CASE WHEN spent THEN 'failed' ELSE 'queued' END AS to_state,
    CASE WHEN spare THEN error ELSE json_build_object('code', CASE WHEN capped THEN 'start_to_close' ELSE 'lease_expired' END, 'message', message)::text END AS new_error,
    CASE WHEN leaves_boundary THEN row_number() OVER (PARTITION BY leaves_boundary ORDER BY item_id) END AS ord,
    @back_rank(priority, attempt, acquired_at, now) AS rank
  FROM w
  ORDER BY item_id),
gone AS (
  DELETE FROM pawl.leases
  WHERE item_id = ANY(ARRAY(SELECT item_id FROM x))),
ready AS (
  INSERT INTO pawl.ready (queue_id, rank, item_id, task_id, @columns(carried), left_by, worker, started_at, since, error)
  SELECT queue_id, rank, item_id, task_id, @columns(carried, failures: new_failures, spared: spared + CASE WHEN spare THEN 1 ELSE 0 END), 'expired', worker, started_at, now, new_error
  FROM y
  WHERE NOT spent
  RETURNING 1),
rested AS (
  INSERT INTO pawl.parked_items (item_id, queue_id, task_id, priority, state, @columns(carried), left_by, worker, started_at, since, completed_at, progress, stage, error, failure, claimed_at)
  SELECT item_id, queue_id, task_id, priority, @state(failed), @columns(carried, failures: new_failures), 'expired', worker, started_at, now, now, progress, stage, new_error, CASE WHEN capped THEN $6::bigint ELSE $5::bigint END, CASE WHEN attempt > 1 THEN acquired_at END
  FROM y
  WHERE spent
  RETURNING 1),
event AS (
  INSERT INTO pawl.task_events (namespace, task_id, item_id, attempt, move, actor, data, created_at, queue_id, since)
  SELECT namespace, task_id, item_id, attempt, @move(lease_expired, state, to_state, solo), @system,
    json_build_object('worker_id', @name_of(worker), 'lease_expires_at', to_char(pawl.stamp(lease_expires_at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
      'failures', new_failures, 'max_attempts', max_attempts, 'spared', spare)::text, now, queue_id, acquired_at
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
  SELECT task_id, namespace, solo, count(*) FILTER (WHERE leaves_boundary) AS checkpoints, (count(*) FILTER (WHERE spent))::int AS spent, max(acceptance) AS acceptance
  FROM y
  WHERE leaves_boundary OR spent AND solo = 0
  GROUP BY task_id, namespace, solo
  ORDER BY task_id),
@counted
  WHERE (SELECT count(*) FROM event) + (SELECT count(*) FROM broken) + (SELECT count(*) FROM ready) + (SELECT count(*) FROM rested) >= 0
  @settling),
z AS MATERIALIZED (
  SELECT *
  FROM (
    SELECT ord, namespace, task_id, item_id, attempt, message, new_failures, max_attempts, worker, acquired_at, lease_expires_at, heartbeat_at, now,
      max(checkpoints) OVER task - count(ord) OVER task + row_number() OVER (PARTITION BY task_id ORDER BY ord) AS seq
    FROM (
      SELECT ord, namespace, task_id, item_id, attempt, message, new_failures, max_attempts, worker, acquired_at, lease_expires_at, heartbeat_at, now, NULL::bigint AS checkpoints
      FROM y
      WHERE leaves_boundary
      UNION ALL
      SELECT NULL, NULL, task_id, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, checkpoints
      FROM u) both_kinds
    WINDOW task AS (PARTITION BY task_id)) numbered
  WHERE ord IS NOT NULL),
boundary AS (
  INSERT INTO pawl.checkpoints (id, namespace, task_id, item_id, attempt, seq, type, snapshot, created_at)
  SELECT ($3::text[])[ord], namespace, task_id, item_id, attempt, seq, 'error_boundary',
    json_build_object('error', message, 'failures', new_failures, 'max_attempts', max_attempts, 'expired_lease', json_build_object(
      'worker_id', @name_of(worker), 'attempt', attempt,
      'acquired_at', to_char(pawl.stamp(acquired_at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
      'expires_at', to_char(pawl.stamp(lease_expires_at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
      'heartbeat_at', to_char(pawl.stamp(heartbeat_at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')))::text, now
  FROM z)
SELECT namespace, item_id, task_id, @type_of(queue_id), to_state, rank, leaves_boundary, CASE WHEN spent THEN feeds ELSE 0 END
FROM y
