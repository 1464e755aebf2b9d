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
r AS (
  UPDATE pawl.budget_reservations
  SET state = 1, charged = $7::bigint, ended_at = n.now
  FROM b, n
  WHERE budget_reservations.id = $6::text AND budget_reservations.budget_id = b.id
    AND budget_reservations.item_id = b.item_id AND budget_reservations.attempt = b.attempt
    AND budget_reservations.state = 0 AND budget_reservations.period_number = b.period_number
    AND b.lease_expires_at > n.now AND (b.period_end IS NULL OR b.period_end > n.now)
  RETURNING budget_reservations.budget_id, budget_reservations.amount)
UPDATE pawl.budgets
SET reserved = budgets.reserved - (SELECT amount FROM r), spent = budgets.spent + $7::bigint
WHERE budgets.id = (SELECT budget_id FROM r)
RETURNING budgets.allowance - budgets.spent - budgets.reserved, budgets.spent
