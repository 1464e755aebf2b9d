-- Keys are inserted in their order, so that two statements do not each wait for a key of the other.
WITH c AS MATERIALIZED (
  SELECT *, @workers($14)[who] AS worker
  FROM unnest($1::uuid[], $2::text[], $3::int[], $4::int[])
    WITH ORDINALITY AS c(item_id, namespace, who, attempt, ord)),
k AS MATERIALIZED (
  SELECT l.item_id, l.task_id, l.namespace, l.worker, l.attempt, l.solo, l.lease_expires_at, c.who, c.ord
  @held,
i AS (
  INSERT INTO pawl.effects (id, namespace, key, name, task_id, item_id, request_hash, state, repeatable, sender, worker_id, attempt, key_id,
    sent_until, sendings, senders, opened_at, created_at)
  SELECT ($5::text[])[k.ord], k.namespace, ($6::text[])[k.ord], ($7::text[])[k.ord], k.task_id, k.item_id, ($8::text[])[k.ord], 'open',
    ($9::int[])[k.ord], CASE WHEN ($11::bigint[])[k.ord] > 0 THEN 'gate' ELSE 'attempt' END, ($14::text[])[k.who], k.attempt,
    ($10::text[])[k.ord], n.now + ($11::bigint[])[k.ord], 1, ($12::text[])[k.ord], n.now, n.now
  FROM k, n
  WHERE k.lease_expires_at > n.now
    AND NOT EXISTS (SELECT 1 FROM pawl.effects f WHERE f.item_id = k.item_id AND f.key = ($6::text[])[k.ord] AND f.copied = 1 OFFSET 0)
  ORDER BY k.namespace, ($6::text[])[k.ord] COLLATE "C"
  ON CONFLICT DO NOTHING
  RETURNING item_id, sender),
counted AS (
  UPDATE pawl.leases
  SET effects = leases.effects + 1
  WHERE leases.item_id = ANY(ARRAY(SELECT item_id FROM i WHERE sender = 'attempt'))),
x AS MATERIALIZED (
  SELECT *
  FROM k
  WHERE item_id = ANY(ARRAY(SELECT item_id FROM i))),
event AS (
  INSERT INTO pawl.task_events (namespace, task_id, item_id, attempt, move, actor, key_id, data, created_at)
  SELECT namespace, task_id, item_id, attempt, @move(effect_opened, -, -, solo), worker, ($10::text[])[ord], ($13::text[])[ord], now
  FROM x, n)
SELECT ord
FROM x
