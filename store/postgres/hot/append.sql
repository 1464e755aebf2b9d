-- A message is locked after the lease of its item, and has one call in a statement. The
-- first write of an attempt records which chunks of the step an earlier attempt left
-- unfinished (cuts).
WITH c AS MATERIALIZED (
  SELECT *, @workers($10)[who] AS worker
  FROM unnest($1::uuid[], $2::text[], $3::int[], $4::int[], $5::text[], $6::bigint[], $7::int[])
    WITH ORDINALITY AS c(item_id, namespace, who, attempt, message_id, place, count, ord)),
k AS MATERIALIZED (
  SELECT l.item_id, l.namespace, l.task_id, l.queue_id, l.state, l.solo, l.attempt, l.worker, l.key_id, l.lease_expires_at, c.ord, c.message_id, c.place, c.count
  @held,
m AS MATERIALIZED (
  SELECT k.*, m.state AS message_state, m.chunks, m.role, m.created_at, m.cuts, COALESCE(m.step_offset, 0) AS step_offset, m.attempt AS writer, m.bytes,
    octet_length(($8::text[])[k.ord]) AS grows
  FROM k, n,
    LATERAL (
      SELECT m.*
      FROM pawl.messages m
      WHERE m.id = k.message_id AND m.item_id = k.item_id
      OFFSET 0
      FOR UPDATE) m
  WHERE k.lease_expires_at > n.now),
x AS MATERIALIZED (
  SELECT m.*, writer IS DISTINCT FROM attempt AS taken_over
  FROM m
  WHERE message_state = 'streaming' AND chunks = place AND bytes + grows <= $9::bigint),
@begun,
message AS (
  INSERT INTO pawl.messages (id, namespace, role, created_at, chunks, bytes, attempt, step_offset, cuts)
  SELECT message_id, namespace, role, created_at, place + count, bytes + grows, attempt,
    CASE WHEN taken_over THEN place ELSE step_offset END,
    CASE WHEN taken_over AND step_offset < place THEN concat_ws(' ', cuts, step_offset || '-' || place || '-' || writer) ELSE cuts END
  FROM x
  ON CONFLICT (id) DO UPDATE
  SET chunks = excluded.chunks, bytes = excluded.bytes, attempt = excluded.attempt, step_offset = excluded.step_offset, cuts = excluded.cuts),
saved AS (
  INSERT INTO pawl.message_chunks (message_id, seq, count, attempt, body, created_at)
  SELECT message_id, place, count, attempt, ($8::text[])[ord], now
  FROM x, n)
SELECT m.ord, m.message_state, m.chunks, COALESCE(m.writer, 0) <> m.attempt, m.bytes + m.grows > $9::bigint
FROM m
