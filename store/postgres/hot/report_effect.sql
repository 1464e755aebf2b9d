WITH k AS MATERIALIZED (
  SELECT l.item_id, l.namespace, l.worker, l.attempt, l.solo
  FROM pawl.leases l
  WHERE l.item_id = $1::uuid AND l.namespace = $2::text AND l.worker = @worker($3::text) AND l.attempt = $4::int
  FOR UPDATE),
f AS MATERIALIZED (
  SELECT f.*, k.worker, k.solo
  FROM k,
    LATERAL (
      SELECT f.*
      FROM pawl.effects f
      WHERE f.id = $5::text
      OFFSET 0
      FOR UPDATE) f
  WHERE f.namespace = k.namespace AND f.item_id = k.item_id AND f.worker_id = $3::text AND f.attempt = k.attempt
    AND f.key_id IS NOT DISTINCT FROM $6::text AND f.state = 'open' AND f.gone = 0 AND f.reservation IS NULL
    AND $12::int IN (0, f.sendings)),
n AS MATERIALIZED (SELECT pawl.now() AS now FROM (SELECT count(*) FROM f) locked),
u AS (
  UPDATE pawl.effects
  SET state = $7::text, answer = COALESCE($8::text, effects.answer), answer_hash = COALESCE($9::text, effects.answer_hash), error = $10::text,
    ended_at = n.now
  FROM n
  WHERE effects.id = (SELECT id FROM f)),
counted AS (
  UPDATE pawl.leases
  SET effects = leases.effects - 1
  WHERE leases.item_id = (SELECT item_id FROM f WHERE sender = 'attempt')),
event AS (
  INSERT INTO pawl.task_events (namespace, task_id, item_id, attempt, move, actor, key_id, data, created_at)
  SELECT namespace, task_id, item_id, attempt,
    CASE $7::text
      WHEN 'done' THEN @move(effect_done, -, -, solo)
      WHEN 'failed' THEN @move(effect_failed, -, -, solo)
      ELSE @move(effect_unknown, -, -, solo) END,
    worker, $6::text,
    concat('{"effect_id":', to_json(id), ',"name":', to_json(name), ',"key":', to_json(key), ',"request_hash":', to_json(request_hash),
      ',"sendings":', sendings, $11::text, '}'),
    now
  FROM f, n)
SELECT key, name, task_id, request_hash, repeatable, sender, sent_until, sendings, senders, approval, decided_by, budget, amount, outcome, comment,
  late, contradicts, late_report, copied, source, opened_at, n.now, created_at
FROM f, n
