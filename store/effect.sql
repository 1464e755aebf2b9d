-- Effects. A transaction that changes an effect locks the lease of its item first, if it is there,
-- then the effect, then its budget. A signal is locked before all of these, and a
-- task before the signal.

-- name: effects
SELECT f.id, f.namespace, f.key, f.name, f.task_id, f.item_id, f.request_hash, f.state, f.repeatable, f.sender, f.worker_id, f.attempt,
  f.key_id, f.sent_until, f.sendings, f.senders, f.approval, f.decided_by, f.budget, f.amount, f.reservation, f.outcome, f.comment,
  f.answer, f.answer_hash, f.error, f.late, f.contradicts, f.late_report, f.copied, f.source, f.gone, f.opened_at, f.ended_at, f.created_at
FROM pawl.effects f

-- name: insert
INSERT INTO pawl.effects (id, namespace, key, name, task_id, item_id, request_hash, state, repeatable, sender, worker_id, attempt,
  key_id, sendings, senders, approval, budget, amount, copied, source, answer, answer_hash, opened_at, ended_at, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25)
ON CONFLICT DO NOTHING

-- name: forget
DELETE FROM pawl.effects
WHERE id = $1

-- name: write
UPDATE pawl.effects
SET state = $2, repeatable = $3, sender = $4, worker_id = $5, attempt = $6, key_id = $7, sent_until = $8, sendings = $9, senders = $10,
  approval = $11, decided_by = $12, budget = $13, amount = $14, reservation = $15, outcome = $16, comment = $17, answer = $18, answer_hash = $19,
  error = $20, late = $21, contradicts = $22, late_report = $23, opened_at = $24, ended_at = $25, task_id = $26, item_id = $27, name = $28
WHERE id = $1

-- name: lock lease
SELECT l.attempt
FROM pawl.leases l
WHERE l.item_id = $1
@lock

-- name: count on lease
UPDATE pawl.leases
SET effects = (SELECT COUNT(*) FROM pawl.effects f WHERE f.item_id = $1 AND f.attempt = $2 AND f.sender = 'attempt' AND f.state = 'open')
WHERE item_id = $1 AND attempt = $2

-- name: end of attempt
UPDATE pawl.effects
SET state = 'unknown', ended_at = $3
WHERE item_id = $1 AND attempt = $2 AND sender = 'attempt' AND state = 'open'
RETURNING id

-- name: forget gone
DELETE FROM pawl.effects
WHERE id = $1 AND gone = 1

-- name: undecided of tasks
SELECT f.task_id, f.id
FROM pawl.effects f
WHERE f.task_id @among_ids($1) AND @undecided(f)
ORDER BY f.id

-- name: tasks of items
SELECT DISTINCT w.task_id
FROM pawl.all_items w
WHERE w.id IN @ids($1)

-- PostgreSQL writes the data of those that it makes unknown with spaces.
-- name: events of effect
SELECT e.id
FROM pawl.task_events e
WHERE e.task_id @among_ids($1) AND e.move IN @events(item 'effect_opened', 'effect_done', 'effect_failed', 'effect_unknown', 'effect_resolved')
  AND (e.data LIKE $2 OR e.data LIKE $3)
ORDER BY e.id
LIMIT $4
