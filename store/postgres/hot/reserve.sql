WITH k AS MATERIALIZED (
  SELECT l.item_id, l.task_id, l.queue_id, l.namespace, l.attempt, l.lease_expires_at
  FROM pawl.leases l
  WHERE l.item_id = $1::uuid AND l.namespace = $2::text AND l.worker = @worker($3::text) AND l.attempt = $4::int
  FOR UPDATE),
b AS MATERIALIZED (
  SELECT b.*, k.item_id, k.task_id, k.queue_id, k.attempt, k.lease_expires_at
  FROM k,
    LATERAL (
      SELECT b.*
      FROM pawl.budgets b
      WHERE b.namespace = k.namespace AND b.name = $5::text
      OFFSET 0
      FOR NO KEY UPDATE) b),
n AS MATERIALIZED (SELECT pawl.now() AS now FROM (SELECT count(*) FROM b) locked),
i AS (
  INSERT INTO pawl.budget_reservations (id, namespace, budget_id, period_number, item_id, task_id, attempt, key, state, amount, agent, model, created_at)
  SELECT $6::text, b.namespace, b.id, b.period_number, b.item_id, b.task_id, b.attempt, $7::text, 0, $8::bigint,
    COALESCE($9::text, (SELECT p.agent_id FROM pawl.provenances p WHERE p.item_id = b.item_id AND p.verb = 'claim' AND p.attempt = b.attempt ORDER BY p.id DESC LIMIT 1), $3::text),
    COALESCE($10::text, (SELECT p.model FROM pawl.provenances p WHERE p.item_id = b.item_id AND p.verb = 'claim' AND p.attempt = b.attempt ORDER BY p.id DESC LIMIT 1)),
    n.now
  FROM b, n
  WHERE b.lease_expires_at > n.now
    AND (b.period_end IS NULL OR b.period_end > n.now)
    AND b.allowance - b.spent - b.reserved >= $8::bigint
    AND ($11::text IS NULL OR b.unit = $11::text)
    AND b.for_key IS NULL
    AND (b.for_task IS NULL OR b.for_task = b.task_id)
    AND (b.for_type IS NULL OR b.for_type = (SELECT q.type FROM pawl.queues q WHERE q.id = b.queue_id))
  ON CONFLICT (budget_id, item_id, key) DO NOTHING
  RETURNING budget_id)
UPDATE pawl.budgets
SET reserved = budgets.reserved + $8::bigint
WHERE budgets.id = (SELECT budget_id FROM i)
RETURNING budgets.allowance - budgets.spent - budgets.reserved
