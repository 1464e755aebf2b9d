-- name: Lease
SELECT task_id, solo
FROM pawl.leases
WHERE item_id = $1 AND namespace = $2 AND worker = $3 AND attempt = $4 AND lease_expires_at > $5

-- name: Open
INSERT INTO pawl.effects (id, namespace, key, name, task_id, item_id, request_hash, state, repeatable, sender, worker_id, attempt, key_id,
  sent_until, sendings, senders, opened_at, created_at)
SELECT $1, $2, $3, $4, $5, $6, $7, 'open', $8, $9, $10, $11, $12, $13, 1, $14, $15, $15
WHERE NOT EXISTS (SELECT 1 FROM pawl.effects f WHERE f.item_id = $6 AND f.key = $3 AND f.copied = 1)
ON CONFLICT DO NOTHING

-- name: Count
UPDATE pawl.leases
SET effects = effects + $2
WHERE item_id = $1

-- name: Look
SELECT l.solo, f.key, f.name, f.task_id, f.request_hash, f.repeatable, f.sender, f.sent_until, f.sendings, f.senders, f.approval, f.decided_by,
  f.budget, f.amount, f.outcome, f.comment, f.late, f.contradicts, f.late_report, f.copied, f.source, f.opened_at, f.ended_at, f.created_at
FROM pawl.effects f
JOIN pawl.leases l ON l.item_id = f.item_id
WHERE f.id = $1 AND f.namespace = $2 AND f.item_id = $3 AND f.worker_id = $4 AND f.attempt = $5 AND f.key_id IS $6 AND f.state = 'open'
  AND f.gone = 0 AND f.reservation IS NULL AND l.namespace = $2 AND l.worker = $7 AND l.attempt = $5
  AND $8 IN (0, f.sendings) AND (f.repeatable = 0 OR f.sendings = 1)

-- name: Report
UPDATE pawl.effects
SET state = $2, answer = COALESCE($3, answer), answer_hash = COALESCE($4, answer_hash), error = $5, ended_at = $6
WHERE id = $1
