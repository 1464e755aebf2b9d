-- Touch when every call is a plain heartbeat, without a new lease length and without
-- progress. All rows change in the same way, from their own values, so one UPDATE is enough.
WITH c AS MATERIALIZED (
  SELECT *, @workers($5)[who] AS worker
  FROM unnest($1::uuid[], $2::text[], $3::int[], $4::int[])
    WITH ORDINALITY AS c(item_id, namespace, who, attempt, ord)),
k AS MATERIALIZED (
  SELECT l.item_id, l.namespace, l.task_id, l.queue_id, l.worker, l.attempt, l.state, l.solo, l.failures, l.lease_seconds, l.lease_expires_at, l.acquired_at, l.start_to_close, l.stopped, l.key_id, c.ord
  @held,
x AS MATERIALIZED (
  SELECT k.*, n.now
  FROM k, n
  WHERE k.lease_expires_at > n.now),
lease AS (
  UPDATE pawl.leases
  SET state = @state(in_progress), heartbeat_at = (SELECT now FROM n), lease_expires_at = LEAST((SELECT now FROM n) + lease_seconds * 1000000::bigint, acquired_at + start_to_close * 1000000::bigint)
  WHERE item_id = ANY(ARRAY(SELECT item_id FROM x))),
event AS (
  INSERT INTO pawl.task_events (namespace, task_id, item_id, attempt, move, actor, key_id, created_at, queue_id)
  SELECT namespace, task_id, item_id, attempt, @move(in_progress, 'leased', 'in_progress', solo), worker, key_id, now, queue_id
  FROM x
  WHERE state = @state(leased)
  ORDER BY ord)
SELECT ord, task_id, failures, lease_seconds, LEAST(now + lease_seconds * 1000000::bigint, acquired_at + start_to_close * 1000000::bigint), now, stopped
FROM x
