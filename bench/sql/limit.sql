-- name: limit tables
CREATE TABLE items (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, queue int NOT NULL, kind text NOT NULL, priority int NOT NULL, payload jsonb NOT NULL, created_at timestamptz NOT NULL DEFAULT now());
CREATE TABLE ready (queue int NOT NULL, npri int NOT NULL, run_at timestamptz NOT NULL, id bigint NOT NULL, attempt int NOT NULL, PRIMARY KEY (queue, npri, run_at, id)) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
CREATE TABLE leases (id bigint PRIMARY KEY, token bigint NOT NULL, attempt int NOT NULL, worker text NOT NULL, until timestamptz NOT NULL) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
CREATE TABLE done (id bigint PRIMARY KEY, state int NOT NULL, result jsonb, finished_at timestamptz NOT NULL DEFAULT now());
CREATE TABLE events (item_id bigint NOT NULL, seq bigint GENERATED ALWAYS AS IDENTITY, kind smallint NOT NULL, at timestamptz NOT NULL DEFAULT now(), actor text, data jsonb, PRIMARY KEY (item_id, seq));
-- name: limit session
SET enable_seqscan = off
-- name: limit create
WITH i AS (
  INSERT INTO items (queue, kind, priority, payload)
  SELECT 1, 'bench', 0, p
  FROM unnest($1::jsonb[]) AS p
  RETURNING id),
q AS (
  INSERT INTO ready (queue, npri, run_at, id, attempt)
  SELECT 1, 0, now(), id, 0
  FROM i),
ev AS (
  INSERT INTO events (item_id, kind, actor)
  SELECT id, 1, 'api'
  FROM i)
SELECT count(*)
FROM i
-- name: limit claim
WITH r AS (
  DELETE FROM ready
  WHERE ctid = ANY(ARRAY(
    SELECT ctid
    FROM ready
    WHERE queue = 1 AND run_at <= now() AND (npri, run_at, id) >= ($3::int, $4::timestamptz, $5::bigint)
    ORDER BY queue, npri, run_at, id
    LIMIT $1::int
    FOR UPDATE SKIP LOCKED))
  RETURNING npri, run_at, id, attempt),
l AS (
  INSERT INTO leases (id, token, attempt, worker, until)
  SELECT id, $2::bigint, attempt + 1, 'bench', now() + interval '30 s'
  FROM r),
ev AS (
  INSERT INTO events (item_id, kind, actor)
  SELECT id, 2, 'bench'
  FROM r)
SELECT r.npri, r.run_at, r.id, p.payload
FROM r
JOIN items p USING (id)
ORDER BY r.npri, r.run_at, r.id
-- name: limit complete
WITH x AS (
  DELETE FROM leases
  WHERE id = ANY($1::bigint[]) AND token = $3::bigint
  RETURNING id),
d AS (
  INSERT INTO done (id, state, result)
  SELECT x.id, 2, r.res
  FROM x
  JOIN unnest($1::bigint[], $2::jsonb[]) AS r(id, res) ON r.id = x.id),
ev AS (
  INSERT INTO events (item_id, kind, actor)
  SELECT id, 3, 'bench'
  FROM x)
SELECT count(*)
FROM x
-- name: limit listen
LISTEN bench
-- name: limit notify
NOTIFY bench
