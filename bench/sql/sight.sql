-- The store of the section sight: tasks of one item, set by set, as the verbs would have left
-- them, but not in the transparency log. The n-th task has the state that sight_state says; most are completed.
-- name: sight id
CREATE FUNCTION sight_id(n bigint, total bigint, now bigint) RETURNS uuid LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT (lpad(to_hex((now - (total - n) * 1209600000000 / total) / 1000), 12, '0') || substr(md5(n::text), 1, 20))::uuid $$
-- name: sight state
CREATE FUNCTION sight_state(n bigint, total bigint) RETURNS smallint LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
  SELECT CASE
    WHEN n > total - total / 50 THEN 3
    WHEN n % 1000 < 8 THEN 10
    WHEN n % 1000 < 12 THEN 11
    WHEN n % 1000 < 16 THEN 6
    WHEN n % 1000 < 20 THEN 12
    WHEN n % 1000 < 22 THEN 1
    WHEN n % 1000 < 24 THEN 2
    WHEN n % 1000 < 26 THEN 4
    ELSE 8
  END::smallint
$$
-- name: sight queues
INSERT INTO pawl.queues (namespace, type)
SELECT 'default', 'type-' || to_char(n, 'FM00')
FROM generate_series(0, 19) n
-- name: sight worker
INSERT INTO pawl.actors (kind, name)
VALUES ('worker', 'w-1')
-- name: sight rows
CREATE TABLE sight AS
SELECT n, sight_id(n, $1::bigint, $2::bigint) AS id, $2::bigint - ($1::bigint - n) * 1209600000000 / $1::bigint AS at, sight_state(n, $1::bigint) AS state,
  (SELECT q.id FROM pawl.queues q WHERE q.namespace = 'default' AND q.type = 'type-' || to_char(n / 7 % 20, 'FM00')) AS queue,
  (SELECT a.id FROM pawl.actors a WHERE a.kind = 'worker' AND a.name = 'w-1') AS worker
FROM generate_series(1, $1::bigint) n
ORDER BY n
-- name: sight tasks
INSERT INTO pawl.tasks (id, namespace, type, solo, title, priority, metadata, requested_by_type, requested_by_id, created_at, queue_id, max_attempts, input)
SELECT s.id, 'default', q.type, 1, 'Report ' || s.n, CASE WHEN s.n % 100 = 1 THEN 5 ELSE 0 END,
  json_build_object('customer', 'c-' || s.n % 50000, 'region', CASE WHEN s.n % 100000 = 5 THEN 'mars' ELSE 'eu' END),
  'user', 'u-' || s.n % 100, s.at, s.queue, 3, json_build_object('text', repeat('x', 180))
FROM sight s
JOIN pawl.queues q ON q.id = s.queue
ORDER BY s.n
-- name: sight ready
INSERT INTO pawl.ready (queue_id, rank, item_id, task_id, max_attempts, solo)
SELECT queue, CASE WHEN n % 100 = 1 THEN -9 ELSE 1 END, id, id, 3, 1
FROM sight
WHERE state = 3
-- name: sight scheduled
INSERT INTO pawl.scheduled (item_id, queue_id, task_id, priority, run_at, max_attempts, solo)
SELECT id, queue, id, CASE WHEN n % 100 = 1 THEN 5 ELSE 0 END, $1::bigint + 86400000000 + n, 3, 1
FROM sight
WHERE state = 1
-- name: sight waiting
INSERT INTO pawl.waiting (item_id, queue_id, task_id, priority, signal, signal_key, max_attempts, solo)
SELECT id, queue, id, CASE WHEN n % 100 = 1 THEN 5 ELSE 0 END, 'paid', n::text, 3, 1
FROM sight
WHERE state = 2
-- name: sight leases
INSERT INTO pawl.leases (item_id, namespace, queue_id, task_id, priority, state, attempt, failures, max_attempts, solo, feeds, acceptance, rework, spared,
  prefetch, worker, lease_seconds, started_at, acquired_at, heartbeat_at, lease_expires_at)
SELECT id, 'default', queue, id, CASE WHEN n % 100 = 1 THEN 5 ELSE 0 END, 4, 1, 0, 3, 1, 0, 0, 0, 0, 0, worker, 86400, at, $1::bigint, $1::bigint,
  $1::bigint + 86400000000
FROM sight
WHERE state = 4
-- name: sight parked
INSERT INTO pawl.parked_items (item_id, queue_id, task_id, priority, state, attempt, failures, max_attempts, solo, worker, started_at, since, result, error, failure)
SELECT id, queue, id, CASE WHEN n % 100 = 1 THEN 5 ELSE 0 END, state, 1, CASE WHEN state = 6 THEN 0 ELSE 1 END, 3, 1, worker, at, at,
  CASE WHEN state = 6 THEN '{"ok":true}' END,
  CASE WHEN state > 6 THEN json_build_object('code', 'failed', 'message', CASE WHEN n % 200000 = 1 THEN 'the disk is full' ELSE ($1::text[])[1 + n / 3 % 4] || n END) END,
  CASE WHEN state > 6 THEN CASE WHEN n % 200000 = 1 THEN $3::bigint ELSE ($2::bigint[])[1 + n / 3 % 4] END END
FROM sight
WHERE state IN (6, 10, 11)
-- name: sight finished
INSERT INTO pawl.finished_items (item_id, queue_id, task_id, state, attempt, failures, worker, started_at, ended_at, result)
SELECT id, queue, id, state, CASE WHEN state = 12 THEN 0 ELSE 1 END, 0, CASE WHEN state <> 12 THEN worker END, CASE WHEN state <> 12 THEN at END, at,
  CASE WHEN state <> 12 THEN '{"ok":true}' END
FROM sight
WHERE state IN (8, 12)
ORDER BY n
-- name: sight counters
INSERT INTO pawl.task_counters (task_id, namespace, version, open, dead, updated_at)
SELECT id, 'default', 1, 0, 1, at
FROM sight
WHERE state = 11
-- name: sight proposed
INSERT INTO pawl.task_events (namespace, task_id, item_id, attempt, move, actor, created_at, queue_id)
SELECT 'default', id, id, NULL, CASE state WHEN 1 THEN 31 WHEN 2 THEN 33 ELSE 29 END, 0, at, queue
FROM sight
ORDER BY n
-- name: sight leased
INSERT INTO pawl.task_events (namespace, task_id, item_id, attempt, move, actor, created_at, queue_id)
SELECT 'default', id, id, 1, 39, worker, at, queue
FROM sight
WHERE state NOT IN (1, 2, 3, 12)
ORDER BY n
-- name: sight ended
INSERT INTO pawl.task_events (namespace, task_id, item_id, attempt, move, actor, created_at, queue_id, since)
SELECT 'default', id, id, CASE WHEN state <> 12 THEN 1 END, CASE state WHEN 8 THEN 43 WHEN 6 THEN 47 WHEN 12 THEN 105 ELSE 55 END, worker, at, queue, at
FROM sight
WHERE state IN (6, 8, 10, 11, 12)
ORDER BY n
-- name: sight buried
INSERT INTO pawl.task_events (namespace, task_id, item_id, attempt, move, actor, created_at, queue_id)
SELECT 'default', id, id, 1, 101, 0, at, queue
FROM sight
WHERE state = 11
ORDER BY n
-- name: sight feed
INSERT INTO pawl.relay_cursors (sink, position, detail, updated_at)
SELECT 'feed', 0, json_build_object('top', MAX(e.id)), 0
FROM pawl.task_events e
-- name: sight drop
DROP TABLE sight
-- name: sight writes
SELECT COALESCE(SUM(n_tup_ins + n_tup_upd), 0)::bigint
FROM pg_stat_user_tables
WHERE schemaname = 'pawl' AND relname IN ('totals', 'queue_minutes')
-- name: sight write
UPDATE pawl.queue_minutes
SET created = created + 1, claimed = claimed + 1, completed = completed + 1, wait_us = wait_us + 1, run_us = run_us + 1
WHERE (queue_id, minute) = (SELECT queue_id, minute FROM pawl.queue_minutes LIMIT 1)
