-- z numbers the checkpoints with a window over the items and their tasks' new counters,
-- without a join. Large values are read from the arrays by ordinal afterwards.
WITH c AS MATERIALIZED (
  SELECT *, @workers($11)[who] AS worker
  FROM unnest($1::uuid[], $2::text[], $3::int[], $4::int[])
    WITH ORDINALITY AS c(item_id, namespace, who, attempt, ord)),
k AS MATERIALIZED (
  SELECT l.item_id, l.namespace, l.task_id, l.queue_id, l.state, l.solo, l.attempt, l.worker, l.key_id, l.lease_expires_at, c.ord
  @held,
x AS MATERIALIZED (
  SELECT k.*
  FROM k, n
  WHERE k.lease_expires_at > n.now),
@begun,
u AS (
  INSERT INTO pawl.task_counters (task_id, namespace, checkpoints)
  SELECT task_id, namespace, count(*)
  FROM x
  WHERE (SELECT count(*) FROM started) >= 0
  GROUP BY task_id, namespace
  ORDER BY task_id
  ON CONFLICT (task_id) DO UPDATE
  SET checkpoints = task_counters.checkpoints + excluded.checkpoints
  RETURNING task_id, checkpoints),
z AS MATERIALIZED (
  SELECT *
  FROM (
    SELECT ord, namespace, task_id, item_id, attempt, solo, worker, key_id,
      max(checkpoints) OVER task - count(ord) OVER task + row_number() OVER (PARTITION BY task_id ORDER BY ord) AS seq
    FROM (
      SELECT ord, namespace, task_id, item_id, attempt, solo, worker, key_id, NULL::bigint AS checkpoints
      FROM x
      UNION ALL
      SELECT NULL, NULL, task_id, NULL, NULL, NULL, NULL, NULL, checkpoints
      FROM u) both_kinds
    WINDOW task AS (PARTITION BY task_id)) numbered
  WHERE ord IS NOT NULL
  ORDER BY ord),
saved AS (
  INSERT INTO pawl.checkpoints (id, namespace, task_id, item_id, attempt, seq, type, name, args_hash, snapshot, metadata, created_at)
  SELECT ($5::text[])[ord], namespace, task_id, item_id, attempt, seq, ($6::text[])[ord], ($7::text[])[ord], ($8::text[])[ord], ($9::text[])[ord], ($10::text[])[ord], now
  FROM z, n),
event AS (
  INSERT INTO pawl.task_events (namespace, task_id, item_id, attempt, move, actor, key_id, data, created_at)
  SELECT namespace, task_id, item_id, attempt, @move(checkpointed, -, -, solo), worker, key_id,
    json_build_object('checkpoint_id', ($5::text[])[ord], 'type', ($6::text[])[ord], 'name', ($7::text[])[ord], 'sequence', seq)::text, now
  FROM z, n
  WHERE ($6::text[])[ord] IN ('manual_checkpoint', 'approval_point'))
SELECT ord, seq
FROM z
