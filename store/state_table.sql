-- Taking narrow rows out of their places and putting them in. The columns every
-- place has come first, in one order, then the place's own. Rows of leases and of
-- waiting are locked by item id, as the hot verbs lock them: see store.Hot.

-- The rows are found once: statistics from when the table was empty must not have
-- them found again for each of its rows.
-- name: take ready
WITH held AS MATERIALIZED (
  SELECT r.namespace, r.type, r.rank, r.item_id
  FROM (
    SELECT id, namespace, type, 1 - 2 * priority AS rank FROM pawl.work_items WHERE id IN @list($1)
    UNION ALL
    SELECT id, namespace, type, -2 * priority FROM pawl.work_items WHERE id IN @list($1)
  ) w
  JOIN pawl.ready r ON r.namespace = w.namespace AND r.type = w.type AND r.rank = w.rank AND r.item_id = w.id)
DELETE FROM pawl.ready
WHERE (namespace, type, rank, item_id) IN (SELECT namespace, type, rank, item_id FROM held)
RETURNING item_id, namespace, task_id, type, attempt, failures, max_attempts, solo, feeds, acceptance, rework, spared, worker_id, started_at, error, left_by, since, rank

-- name: take scheduled
DELETE FROM pawl.scheduled
WHERE item_id IN @list($1)
RETURNING item_id, namespace, task_id, type, attempt, failures, max_attempts, solo, feeds, acceptance, rework, spared, worker_id, started_at, error, left_by, since, priority, run_at

-- name: take waiting
WITH held AS MATERIALIZED (
  SELECT item_id
  FROM pawl.waiting
  WHERE item_id IN @list($1)
  ORDER BY item_id
  @lock)
DELETE FROM pawl.waiting
WHERE item_id IN (SELECT item_id FROM held)
RETURNING item_id, namespace, task_id, type, attempt, failures, max_attempts, solo, feeds, acceptance, rework, spared, worker_id, started_at, error, left_by, since, priority, until, signal, signal_key, needs, broken

-- name: take leases
WITH held AS MATERIALIZED (
  SELECT item_id
  FROM pawl.leases
  WHERE item_id IN @list($1)
  ORDER BY item_id
  @lock)
DELETE FROM pawl.leases
WHERE item_id IN (SELECT item_id FROM held)
RETURNING item_id, namespace, task_id, type, attempt, failures, max_attempts, solo, feeds, acceptance, rework, spared, worker_id, started_at, error, priority, state, prefetch, lease_seconds, acquired_at, heartbeat_at, lease_expires_at, progress, stage, progressed_at, stopped, key_id

-- name: take rests
DELETE FROM pawl.rests
WHERE item_id IN @list($1) AND state IN @list($2)
RETURNING item_id, namespace, task_id, type, attempt, failures, max_attempts, solo, feeds, acceptance, rework, spared, worker_id, started_at, error, left_by, since, priority, state, completed_at, accepted_at, progress, stage, result, assembled_result, evidence, notes

-- name: put ready
INSERT INTO pawl.ready (item_id, namespace, task_id, type, attempt, failures, max_attempts, solo, feeds, acceptance, rework, spared, worker_id, started_at, error, left_by, since, rank)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)

-- name: put scheduled
INSERT INTO pawl.scheduled (item_id, namespace, task_id, type, attempt, failures, max_attempts, solo, feeds, acceptance, rework, spared, worker_id, started_at, error, left_by, since, priority, run_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)

-- name: put waiting
INSERT INTO pawl.waiting (item_id, namespace, task_id, type, attempt, failures, max_attempts, solo, feeds, acceptance, rework, spared, worker_id, started_at, error, left_by, since, priority, until, signal, signal_key, needs, broken)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23)

-- name: put leases
INSERT INTO pawl.leases (item_id, namespace, task_id, type, attempt, failures, max_attempts, solo, feeds, acceptance, rework, spared, worker_id, started_at, error, priority, state, prefetch, lease_seconds, acquired_at, heartbeat_at, lease_expires_at, progress, stage, progressed_at, stopped, key_id)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27)

-- name: put rests
INSERT INTO pawl.rests (item_id, namespace, task_id, type, attempt, failures, max_attempts, solo, feeds, acceptance, rework, spared, worker_id, started_at, error, left_by, since, priority, state, completed_at, accepted_at, progress, stage, result, assembled_result, evidence, notes)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27)

-- name: put ends
INSERT INTO pawl.ends (item_id, namespace, task_id, attempt, failures, rework, worker_id, started_at, error, left_by, state, ended_at, accepted_at, stage, result, assembled_result)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)

-- Rows that others change at the same time are changed where they are: who waits
-- for a row's lock finds its newest version, and nothing in place of a row that
-- was removed and inserted again.
-- name: amend scheduled
UPDATE pawl.scheduled
SET solo = COALESCE($2, solo), feeds = COALESCE($3, feeds), priority = COALESCE($4, priority)
WHERE item_id IN @list($1)
RETURNING item_id, namespace, type, 'scheduled'

-- name: amend waiting
WITH held AS MATERIALIZED (
  SELECT item_id
  FROM pawl.waiting
  WHERE item_id IN @list($1)
  ORDER BY item_id
  @lock)
UPDATE pawl.waiting
SET solo = COALESCE($2, solo), feeds = COALESCE($3, feeds), priority = COALESCE($4, priority)
WHERE item_id IN (SELECT item_id FROM held)
RETURNING item_id, namespace, type, 'waiting'

-- name: amend leases
WITH held AS MATERIALIZED (
  SELECT item_id
  FROM pawl.leases
  WHERE item_id IN @list($1)
  ORDER BY item_id
  @lock)
UPDATE pawl.leases
SET solo = COALESCE($2, solo), feeds = COALESCE($3, feeds), priority = COALESCE($4, priority)
WHERE item_id IN (SELECT item_id FROM held)
RETURNING item_id, namespace, type, state

-- name: amend rests
UPDATE pawl.rests
SET solo = COALESCE($2, solo), feeds = COALESCE($3, feeds), priority = COALESCE($4, priority)
WHERE item_id IN @list($1)
RETURNING item_id, namespace, type, state

-- name: still in
SELECT i.id
FROM pawl.item_rows i
WHERE i.id @among($1) AND i.state IN @list($2)

-- name: record
INSERT INTO pawl.task_events (namespace, task_id, item_id, attempt, event, from_state, to_state, task_from, task_to, actor_type, actor_id, message, data, diff, key_id, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
