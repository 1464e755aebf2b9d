-- Budgets. Every transaction that changes a budget's numbers, or the reservations of it that
-- count, locks the budget's row first; the lease of the item is locked before that.

-- name: budgets
SELECT b.id, b.name, b.unit, b.allowance, b.for_type, b.for_key, b.for_task, b.period, b.on_exhausted, b.on_lost,
  b.period_number, b.period_start, b.period_end, b.spent, b.reserved, b.created_at, b.changed_at
FROM pawl.budgets b

-- name: lock budget
SELECT b.id, b.name, b.unit, b.allowance, b.for_type, b.for_key, b.for_task, b.period, b.on_exhausted, b.on_lost,
  b.period_number, b.period_start, b.period_end, b.spent, b.reserved, b.created_at, b.changed_at
FROM pawl.budgets b
WHERE b.namespace = $1 AND b.name = $2
@exclusive

-- name: lock budget by id
SELECT b.id, b.name, b.unit, b.allowance, b.for_type, b.for_key, b.for_task, b.period, b.on_exhausted, b.on_lost,
  b.period_number, b.period_start, b.period_end, b.spent, b.reserved, b.created_at, b.changed_at
FROM pawl.budgets b
WHERE b.id = $1
@exclusive

-- name: insert budget
INSERT INTO pawl.budgets (id, namespace, name, unit, allowance, for_type, for_key, for_task, period, on_exhausted, on_lost,
  period_number, period_start, period_end, spent, reserved, created_at, changed_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, 1, $12, $13, 0, 0, $14, $14)
ON CONFLICT (namespace, name) DO NOTHING

-- name: change budget
UPDATE pawl.budgets
SET unit = $2, allowance = $3, for_type = $4, for_key = $5, for_task = $6, period = $7, on_exhausted = $8, on_lost = $9,
  period_number = $10, period_start = $11, period_end = $12, spent = $13, reserved = $14, changed_at = $15
WHERE id = $1

-- name: count budget
UPDATE pawl.budgets
SET period_number = $2, period_start = $3, period_end = $4, spent = $5, reserved = $6
WHERE id = $1

-- name: delete budget
DELETE FROM pawl.budgets
WHERE id = $1

-- name: has reservations
SELECT 1
FROM pawl.budget_reservations r
WHERE r.budget_id = $1
UNION ALL
SELECT 1
FROM pawl.budget_totals t
WHERE t.budget_id = $1
LIMIT 1

-- name: reservation by key
SELECT r.id, r.period_number, r.attempt, r.state, r.amount, r.charged
FROM pawl.budget_reservations r
WHERE r.budget_id = $1 AND r.item_id = $2 AND r.key = $3
@lock

-- name: reservation by id
SELECT r.id, r.period_number, r.attempt, r.state, r.amount, r.charged
FROM pawl.budget_reservations r
WHERE r.budget_id = $1 AND r.item_id = $2 AND r.id = $3
@lock

-- The agent and the model are those of the claim's provenance where the call has none.
-- name: insert reservation
INSERT INTO pawl.budget_reservations (id, namespace, budget_id, period_number, item_id, task_id, attempt, key, state, amount, agent, model, created_at)
SELECT $1, $2, $3, $4, $5, $6, $7, $8, 0, $9,
  COALESCE($10, (SELECT p.agent_id FROM pawl.provenances p WHERE p.item_id = $5 AND p.verb = 'claim' AND p.attempt = $7 ORDER BY p.id DESC LIMIT 1), $11),
  COALESCE($12, (SELECT p.model FROM pawl.provenances p WHERE p.item_id = $5 AND p.verb = 'claim' AND p.attempt = $7 ORDER BY p.id DESC LIMIT 1)),
  $13

-- name: change reservation
UPDATE pawl.budget_reservations
SET period_number = $2, attempt = $3, state = $4, amount = $5, charged = $6, ended_at = $7
WHERE id = $1

-- A later attempt that takes a reservation over is the one that spends. A model that it does not
-- name stays.
-- name: take over reservation
UPDATE pawl.budget_reservations
SET agent = COALESCE($4, (SELECT p.agent_id FROM pawl.provenances p WHERE p.item_id = $2 AND p.verb = 'claim' AND p.attempt = $3 ORDER BY p.id DESC LIMIT 1), $5),
  model = COALESCE($6, (SELECT p.model FROM pawl.provenances p WHERE p.item_id = $2 AND p.verb = 'claim' AND p.attempt = $3 ORDER BY p.id DESC LIMIT 1), model)
WHERE id = $1

-- The key of an item that is leased, and its type.
-- name: key of lease
SELECT g.key
FROM pawl.leases l
JOIN pawl.gates g ON g.id = l.gate
WHERE l.item_id = $1

-- name: type of lease
SELECT q.type
FROM pawl.leases l
JOIN pawl.queues q ON q.id = l.queue_id
WHERE l.item_id = $1

-- Of a task that retention has removed, the links to its parent and its children are there as long as these are.
-- name: in tree
WITH RECURSIVE up (id) AS (
  SELECT l.parent_id
  FROM pawl.child_links l
  WHERE l.child_id = $1
  UNION
  SELECT l.parent_id
  FROM up
  JOIN pawl.child_links l ON l.child_id = up.id)
SELECT 1
FROM up
WHERE id = $2

-- What a reservation of an earlier period is charged stays there, when its key is used again.
-- name: detach reservation
UPDATE pawl.budget_reservations
SET item_id = NULL
WHERE id = $1

-- Open reservations of a budget whose attempt holds no lease any more. An attempt that has
-- lost its lease never gets it back. What a gate still sends may be spent: it is open under a lease of the gate's own.
-- name: end lost reservations
WITH lost AS MATERIALIZED (
  SELECT r.id
  FROM pawl.budget_reservations r
  WHERE r.budget_id = $1 AND r.state = 0
    AND NOT EXISTS (SELECT 1 FROM pawl.leases l WHERE l.item_id = r.item_id AND l.attempt = r.attempt)
    AND NOT EXISTS (SELECT 1 FROM pawl.effects f WHERE f.item_id = r.item_id AND f.reservation = r.id AND f.state = 'open')
  ORDER BY r.id
  LIMIT $2
  @skip)
UPDATE pawl.budget_reservations
SET state = $3, charged = amount * $4, ended_at = $5
WHERE id IN (SELECT id FROM lost)
RETURNING period_number, amount

-- What a later attempt may take back.
-- name: charged for lost reservations
SELECT CAST(COALESCE(SUM(r.charged), 0) AS bigint)
FROM pawl.budget_reservations r
WHERE r.budget_id = $1 AND r.period_number = $2 AND r.state = 2 AND r.item_id IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM pawl.finished_items e WHERE e.item_id = r.item_id)

-- name: reserved under other keys
SELECT CAST(COALESCE(SUM(r.amount), 0) AS bigint)
FROM pawl.budget_reservations r
WHERE r.budget_id = $1 AND r.item_id = $2 AND r.key <> $3 AND r.state = 0 AND r.period_number = $4

-- name: budgets with lost reservations
SELECT DISTINCT r.budget_id
FROM pawl.budget_reservations r
JOIN pawl.budgets b ON b.id = r.budget_id
WHERE r.state = 0 AND r.budget_id > $1
  AND NOT EXISTS (SELECT 1 FROM pawl.leases l WHERE l.item_id = r.item_id AND l.attempt = r.attempt)
  AND NOT EXISTS (SELECT 1 FROM pawl.effects f WHERE f.item_id = r.item_id AND f.reservation = r.id AND f.state = 'open')
ORDER BY r.budget_id
LIMIT $2

-- What was spent of a budget, of the periods from $2 on, in groups. The group '' is what is
-- not known.
-- name: spending by task
SELECT COALESCE(@task_text(x.task_id), ''), x.charged, x.reservations
FROM (
  SELECT r.task_id, CAST(SUM(r.charged) AS bigint) AS charged, CAST(SUM(r.reservations) AS bigint) AS reservations
  FROM (
    SELECT task_id, charged, 1 AS reservations FROM pawl.budget_reservations WHERE budget_id = $1 AND period_number BETWEEN $2 AND $3 AND state <> 0
    UNION ALL
    SELECT NULL, charged, reservations FROM pawl.budget_totals WHERE budget_id = $1 AND period_number BETWEEN $2 AND $3
  ) r
  GROUP BY r.task_id
) x
ORDER BY x.charged DESC, x.task_id
LIMIT $4

-- What a task reserved and spent, of each budget; $3 at most.
-- name: spending of task
SELECT b.name, b.unit, CAST(SUM(r.charged) AS bigint), CAST(SUM(CASE WHEN r.state = 0 THEN r.amount ELSE 0 END) AS bigint), COUNT(*)
FROM pawl.budget_reservations r
JOIN pawl.budgets b ON b.id = r.budget_id
WHERE r.task_id = $1 AND r.namespace = $2
GROUP BY b.name, b.unit
ORDER BY b.name
LIMIT $3

-- name: spending by model
SELECT r.model, CAST(SUM(r.charged) AS bigint) AS charged, CAST(SUM(r.reservations) AS bigint)
FROM (
  SELECT COALESCE(model, '') AS model, charged, 1 AS reservations FROM pawl.budget_reservations WHERE budget_id = $1 AND period_number BETWEEN $2 AND $3 AND state <> 0
  UNION ALL
  SELECT model, charged, reservations FROM pawl.budget_totals WHERE budget_id = $1 AND period_number BETWEEN $2 AND $3
) r
GROUP BY r.model
ORDER BY charged DESC, r.model
LIMIT $4

-- name: spending by agent
SELECT r.agent, CAST(SUM(r.charged) AS bigint) AS charged, CAST(SUM(r.reservations) AS bigint)
FROM (
  SELECT COALESCE(agent, '') AS agent, charged, 1 AS reservations FROM pawl.budget_reservations WHERE budget_id = $1 AND period_number BETWEEN $2 AND $3 AND state <> 0
  UNION ALL
  SELECT agent, charged, reservations FROM pawl.budget_totals WHERE budget_id = $1 AND period_number BETWEEN $2 AND $3
) r
GROUP BY r.agent
ORDER BY charged DESC, r.agent
LIMIT $4

-- The type of the task that spent it.
-- name: spending by type
SELECT r.type, CAST(SUM(r.charged) AS bigint) AS charged, CAST(SUM(r.reservations) AS bigint)
FROM (
  SELECT COALESCE((SELECT t.type FROM pawl.tasks t WHERE t.id = b.task_id), '') AS type, b.charged, 1 AS reservations
  FROM pawl.budget_reservations b
  WHERE b.budget_id = $1 AND b.period_number BETWEEN $2 AND $3 AND b.state <> 0
  UNION ALL
  SELECT '', charged, reservations FROM pawl.budget_totals WHERE budget_id = $1 AND period_number BETWEEN $2 AND $3
) r
GROUP BY r.type
ORDER BY charged DESC, r.type
LIMIT $4

-- name: spending by key
SELECT r.key, CAST(SUM(r.charged) AS bigint) AS charged, CAST(SUM(r.reservations) AS bigint)
FROM (
  SELECT key, charged, 1 AS reservations FROM pawl.budget_reservations WHERE budget_id = $1 AND period_number BETWEEN $2 AND $3 AND state <> 0
  UNION ALL
  SELECT '', charged, reservations FROM pawl.budget_totals WHERE budget_id = $1 AND period_number BETWEEN $2 AND $3
) r
GROUP BY r.key
ORDER BY charged DESC, r.key
LIMIT $4

-- By the number of the day since 1970, the newest first; $5 is the length of a day.
-- name: spending by day
SELECT CASE WHEN r.day < 0 THEN '' ELSE CAST(r.day AS text) END, CAST(SUM(r.charged) AS bigint), CAST(SUM(r.reservations) AS bigint)
FROM (
  SELECT ended_at / $5 AS day, charged, 1 AS reservations
  FROM pawl.budget_reservations
  WHERE budget_id = $1 AND period_number BETWEEN $2 AND $3 AND state <> 0
  UNION ALL
  SELECT -1, charged, reservations FROM pawl.budget_totals WHERE budget_id = $1 AND period_number BETWEEN $2 AND $3
) r
GROUP BY r.day
ORDER BY r.day DESC
LIMIT $4

-- name: spent
SELECT CAST(COALESCE(SUM(r.charged), 0) AS bigint)
FROM (
  SELECT charged FROM pawl.budget_reservations WHERE budget_id = $1 AND period_number BETWEEN $2 AND $3 AND state <> 0
  UNION ALL
  SELECT charged FROM pawl.budget_totals WHERE budget_id = $1 AND period_number BETWEEN $2 AND $3
) r

-- The number of the period with reservations that is the $3th before the number $2. A number without any is that of a
-- period in which the budget was made or changed. Each period costs two looks into the indexes.
-- name: past period
WITH RECURSIVE p (n, ago) AS (
  SELECT CAST($2 AS bigint), 0
  UNION ALL
  SELECT (
    SELECT MAX(e.n)
    FROM (
      SELECT MAX(period_number) AS n FROM pawl.budget_reservations WHERE budget_id = $1 AND period_number < p.n
      UNION ALL
      SELECT MAX(period_number) FROM pawl.budget_totals WHERE budget_id = $1 AND period_number < p.n
    ) e), p.ago + 1
  FROM p
  WHERE p.n IS NOT NULL AND p.ago < $3)
SELECT n
FROM p
WHERE ago = $3 AND n IS NOT NULL

-- When the first reservation of a period was made. If some are summed up, that is not known.
-- name: first of period
SELECT MIN(created_at)
FROM pawl.budget_reservations
WHERE budget_id = $1 AND period_number = $2
  AND NOT EXISTS (SELECT 1 FROM pawl.budget_totals t WHERE t.budget_id = $1 AND t.period_number = $2)

-- Reservations that ended before $1, of items that have no work left.
-- name: old reservations
SELECT r.id, r.namespace, r.budget_id, r.period_number, COALESCE(r.agent, ''), COALESCE(r.model, ''), r.charged
FROM pawl.budget_reservations r
WHERE r.ended_at < $1
  AND (r.item_id IS NULL OR EXISTS (SELECT 1 FROM pawl.finished_items e WHERE e.item_id = r.item_id))
ORDER BY r.ended_at
LIMIT $2
@skip

-- name: remove reservations
DELETE FROM pawl.budget_reservations
WHERE id IN @list($1)

-- name: add total
INSERT INTO pawl.budget_totals (budget_id, namespace, period_number, agent, model, charged, reservations)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (budget_id, period_number, agent, model) DO UPDATE
SET charged = pawl.budget_totals.charged + excluded.charged, reservations = pawl.budget_totals.reservations + excluded.reservations

-- Each budget costs one look into the index.
-- name: remove reservations without budget
DELETE FROM pawl.budget_reservations
WHERE id IN (
  WITH RECURSIVE g (id) AS (
    SELECT (SELECT r.budget_id FROM pawl.budget_reservations r ORDER BY r.budget_id LIMIT 1)
    UNION ALL
    SELECT (SELECT r.budget_id FROM pawl.budget_reservations r WHERE r.budget_id > g.id ORDER BY r.budget_id LIMIT 1)
    FROM g
    WHERE g.id IS NOT NULL)
  SELECT r.id
  FROM g
  JOIN pawl.budget_reservations r ON r.budget_id = g.id
  WHERE NOT EXISTS (SELECT 1 FROM pawl.budgets b WHERE b.id = g.id)
  LIMIT $1)

-- name: remove totals without budget
DELETE FROM pawl.budget_totals
WHERE budget_id IN (
  SELECT t.budget_id
  FROM pawl.budget_totals t
  WHERE NOT EXISTS (SELECT 1 FROM pawl.budgets b WHERE b.id = t.budget_id)
  LIMIT $1)

-- Questions: tasks by which items of an exhausted budget ask a person. Each item that asks has a
-- row. The rows are read and written while the budget is locked.
-- name: questions of budget
SELECT DISTINCT q.task_id
FROM pawl.budget_questions q
WHERE q.budget_id = $1
ORDER BY q.task_id

-- The last column says that the item got what it asked for.
-- name: question of item
SELECT q.task_id, q.key, q.amount, COALESCE(q.rejected_at, 0), COALESCE(q.told_in, 0), COALESCE(k.state, ''),
  CASE WHEN EXISTS (
    SELECT 1
    FROM pawl.budget_reservations r
    WHERE r.budget_id = q.budget_id AND r.item_id = q.item_id AND r.key = q.key AND r.period_number >= q.period_number
      AND (r.state = 1 OR r.state = 0 AND r.amount >= q.amount)) THEN 1 ELSE 0 END
FROM pawl.budget_questions q
LEFT JOIN pawl.task_counters k ON k.task_id = q.task_id
WHERE q.budget_id = $1 AND q.item_id = $2

-- name: open question
SELECT q.task_id
FROM pawl.budget_questions q
JOIN pawl.task_counters k ON k.task_id = q.task_id
WHERE q.budget_id = $1 AND k.state = 'submitted'
ORDER BY q.task_id DESC
LIMIT 1

-- name: budget of question
SELECT b.name
FROM pawl.budget_questions q
JOIN pawl.budgets b ON b.id = q.budget_id
WHERE q.task_id = $1 AND q.namespace = $2
LIMIT 1

-- name: put question
INSERT INTO pawl.budget_questions (budget_id, namespace, item_id, task_id, period_number, amount, key)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (budget_id, item_id) DO UPDATE
SET task_id = $4, period_number = $5, amount = $6, key = $7, rejected_at = NULL, told_in = NULL

-- name: reject question
UPDATE pawl.budget_questions
SET rejected_at = $2, told_in = NULL
WHERE task_id = $1

-- name: tell of rejection
UPDATE pawl.budget_questions
SET told_in = $3
WHERE budget_id = $1 AND item_id = $2

-- name: keep what was asked
UPDATE pawl.tasks
SET metadata = $2
WHERE id = $1

-- Questions with items that ask no more, or that have an answer that counts no more. The row of an
-- item whose question was cancelled or removed stays while the item is open: a change of the budget
-- must reach who waits for it.
-- name: old questions
SELECT DISTINCT q.task_id, q.namespace
FROM pawl.budget_questions q
LEFT JOIN pawl.task_counters k ON k.task_id = q.task_id
LEFT JOIN pawl.budgets b ON b.id = q.budget_id
WHERE q.task_id > $1
  AND (b.id IS NULL
    OR k.state IN ('approved', 'applied', 'completed')
    OR q.rejected_at <> b.changed_at
    OR COALESCE((SELECT i.state FROM pawl.item_rows i WHERE i.id = q.item_id), '') NOT IN @list($2)
    OR EXISTS (
      SELECT 1
      FROM pawl.budget_reservations r
      WHERE r.budget_id = q.budget_id AND r.item_id = q.item_id AND r.key = q.key AND r.period_number >= q.period_number
        AND (r.state = 1 OR r.state = 0 AND r.amount >= q.amount)))
ORDER BY q.task_id
LIMIT $3

-- The same of one question; $3 = 1: its budget is gone, or it was approved.
-- name: remove old askers
DELETE FROM pawl.budget_questions
WHERE task_id = $1
  AND ($3 = 1
    OR rejected_at <> (SELECT b.changed_at FROM pawl.budgets b WHERE b.id = pawl.budget_questions.budget_id)
    OR NOT EXISTS (SELECT 1 FROM pawl.item_rows i WHERE i.id = pawl.budget_questions.item_id AND i.state IN @list($2))
    OR EXISTS (
      SELECT 1
      FROM pawl.budget_reservations r
      WHERE r.budget_id = pawl.budget_questions.budget_id AND r.item_id = pawl.budget_questions.item_id AND r.key = pawl.budget_questions.key
        AND r.period_number >= pawl.budget_questions.period_number AND (r.state = 1 OR r.state = 0 AND r.amount >= pawl.budget_questions.amount)))

-- name: question has askers
SELECT 1
FROM pawl.budget_questions q
WHERE q.task_id = $1
LIMIT 1

-- name: longest silent
SELECT l.item_id
FROM pawl.budget_reservations r
JOIN pawl.leases l ON l.item_id = r.item_id AND l.attempt = r.attempt
WHERE r.budget_id = $1 AND r.state = 0 AND r.period_number = $2
ORDER BY CASE WHEN ($3 - l.heartbeat_at) * $4 > (l.lease_expires_at - l.heartbeat_at) * $5 THEN 0 ELSE 1 END, l.heartbeat_at, l.item_id
LIMIT 1

-- name: monitored
SELECT namespace, name, allowance, CASE WHEN period_end <= $1 THEN 0 ELSE spent END, CASE WHEN period_end <= $1 THEN 0 ELSE reserved END
FROM pawl.budgets
ORDER BY namespace, name
LIMIT $2

-- name: wrong spending
SELECT x.name, NULL, 'it has spent ' || x.spent || ' and reserved ' || x.reserved || '; its reservations have spent ' || x.charged || ' and reserved ' || x.amount
FROM (
  SELECT b.name, b.spent, b.reserved,
    CAST(COALESCE((SELECT SUM(r.charged) FROM pawl.budget_reservations r WHERE r.budget_id = b.id AND r.period_number = b.period_number), 0)
      + COALESCE((SELECT SUM(t.charged) FROM pawl.budget_totals t WHERE t.budget_id = b.id AND t.period_number = b.period_number), 0) AS bigint) AS charged,
    CAST(COALESCE((SELECT SUM(r.amount) FROM pawl.budget_reservations r WHERE r.budget_id = b.id AND r.period_number = b.period_number AND r.state = 0), 0) AS bigint) AS amount
  FROM pawl.budgets b
) x
WHERE x.spent <> x.charged OR x.reserved <> x.amount

-- name: wrong reservations
SELECT r.id, r.task_id, 'of item ' || COALESCE(@item_text(r.item_id), 'none') || ', state ' || r.state || ', amount ' || r.amount || ', charged ' || r.charged
FROM pawl.budget_reservations r
WHERE r.item_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM pawl.all_items w WHERE w.id = r.item_id AND w.task_id = r.task_id AND w.namespace = r.namespace)
  OR r.charged <> CASE r.state WHEN 1 THEN r.charged WHEN 2 THEN r.amount ELSE 0 END
