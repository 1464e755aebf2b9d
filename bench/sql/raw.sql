-- name: raw tables
CREATE TABLE items (
  id          INTEGER PRIMARY KEY,
  queue       INTEGER NOT NULL,
  kind        TEXT NOT NULL,
  priority    INTEGER NOT NULL,
  run_at      INTEGER NOT NULL,
  state       INTEGER NOT NULL,
  attempt     INTEGER NOT NULL,
  token       INTEGER,
  worker      TEXT,
  lease_until INTEGER,
  payload     TEXT NOT NULL,
  result      TEXT,
  created_at  INTEGER NOT NULL,
  finished_at INTEGER
) STRICT;
CREATE INDEX items_pending ON items (queue, priority DESC, run_at, id) WHERE state = 0;
CREATE INDEX items_leased ON items (lease_until) WHERE state = 1;
CREATE TABLE events (
  item_id INTEGER NOT NULL,
  seq     INTEGER NOT NULL,
  kind    INTEGER NOT NULL,
  at      INTEGER NOT NULL,
  actor   TEXT,
  PRIMARY KEY (item_id, seq)
) STRICT, WITHOUT ROWID;
-- name: raw begin
BEGIN IMMEDIATE
-- name: raw commit
COMMIT
-- name: raw create
INSERT INTO items (queue, kind, priority, run_at, state, attempt, payload, created_at)
VALUES (1, 'bench', 0, ?1, 0, 0, ?2, ?1)
RETURNING id
-- name: raw claim
UPDATE items
SET state = 1, attempt = attempt + 1, token = ?1, worker = 'bench', lease_until = ?2 + 30000000
WHERE id IN (
  SELECT id
  FROM items
  WHERE state = 0 AND queue = 1 AND run_at <= ?2
  ORDER BY priority DESC, run_at, id
  LIMIT 0 + ?3)
RETURNING id, attempt, payload
-- name: raw complete
UPDATE items
SET state = 2, result = ?3, finished_at = ?4, lease_until = NULL
WHERE id = ?1 AND token = ?2 AND state = 1
-- name: raw event
INSERT INTO events (item_id, seq, kind, at, actor)
VALUES (?1, ?2, ?2, ?3, 'bench')

-- name: bare table
CREATE TABLE bare (id integer PRIMARY KEY, body text NOT NULL)

-- name: bare commit
INSERT INTO bare (id, body)
VALUES ($1, $2)
-- name: bare table
CREATE TABLE bare (n INTEGER, payload TEXT)
-- name: bare insert
INSERT INTO bare VALUES ($1, $2)
