-- Tasks of one queued item that differ in their ids, inputs and data alone, as in most calls. What they have in common is
-- sent and computed once.
WITH i AS MATERIALIZED (
  SELECT id, input, COALESCE(data, ($3::text[])[1]) AS data, digest
  FROM unnest($1::uuid[], $2::text[], $3::text[], $4::bytea[]) AS i(id, input, data, digest)),
n AS MATERIALIZED (SELECT pawl.now() AS now, @queue($5, $6) AS queue_id, @actor($7, $8) AS actor),
task AS (
  INSERT INTO pawl.tasks (id, input, @columns(alike_task), queue_id, created_at)
  SELECT id, input, @typed(alike_task, $12 + given), queue_id, now
  FROM i, n),
ready AS (
  INSERT INTO pawl.ready (queue_id, rank, item_id, task_id, since, @columns(given))
  SELECT queue_id, @new_rank($10::int), id, id, CASE WHEN $11::int = 1 THEN now END, @typed(given, $12)
  FROM i, n),
event AS (
  INSERT INTO pawl.task_events (namespace, task_id, item_id, move, actor, key_id, data, created_at, queue_id, digest)
  SELECT $5::text, id, id, @move(proposed, -, 'queued', only), actor, $9::text, data, now, queue_id, digest
  FROM i, n)
SELECT now
FROM n
