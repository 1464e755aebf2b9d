-- oldest: 1
-- +goose Up
-- Flow control: limits and rates of queues, schedules, deadlines, uniqueness, children, budgets.
-- All columns are nullable, and all indexes of hot tables are partial: what is not used is
-- not written.

-- What moves with an item, as long as it has not ended: the gate that its claims pass, NULL
-- in queues without limits; the seconds that an attempt may take; and the seconds that it may
-- be queued.
ALTER TABLE pawl.ready ADD COLUMN gate INTEGER;
ALTER TABLE pawl.ready ADD COLUMN start_to_close INTEGER;
ALTER TABLE pawl.ready ADD COLUMN schedule_to_start INTEGER;
ALTER TABLE pawl.scheduled ADD COLUMN gate INTEGER;
ALTER TABLE pawl.scheduled ADD COLUMN start_to_close INTEGER;
ALTER TABLE pawl.scheduled ADD COLUMN schedule_to_start INTEGER;
ALTER TABLE pawl.waiting ADD COLUMN gate INTEGER;
ALTER TABLE pawl.waiting ADD COLUMN start_to_close INTEGER;
ALTER TABLE pawl.waiting ADD COLUMN schedule_to_start INTEGER;
ALTER TABLE pawl.leases ADD COLUMN gate INTEGER;
ALTER TABLE pawl.leases ADD COLUMN start_to_close INTEGER;
ALTER TABLE pawl.leases ADD COLUMN schedule_to_start INTEGER;
ALTER TABLE pawl.parked_items ADD COLUMN gate INTEGER;
ALTER TABLE pawl.parked_items ADD COLUMN start_to_close INTEGER;
ALTER TABLE pawl.parked_items ADD COLUMN schedule_to_start INTEGER;

-- What a task was given, and where it comes from. forked_at is the number of the checkpoint
-- of forked_from that it began with.
ALTER TABLE pawl.tasks ADD COLUMN deadline INTEGER;
ALTER TABLE pawl.tasks ADD COLUMN start_to_close INTEGER;
ALTER TABLE pawl.tasks ADD COLUMN schedule_to_start INTEGER;
ALTER TABLE pawl.tasks ADD COLUMN parent_id BLOB;
ALTER TABLE pawl.tasks ADD COLUMN forked_from BLOB;
ALTER TABLE pawl.tasks ADD COLUMN forked_at INTEGER;
ALTER TABLE pawl.tasks ADD COLUMN schedule TEXT;
ALTER TABLE pawl.items ADD COLUMN deadline INTEGER;

-- Large values are the last columns: SQLite reads all of a value to get at what is behind it.
-- It cannot insert a column, but while a table is empty, the text of the table may be changed.
-- In a table with rows the new columns stay behind.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema
SET sql = replace(replace(sql,
  ', deadline INTEGER, start_to_close INTEGER, schedule_to_start INTEGER, parent_id BLOB, forked_from BLOB, forked_at INTEGER, schedule TEXT', ''),
  '  payload           TEXT',
  '  deadline INTEGER, start_to_close INTEGER, schedule_to_start INTEGER, parent_id BLOB, forked_from BLOB, forked_at INTEGER, schedule TEXT,
  payload           TEXT')
WHERE type = 'table' AND name = 'pawl.tasks' AND NOT EXISTS (SELECT 1 FROM pawl.tasks);
UPDATE sqlite_schema
SET sql = replace(replace(sql, ', deadline INTEGER', ''), '  input          TEXT', '  deadline INTEGER,
  input          TEXT')
WHERE type = 'table' AND name = 'pawl.items' AND NOT EXISTS (SELECT 1 FROM pawl.items);
UPDATE sqlite_schema
SET sql = replace(replace(sql, ', gate INTEGER, start_to_close INTEGER, schedule_to_start INTEGER', ''), '  result           TEXT',
  '  gate INTEGER, start_to_close INTEGER, schedule_to_start INTEGER,
  result           TEXT')
WHERE type = 'table' AND name = 'pawl.parked_items' AND NOT EXISTS (SELECT 1 FROM pawl.parked_items);
PRAGMA writable_schema = RESET;

DROP VIEW pawl.task_rows;
CREATE VIEW pawl.task_rows AS
SELECT x.id, x.namespace, x.type, x.type_version, x.solo, x.title, x.priority, x.payload, x.metadata,
  x.requested_by_type, x.requested_by_id, x.input_hash, x.thread, x.created_at,
  CASE
    WHEN x.stored <> 'open' THEN x.stored
    WHEN x.solo = 1 THEN CASE
      WHEN x.item_state IN ('queued', 'scheduled', 'waiting') THEN 'queued'
      WHEN x.item_state = 'leased' THEN 'checked_out'
      WHEN x.item_state = 'accepted' THEN 'approved'
      ELSE x.item_state END
    WHEN x.live_open < x.live_items THEN 'in_progress'
    WHEN EXISTS (SELECT 1 FROM pawl.leases l WHERE l.task_id = x.id AND l.state = @state(in_progress) AND x.planning = 0) THEN 'in_progress'
    WHEN EXISTS (SELECT 1 FROM pawl.leases l WHERE l.task_id = x.id AND x.planning = 0) THEN 'checked_out'
    ELSE 'queued'
  END AS state,
  x.live_version + CASE WHEN x.solo = 1 AND x.stored = 'open'
    AND x.item_state IN ('submitted', 'accepted', 'completed', 'rejected', 'failed', 'dead_lettered', 'cancelled') THEN 1 ELSE 0 END AS version,
  CASE WHEN x.solo = 1 THEN 1 WHEN x.planning = 1 THEN 0 ELSE x.live_items END AS items,
  CASE WHEN x.solo = 1 THEN CASE WHEN x.item_state IN ('queued', 'scheduled', 'waiting', 'leased', 'in_progress') THEN 1 ELSE 0 END WHEN x.planning = 1 THEN 0 ELSE x.live_open END AS open,
  CASE WHEN x.solo = 1 THEN CASE WHEN x.item_state = 'failed' THEN 1 ELSE 0 END ELSE x.live_failed END AS failed,
  CASE WHEN x.solo = 1 THEN CASE WHEN x.item_state = 'dead_lettered' THEN 1 ELSE 0 END ELSE x.live_dead END AS dead,
  CASE WHEN x.solo = 1 THEN CASE WHEN x.item_state = 'cancelled' THEN 1 ELSE 0 END ELSE x.live_cancelled END AS cancelled,
  x.checkpoints, x.pruned, x.failed_in, x.error, x.stage, x.item_state, x.progress, x.retry_count, x.applied_at, x.completed_at,
  x.deadline, x.start_to_close, x.schedule_to_start, x.parent_id, x.forked_from, x.forked_at, x.schedule
FROM (
  SELECT t.id, t.namespace, t.type, t.type_version, t.solo, t.title, t.priority, COALESCE(t.payload, t.input) AS payload, t.metadata,
    t.requested_by_type, t.requested_by_id, t.input_hash, t.thread, t.created_at,
    COALESCE(k.state, 'open') AS stored,
    COALESCE(k.version, 0) AS live_version, k.items AS live_items, k.open AS live_open, k.failed AS live_failed, COALESCE(k.planning, 0) AS planning, k.dead AS live_dead, k.cancelled AS live_cancelled,
    COALESCE(k.checkpoints, 0) AS checkpoints,
    COALESCE(k.pruned, 0) AS pruned,
    k.failed_in,
    CASE
      WHEN l.item_id IS NOT NULL THEN @state_name(l.state)
      WHEN e.item_id IS NOT NULL THEN @state_name(e.state)
      WHEN r.item_id IS NOT NULL OR b.item_id IS NOT NULL THEN 'queued'
      WHEN s.item_id IS NOT NULL THEN 'scheduled'
      WHEN g.item_id IS NOT NULL THEN 'waiting'
      ELSE @state_name(p.state)
    END AS item_state,
    COALESCE(k.error, l.error, e.error, r.error, b.error, s.error, g.error, p.error) AS error,
    COALESCE(l.stage, e.stage, p.stage) AS stage,
    l.progress,
    CASE WHEN t.solo = 1 THEN COALESCE(l.failures, e.failures, r.failures, b.failures, s.failures, g.failures, p.failures, 0) END AS retry_count,
    k.applied_at,
    COALESCE(k.completed_at, e.ended_at, p.completed_at) AS completed_at,
    t.deadline, t.start_to_close, t.schedule_to_start, t.parent_id, t.forked_from, t.forked_at, t.schedule
  FROM pawl.tasks t
  LEFT JOIN pawl.task_counters k ON k.task_id = t.id
  LEFT JOIN pawl.leases l ON t.solo = 1 AND l.item_id = t.id
  LEFT JOIN pawl.finished_items e ON t.solo = 1 AND e.item_id = t.id
  LEFT JOIN pawl.ready r ON r.queue_id = t.queue_id AND r.rank = 1 - 2 * COALESCE(t.item_priority, t.priority) AND r.item_id = t.id
  LEFT JOIN pawl.ready b ON b.queue_id = t.queue_id AND b.rank = -2 * COALESCE(t.item_priority, t.priority) AND b.item_id = t.id
  LEFT JOIN pawl.scheduled s ON t.solo = 1 AND s.item_id = t.id
  LEFT JOIN pawl.waiting g ON t.solo = 1 AND g.item_id = t.id
  LEFT JOIN pawl.parked_items p ON t.solo = 1 AND p.item_id = t.id
) x;

-- The codes of new events. SQLite cannot change a CHECK: the text of the table is replaced
-- in the schema. The rows that exist fit the new text too. The changes above tell other
-- connections to read the schema again.
-- generated: the codes of events
INSERT INTO pawl.moves (code, class, event, from_state, to_state, task_from, task_to)
VALUES
  (145, 'item', 'released', 'leased', 'scheduled', NULL, NULL),
  (146, 'only', 'released', 'leased', 'scheduled', NULL, NULL),
  (147, 'item', 'released', 'in_progress', 'scheduled', NULL, NULL),
  (148, 'only', 'released', 'in_progress', 'scheduled', NULL, NULL),
  (149, 'item', 'failed', 'scheduled', 'failed', NULL, NULL),
  (150, 'only', 'failed', 'scheduled', 'failed', 'open', 'failed');
-- end of what is generated
PRAGMA writable_schema = ON;
UPDATE sqlite_schema
SET sql = replace(sql, 'CHECK (move' || ' BETWEEN 1 AND 144)', 'CHECK (move BETWEEN 1 AND 150)')
WHERE type = 'table' AND name = 'pawl.task_events';
PRAGMA writable_schema = RESET;

-- Limits of queues.
ALTER TABLE pawl.queues ADD COLUMN limited INTEGER; -- 1: claims pass the queue's gates
CREATE INDEX pawl.queues_limited ON pawl.queues (namespace, type) WHERE limited IS NOT NULL;

-- Rules, rates and the state of gates of a queue with limits. A claim that counts the whole
-- queue locks the row.
CREATE TABLE pawl.queue_limits (
  queue_id   INTEGER PRIMARY KEY,
  namespace  TEXT NOT NULL,
  rules      TEXT NOT NULL,
  -- By the queue's rate, the time at which a start would be on time: see rate.go.
  next_start INTEGER NOT NULL DEFAULT 0,
  -- When the pointer was changed, and when the last search for items without a gate began.
  changed_at INTEGER NOT NULL,
  keyed_at   INTEGER NOT NULL DEFAULT 0,
  -- When the last search that has finished began: items in order wait for one after changed_at.
  searched_at INTEGER NOT NULL DEFAULT 0
) STRICT;

-- A gate stands for the items of a queue that have one value at a pointer. Its row is never
-- removed. Items and leases have the number. A lease holds a slot of its gate as long as its
-- row exists.
CREATE TABLE pawl.gates (
  id         INTEGER PRIMARY KEY,
  queue_id   INTEGER NOT NULL,
  namespace  TEXT NOT NULL,
  pointer    TEXT NOT NULL,
  key        TEXT NOT NULL,
  next_start INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE UNIQUE INDEX pawl.gates_by_key ON pawl.gates (queue_id, pointer, key);
CREATE INDEX pawl.ready_of_gate ON pawl.ready (queue_id, gate, rank, item_id) WHERE gate IS NOT NULL;
CREATE INDEX pawl.leases_of_gate ON pawl.leases (queue_id, gate, worker) WHERE gate IS NOT NULL;
CREATE INDEX pawl.scheduled_of_gate ON pawl.scheduled (gate) WHERE gate IS NOT NULL;
CREATE INDEX pawl.waiting_of_gate ON pawl.waiting (gate) WHERE gate IS NOT NULL;


-- Schedules. Migration 1 reserved a table that nothing has written. definition is the JSON
-- that was given. next_tick is the first tick that nothing has fired, NULL after the last.
-- next_at is when a server looks at the schedule: when the tick is due with its jitter, or
-- sooner if ticks are queued; NULL while it is paused or has nothing to do.
DROP TABLE pawl.schedules;
CREATE TABLE pawl.schedules (
  id           TEXT PRIMARY KEY,
  namespace    TEXT NOT NULL,
  name         TEXT NOT NULL,
  definition   TEXT NOT NULL,
  typed        INTEGER NOT NULL,
  version      INTEGER NOT NULL,
  next_tick    INTEGER,
  next_at      INTEGER,
  queued       INTEGER NOT NULL DEFAULT 0 CHECK (queued >= 0),
  last_tick    INTEGER,
  last_task_id BLOB,
  error        TEXT,
  error_at     INTEGER,
  paused_at    INTEGER,
  created_at   INTEGER NOT NULL,
  updated_at   INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX pawl.schedules_by_name ON pawl.schedules (namespace, name);
CREATE INDEX pawl.schedules_due ON pawl.schedules (next_at) WHERE next_at IS NOT NULL;

-- What became of each tick. open = 1: its task may not have ended. until: of missed ticks,
-- the tick after the last.
CREATE TABLE pawl.firings (
  schedule_id TEXT NOT NULL,
  tick        INTEGER NOT NULL,
  namespace   TEXT NOT NULL,
  outcome     TEXT NOT NULL CHECK (outcome IN ('created', 'deduplicated', 'queued', 'skipped', 'missed', 'failed')),
  manual      INTEGER NOT NULL DEFAULT 0,
  open        INTEGER NOT NULL DEFAULT 0,
  task_id     BLOB,
  until       INTEGER,
  error       TEXT,
  fired_at    INTEGER NOT NULL,
  PRIMARY KEY (schedule_id, tick)
) STRICT;
CREATE INDEX pawl.firings_open ON pawl.firings (schedule_id) WHERE open = 1;
CREATE INDEX pawl.firings_queued ON pawl.firings (schedule_id, tick) WHERE outcome = 'queued';
CREATE INDEX pawl.firings_old ON pawl.firings (fired_at);


-- Budgets. spent and reserved are those of the current period, which has the number
-- period_number and ends at period_end (NULL = never). for_type, for_key and for_task say
-- which items may reserve. changed_at is the time of the last change by an operator; it
-- names the signal that items of an exhausted budget wait for.
CREATE TABLE pawl.budgets (
  id            TEXT PRIMARY KEY,
  namespace     TEXT NOT NULL,
  name          TEXT NOT NULL,
  unit          TEXT NOT NULL,
  allowance     INTEGER NOT NULL CHECK (allowance > 0),
  for_type      TEXT,
  for_key       TEXT,
  for_task      BLOB,
  period        TEXT NOT NULL CHECK (period IN ('none', 'day', 'month')),
  on_exhausted  TEXT NOT NULL CHECK (on_exhausted IN ('fail', 'suspend', 'ask')),
  on_lost       TEXT NOT NULL CHECK (on_lost IN ('charge', 'return')),
  period_number INTEGER NOT NULL,
  period_start  INTEGER NOT NULL,
  period_end    INTEGER,
  spent         INTEGER NOT NULL CHECK (spent >= 0),
  reserved      INTEGER NOT NULL CHECK (reserved >= 0),
  created_at    INTEGER NOT NULL,
  changed_at    INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX pawl.budgets_by_name ON pawl.budgets (namespace, name);

-- What attempts have reserved. state 0 = open, 1 = settled, 2 = lost and charged, 3 = lost and
-- returned. charged is what counts as spent. item_id and task_id become NULL when the task is
-- deleted.
CREATE TABLE pawl.budget_reservations (
  id            TEXT PRIMARY KEY,
  namespace     TEXT NOT NULL,
  budget_id     TEXT NOT NULL,
  period_number INTEGER NOT NULL,
  item_id       BLOB,
  task_id       BLOB,
  attempt       INTEGER NOT NULL,
  key           TEXT NOT NULL,
  state         INTEGER NOT NULL CHECK (state BETWEEN 0 AND 3),
  amount        INTEGER NOT NULL CHECK (amount > 0),
  charged       INTEGER NOT NULL DEFAULT 0 CHECK (charged >= 0),
  agent         TEXT,
  model         TEXT,
  created_at    INTEGER NOT NULL,
  ended_at      INTEGER,
  CONSTRAINT budget_reservations_end CHECK ((state = 0) = (ended_at IS NULL))
) STRICT;
CREATE UNIQUE INDEX pawl.budget_reservations_by_key ON pawl.budget_reservations (budget_id, item_id, key);
CREATE INDEX pawl.budget_reservations_open ON pawl.budget_reservations (budget_id, id) WHERE state = 0;
CREATE INDEX pawl.budget_reservations_charged ON pawl.budget_reservations (budget_id, period_number) WHERE state = 2;
CREATE INDEX pawl.budget_reservations_spending ON pawl.budget_reservations (budget_id, period_number);
CREATE INDEX pawl.budget_reservations_of_task ON pawl.budget_reservations (task_id) WHERE task_id IS NOT NULL;
CREATE INDEX pawl.budget_reservations_ended ON pawl.budget_reservations (ended_at) WHERE ended_at IS NOT NULL;

-- What reservations spent that are no longer kept. agent and model are '' where they are not
-- known.
CREATE TABLE pawl.budget_totals (
  budget_id     TEXT NOT NULL,
  namespace     TEXT NOT NULL,
  period_number INTEGER NOT NULL,
  agent         TEXT NOT NULL,
  model         TEXT NOT NULL,
  charged       INTEGER NOT NULL,
  reservations  INTEGER NOT NULL,
  PRIMARY KEY (budget_id, period_number, agent, model)
) STRICT, WITHOUT ROWID;

-- How items of exhausted budgets ask a person: the latest task of each item that is to be approved.
-- amount and key are those of the refused reservation. rejected_at is the changed_at of the
-- budget when the task was rejected.
CREATE TABLE pawl.budget_questions (
  budget_id     TEXT NOT NULL,
  namespace     TEXT NOT NULL,
  item_id       BLOB NOT NULL,
  task_id       BLOB NOT NULL,
  period_number INTEGER NOT NULL,
  amount        INTEGER NOT NULL,
  key           TEXT NOT NULL,
  rejected_at   INTEGER,
  PRIMARY KEY (budget_id, item_id)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX pawl.budget_questions_of_task ON pawl.budget_questions (task_id);


-- Deadlines, timeouts and uniqueness.

-- Items show their deadline.
DROP VIEW pawl.all_items;
CREATE VIEW pawl.all_items AS
SELECT id, namespace, queue_id, task_id, type, kind, position, key, priority, max_attempts, run_at, after, input, parts_required, created_at, reasons, deadline
FROM pawl.items
UNION ALL
SELECT id, namespace, queue_id, id, CAST(COALESCE(item_type, type) AS TEXT), CAST('work' AS TEXT), CAST(0 AS INTEGER), CAST(NULL AS TEXT), CAST(COALESCE(item_priority, priority) AS INTEGER), max_attempts, run_at, CAST(NULL AS TEXT), input,
  parts_required, created_at, reasons, deadline
FROM pawl.tasks
WHERE solo = 1;

DROP VIEW pawl.item_rows;
CREATE VIEW pawl.item_rows AS
SELECT w.id, w.namespace, w.task_id, w.type, w.kind, w.position, w.key, w.priority, w.after, w.input, w.parts_required, w.created_at,
  CASE
    WHEN l.item_id IS NOT NULL THEN @state_name(l.state)
    WHEN e.item_id IS NOT NULL THEN @state_name(e.state)
    WHEN r.item_id IS NOT NULL OR b.item_id IS NOT NULL THEN 'queued'
    WHEN s.item_id IS NOT NULL THEN 'scheduled'
    WHEN g.item_id IS NOT NULL THEN 'waiting'
    ELSE @state_name(t.state)
  END AS state,
  COALESCE(l.attempt, e.attempt, r.attempt, b.attempt, s.attempt, g.attempt, t.attempt, 0) AS attempt,
  COALESCE(l.failures, e.failures, r.failures, b.failures, s.failures, g.failures, t.failures, 0) AS failures,
  w.max_attempts,
  COALESCE(l.rework, e.rework, r.rework, b.rework, s.rework, g.rework, t.rework, 0) AS rework,
  COALESCE(e.left_by, r.left_by, b.left_by, s.left_by, g.left_by, t.left_by) AS left_by,
  (SELECT a.name FROM pawl.actors a WHERE a.id = l.worker) AS worker_id,
  (SELECT a.name FROM pawl.actors a WHERE a.id = COALESCE(l.worker, e.worker, r.worker, b.worker, s.worker, g.worker, t.worker)) AS last_worker_id,
  COALESCE(l.worker, e.worker, r.worker, b.worker, s.worker, g.worker, t.worker) AS last_worker,
  l.lease_seconds,
  l.acquired_at AS lease_acquired_at,
  l.lease_expires_at,
  l.heartbeat_at,
  l.progress,
  COALESCE(l.stage, e.stage, t.stage) AS stage,
  COALESCE(e.result, t.result) AS result,
  COALESCE(e.assembled_result, t.assembled_result) AS assembled_result,
  COALESCE(l.error, e.error, r.error, b.error, s.error, g.error, t.error) AS error,
  COALESCE(s.run_at, g.until) AS run_at,
  g.signal,
  g.needs,
  COALESCE(l.started_at, e.started_at, r.started_at, b.started_at, s.started_at, g.started_at, t.started_at) AS started_at,
  COALESCE(e.accepted_at, t.accepted_at) AS accepted_at,
  COALESCE(e.ended_at, t.completed_at) AS completed_at,
  COALESCE(MAX(l.heartbeat_at, COALESCE(l.progressed_at, 0)), e.ended_at, r.since, b.since, s.since, g.since, t.since, w.created_at) AS updated_at,
  COALESCE(l.solo, r.solo, b.solo, s.solo, g.solo, t.solo) AS solo,
  w.deadline
FROM pawl.all_items w
LEFT JOIN pawl.leases l ON l.item_id = w.id
LEFT JOIN pawl.finished_items e ON e.item_id = w.id
LEFT JOIN pawl.ready r ON r.queue_id = w.queue_id AND r.rank = 1 - 2 * w.priority AND r.item_id = w.id
LEFT JOIN pawl.ready b ON b.queue_id = w.queue_id AND b.rank = -2 * w.priority AND b.item_id = w.id
LEFT JOIN pawl.scheduled s ON s.item_id = w.id
LEFT JOIN pawl.waiting g ON g.item_id = w.id
LEFT JOIN pawl.parked_items t ON t.item_id = w.id;

-- The deadlines that have not been handled yet. A row is removed when its time has come,
-- whatever the state of the item is then.
CREATE TABLE pawl.deadlines (
  item_id   BLOB PRIMARY KEY,
  namespace TEXT NOT NULL,
  task_id   BLOB NOT NULL,
  at        INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX pawl.deadlines_by_time ON pawl.deadlines (at, item_id);

-- The queued items that must be claimed in time.
CREATE INDEX pawl.ready_to_start ON pawl.ready ((since + schedule_to_start * CAST(1000000 AS bigint)), item_id) WHERE schedule_to_start IS NOT NULL;

-- What tasks were created to be alone with: a key of a type. Until until, or while the task has
-- not ended, no other task gets the key. Of a debounced task, until is the latest run_at.
CREATE TABLE pawl.uniques (
  namespace TEXT NOT NULL,
  type      TEXT NOT NULL,
  key       TEXT NOT NULL,
  task_id   BLOB NOT NULL,
  until     INTEGER NOT NULL,
  PRIMARY KEY (namespace, type, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX pawl.uniques_of_task ON pawl.uniques (task_id);

-- A fork refers to the blobs that the task refers to which it is made of.
CREATE INDEX pawl.blob_refs_of_task ON pawl.blob_refs (task_id);


-- Children.

-- Tasks that have children. The row is locked by what creates children. todo says what is to be
-- done with children that have not ended: 1 = cancel them, 2 = cancel and delete them.
CREATE TABLE pawl.parents (
  task_id   BLOB PRIMARY KEY,
  namespace TEXT NOT NULL,
  depth     INTEGER NOT NULL,
  children  INTEGER NOT NULL,
  todo      INTEGER NOT NULL DEFAULT 0 CHECK (todo BETWEEN 0 AND 2)
) STRICT, WITHOUT ROWID;
CREATE INDEX pawl.parents_todo ON pawl.parents (task_id) WHERE todo > 0;

-- Children and their parents. item_id and key are those of the item that spawned it. doomed = 1:
-- it is deleted with its parent, although it may have ended since.
CREATE TABLE pawl.child_links (
  child_id  BLOB PRIMARY KEY,
  namespace TEXT NOT NULL,
  parent_id BLOB NOT NULL,
  item_id   BLOB,
  key       TEXT,
  depth     INTEGER NOT NULL,
  doomed    INTEGER NOT NULL DEFAULT 0 CHECK (doomed IN (0, 1))
) STRICT, WITHOUT ROWID;
CREATE INDEX pawl.child_links_of_parent ON pawl.child_links (parent_id, child_id);
CREATE UNIQUE INDEX pawl.child_links_by_key ON pawl.child_links (parent_id, key) WHERE key IS NOT NULL;
CREATE INDEX pawl.child_links_doomed ON pawl.child_links (parent_id, child_id) WHERE doomed = 1;
CREATE INDEX pawl.tasks_by_parent ON pawl.tasks (parent_id, id) WHERE parent_id IS NOT NULL;

-- The last wait of an item for children, in which the attempt ended. An item that is not in
-- waiting after this attempt has left the wait. Of total children, ended have ended, of which
-- failed did not complete. over = 1: the item waits no more.
CREATE TABLE pawl.child_waits (
  item_id    BLOB PRIMARY KEY,
  namespace  TEXT NOT NULL,
  task_id    BLOB NOT NULL,
  attempt    INTEGER NOT NULL,
  name       TEXT,
  need       INTEGER NOT NULL,
  on_failure TEXT NOT NULL CHECK (on_failure IN ('fail', 'continue', 'cancel')),
  total      INTEGER NOT NULL,
  ended      INTEGER NOT NULL,
  failed     INTEGER NOT NULL,
  over       INTEGER NOT NULL DEFAULT 0 CHECK (over IN (0, 1)),
  CONSTRAINT child_waits_counts CHECK (failed <= ended AND ended <= total)
) STRICT, WITHOUT ROWID;
CREATE INDEX pawl.child_waits_open ON pawl.child_waits (item_id) WHERE over = 0;

-- The children of a wait. state is NULL until the child has ended.
CREATE TABLE pawl.awaited_children (
  child_id BLOB NOT NULL,
  item_id  BLOB NOT NULL,
  state    TEXT,
  error    TEXT,
  PRIMARY KEY (child_id, item_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX pawl.awaited_children_of_item ON pawl.awaited_children (item_id, child_id);
CREATE INDEX pawl.awaited_children_open ON pawl.awaited_children (item_id, child_id) WHERE state IS NULL;

-- Children that are to be cancelled, because a wait of the item ended with on_failure = cancel.
CREATE TABLE pawl.child_cancels (
  item_id   BLOB NOT NULL,
  child_id  BLOB NOT NULL,
  namespace TEXT NOT NULL,
  task_id   BLOB NOT NULL,
  PRIMARY KEY (item_id, child_id)
) STRICT, WITHOUT ROWID;

-- Bulk calls are tasks of a type of their own, which engines look for in all namespaces.
CREATE INDEX pawl.queues_by_type ON pawl.queues (type);


-- Webhooks that are received, and signals.
-- Signals that were sent are removed by age, those of budgets sooner.
CREATE INDEX pawl.old_signals ON pawl.signals (sent_at) WHERE sent_at IS NOT NULL;
CREATE INDEX pawl.old_signals_of_name ON pawl.signals (name, sent_at) WHERE sent_at IS NOT NULL;
