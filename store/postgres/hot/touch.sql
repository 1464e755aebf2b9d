WITH c AS MATERIALIZED (
  SELECT *, @workers($9)[who] AS worker
  FROM unnest($1::uuid[], $2::text[], $3::int[], $4::int[], $5::bool[], $6::int[], $7::smallint[], $8::text[])
    WITH ORDINALITY AS c(item_id, namespace, who, attempt, extend, seconds, progressed, staged, ord)),
k AS MATERIALIZED (
  SELECT l.*, c.ord, c.extend, c.progressed, c.staged, COALESCE(NULLIF(c.seconds, 0), l.lease_seconds) AS seconds
  @held,
x AS MATERIALIZED (
  SELECT k.*
  FROM k, n
  WHERE k.lease_expires_at > n.now),
y AS MATERIALIZED (
  SELECT x.*, n.now,
    CASE WHEN extend THEN seconds ELSE lease_seconds END AS new_seconds,
    CASE WHEN extend THEN n.now ELSE heartbeat_at END AS new_heartbeat,
    CASE WHEN extend THEN LEAST(n.now + seconds * 1000000::bigint, acquired_at + start_to_close * 1000000::bigint) ELSE lease_expires_at END AS new_end,
    COALESCE(progressed, progress) AS new_progress,
    CASE WHEN staged IS NULL THEN stage ELSE NULLIF(staged, '') END AS new_stage
  FROM x, n),
lease AS (
  INSERT INTO pawl.leases (item_id, namespace, queue_id, task_id, priority, state, @columns(carried),
    prefetch, worker, lease_seconds, started_at, acquired_at, heartbeat_at, lease_expires_at, progress, stage, progressed_at)
  SELECT item_id, namespace, queue_id, task_id, priority, @state(in_progress), @columns(carried),
    prefetch, worker, lease_seconds, started_at, acquired_at, new_heartbeat, new_end, new_progress, new_stage,
    CASE WHEN progressed IS NOT NULL OR staged IS NOT NULL THEN now ELSE progressed_at END
  FROM y
  ON CONFLICT (item_id) DO UPDATE
  SET state = excluded.state, heartbeat_at = excluded.heartbeat_at, lease_expires_at = excluded.lease_expires_at,
    progress = excluded.progress, stage = excluded.stage, progressed_at = excluded.progressed_at),
event AS (
  INSERT INTO pawl.task_events (namespace, task_id, item_id, attempt, move, actor, key_id, data, created_at, queue_id)
  SELECT namespace, task_id, item_id, attempt, move, worker, key_id, data, now, queue_id
  FROM (
    SELECT ord, namespace, task_id, item_id, attempt, @move(in_progress, 'leased', 'in_progress', solo) AS move, worker, key_id, NULL AS data, now, queue_id
    FROM y
    WHERE state = @state(leased)
    UNION ALL
    SELECT ord, namespace, task_id, item_id, attempt, @move(progressed, -, -, solo), worker, key_id, json_build_object('stage', staged, 'progress', new_progress)::text, now, queue_id
    FROM y
    WHERE new_stage IS DISTINCT FROM stage) e
  ORDER BY ord, data NULLS FIRST)
SELECT ord, task_id, failures, new_seconds, new_end, now, stopped /* item */
FROM y
