WITH c AS MATERIALIZED (
  SELECT *, @workers($12)[who] AS worker
  FROM unnest($1::uuid[], $2::text[], $3::int[], $4::int[])
    WITH ORDINALITY AS c(item_id, namespace, who, attempt, ord)),
f AS MATERIALIZED (
  SELECT f.*, k.worker, k.solo, k.ord
  FROM (
    SELECT l.item_id, l.namespace, l.worker, l.attempt, l.solo, c.who, c.ord
    FROM c,
      LATERAL (
        SELECT l.*
        FROM pawl.leases l
        WHERE l.item_id = c.item_id AND l.namespace = c.namespace AND l.worker = c.worker AND l.attempt = c.attempt
        OFFSET 0
        FOR UPDATE) l
    OFFSET 0) k,
    LATERAL (
      SELECT f.*
      FROM pawl.effects f
      WHERE f.id = ($5::text[])[k.ord]
      OFFSET 0
      FOR UPDATE) f
  WHERE f.namespace = k.namespace AND f.item_id = k.item_id AND f.worker_id = ($12::text[])[k.who] AND f.attempt = k.attempt
    AND f.key_id IS NOT DISTINCT FROM ($6::text[])[k.ord] AND f.state = 'open' AND f.gone = 0 AND f.reservation IS NULL
    AND ($11::int[])[k.ord] IN (0, f.sendings) AND (f.repeatable = 0 OR f.sendings = 1)),
n AS MATERIALIZED (SELECT pawl.now() AS now FROM (SELECT count(*) FROM f) locked),
u AS (
  INSERT INTO pawl.effects (id, namespace, key, name, task_id, item_id, request_hash, state, repeatable, sender, worker_id, attempt, sendings,
    senders, answer, answer_hash, error, ended_at, created_at)
  SELECT id, namespace, key, name, task_id, item_id, request_hash, ($7::text[])[ord], repeatable, sender, worker_id, attempt, sendings,
    senders, COALESCE(($8::text[])[ord], answer), COALESCE(($9::text[])[ord], answer_hash), ($10::text[])[ord], now, created_at
  FROM f, n
  ON CONFLICT (id) DO UPDATE
  SET state = excluded.state, answer = excluded.answer, answer_hash = excluded.answer_hash, error = excluded.error,
    ended_at = excluded.ended_at),
counted AS (
  UPDATE pawl.leases
  SET effects = leases.effects - 1
  WHERE leases.item_id = ANY(ARRAY(SELECT item_id FROM f WHERE sender = 'attempt'))),
event AS (
  INSERT INTO pawl.task_events (namespace, task_id, item_id, attempt, move, actor, key_id, data, created_at)
  SELECT namespace, task_id, item_id, attempt,
    CASE ($7::text[])[ord]
      WHEN 'done' THEN @move(effect_done, -, -, solo)
      WHEN 'failed' THEN @move(effect_failed, -, -, solo)
      ELSE @move(effect_unknown, -, -, solo) END,
    worker, ($6::text[])[ord],
    concat('{"effect_id":', to_json(id), ',"name":', to_json(name), ',"key":', to_json(key), ',"request_hash":', to_json(request_hash),
      ',"sendings":', sendings, CASE ($7::text[])[ord]
        WHEN 'done' THEN ',"answer_hash":"' || ($9::text[])[ord] || '"'
        WHEN 'unknown' THEN ',"reason":"sender"' END, '}'),
    now
  FROM f, n)
SELECT ord, key, name, task_id, request_hash, repeatable, sender, sent_until, sendings, senders, approval, decided_by, budget, amount, outcome,
  comment, late, contradicts, late_report, copied, source, opened_at, n.now, created_at
FROM f, n
