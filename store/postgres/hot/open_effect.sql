WITH k AS MATERIALIZED (
  SELECT l.item_id, l.task_id, l.namespace, l.worker, l.attempt, l.solo, l.lease_expires_at
  FROM pawl.leases l
  WHERE l.item_id = $1::uuid AND l.namespace = $2::text AND l.worker = @worker($3::text) AND l.attempt = $4::int
  FOR UPDATE),
n AS MATERIALIZED (SELECT pawl.now() AS now FROM (SELECT count(*) FROM k) locked),
i AS (
  INSERT INTO pawl.effects (id, namespace, key, name, task_id, item_id, request_hash, state, repeatable, sender, worker_id, attempt, key_id,
    sent_until, sendings, senders, opened_at, created_at)
  SELECT $5::text, k.namespace, $6::text, $7::text, k.task_id, k.item_id, $8::text, 'open', $9::smallint, $10::text, $3::text, k.attempt, $11::text,
    CASE WHEN $10::text = 'gate' THEN n.now + $12::bigint END, 1, $13::text, n.now, n.now
  FROM k, n
  WHERE k.lease_expires_at > n.now
    AND NOT EXISTS (SELECT 1 FROM pawl.effects f WHERE f.item_id = k.item_id AND f.key = $6::text AND f.copied = 1)
  ON CONFLICT DO NOTHING
  RETURNING item_id),
counted AS (
  UPDATE pawl.leases
  SET effects = leases.effects + 1
  WHERE $10::text = 'attempt' AND leases.item_id = (SELECT item_id FROM i)
  RETURNING 1)
INSERT INTO pawl.task_events (namespace, task_id, item_id, attempt, move, actor, key_id, data, created_at)
SELECT k.namespace, k.task_id, k.item_id, k.attempt, @move(effect_opened, -, -, solo), k.worker, $11::text, $14::text, n.now
FROM k, n, i
RETURNING created_at
