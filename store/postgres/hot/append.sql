-- A message is locked after the lease of its item, and has one call in a
-- statement. Whoever writes first after another attempt was cut off within a
-- step leaves the mark of it.
WITH c AS MATERIALIZED (
  SELECT *
  FROM unnest($1::text[], $2::text[], $3::text[], $4::int[], $5::text[], $6::bigint[], $7::int[])
    WITH ORDINALITY AS c(item_id, namespace, worker_id, attempt, message_id, place, count, ord)),
k AS MATERIALIZED (
  SELECT l.item_id, l.namespace, l.task_id, l.state, l.attempt, l.worker_id, l.lease_expires_at, c.ord, c.message_id, c.place, c.count
  FROM c,
    LATERAL (
      SELECT l.*
      FROM pawl.leases l
      WHERE l.item_id = c.item_id AND l.namespace = c.namespace AND l.worker_id = c.worker_id AND l.attempt = c.attempt
      OFFSET 0
      FOR UPDATE) l),
n AS MATERIALIZED (SELECT pawl.now() AS now FROM (SELECT count(*) FROM k) locked),
x AS MATERIALIZED (
  SELECT k.*, m.state AS message_state, m.chunks, m.role, m.created_at, m.cuts, COALESCE(m.step_offset, 0) AS step_offset, m.attempt AS writer
  FROM k, n,
    LATERAL (
      SELECT m.*
      FROM pawl.messages m
      WHERE m.id = k.message_id AND m.item_id = k.item_id
      OFFSET 0
      FOR UPDATE) m
  WHERE k.lease_expires_at > n.now),
y AS MATERIALIZED (
  SELECT x.*, writer IS DISTINCT FROM attempt AS taken_over
  FROM x
  WHERE message_state = 'streaming' AND chunks = place),
lease AS (
  UPDATE pawl.leases
  SET state = 'in_progress'
  WHERE item_id = ANY(ARRAY(SELECT item_id FROM y WHERE state = 'leased'))),
started AS (
  INSERT INTO pawl.task_events (namespace, task_id, item_id, attempt, event, from_state, to_state, actor_type, actor_id, created_at)
  SELECT namespace, task_id, item_id, attempt, 'in_progress', 'leased', 'in_progress', 'worker', worker_id, now
  FROM y, n
  WHERE state = 'leased'),
message AS (
  INSERT INTO pawl.messages (id, namespace, role, created_at, chunks, attempt, step_offset, cuts)
  SELECT message_id, namespace, role, created_at, place + count, attempt,
    CASE WHEN taken_over THEN place ELSE step_offset END,
    CASE WHEN taken_over AND step_offset < place THEN concat_ws(' ', cuts, step_offset || '-' || place || '-' || writer) ELSE cuts END
  FROM y
  ON CONFLICT (id) DO UPDATE
  SET chunks = excluded.chunks, attempt = excluded.attempt, step_offset = excluded.step_offset, cuts = excluded.cuts),
saved AS (
  INSERT INTO pawl.message_chunks (message_id, seq, count, attempt, body, created_at)
  SELECT message_id, place, count, attempt, ($8::text[])[ord], now
  FROM y, n)
SELECT x.ord, x.message_state, x.chunks, COALESCE(x.writer, 0) <> x.attempt
FROM x
