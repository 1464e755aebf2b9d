-- oldest: 1
-- +goose Up
-- Everything a task, its items and its record are kept in. Times are
-- microseconds since 1970 UTC; ids are a prefix and a ULID, never a colon.
-- The wide rows (tasks, items) are written once. Where an item is, is the
-- narrow table its row is in: ready, scheduled, waiting, leases, parked_items, finished_items.
-- No foreign keys and no triggers on the hot tables: a row lock on the task for
-- every item halves a create; `doctor` looks for orphans instead.
-- A CHECK searches a text of [words]: for IN and a list of more than two, SQLite
-- builds a table each time a row is written, which was two thirds of an event.

-- Names of actors and workers. Other tables have the number; statements look it up.
-- Rows are never changed and never removed. Number 0 is the actor system.
CREATE TABLE pawl.actors (
  id   INTEGER PRIMARY KEY,
  kind TEXT NOT NULL CHECK (kind IN ('user', 'agent', 'worker', 'system', 'api')),
  name TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX pawl.actors_by_name ON pawl.actors (kind, name);
INSERT INTO pawl.actors (id, kind, name) VALUES (0, 'system', '');

-- Every type in every namespace that has or had items. Other tables have the number.
-- Names and numbers are never changed, and rows never removed.
CREATE TABLE pawl.queues (
  id        INTEGER PRIMARY KEY,
  namespace TEXT NOT NULL CHECK (namespace <> ''),
  type      TEXT NOT NULL CHECK (length(type) BETWEEN 1 AND 120),
  -- Since when nothing is claimed from it; NULL = it is not paused.
  paused_at INTEGER
) STRICT;
CREATE UNIQUE INDEX pawl.queues_by_name ON pawl.queues (namespace, type);
CREATE INDEX pawl.queues_by_number ON pawl.queues (namespace, id);
CREATE INDEX pawl.queues_paused ON pawl.queues (namespace, type) WHERE paused_at IS NOT NULL;

-- The namespaces from which nothing is claimed, with the time since when.
CREATE TABLE pawl.paused_namespaces (
  namespace TEXT PRIMARY KEY,
  paused_at INTEGER NOT NULL
) STRICT;

-- A large value is among the last columns of its table: SQLite reads all of its pages to get
-- at a column behind it.
CREATE TABLE pawl.tasks (
  id                BLOB PRIMARY KEY,
  namespace         TEXT NOT NULL CHECK (namespace <> ''),
  type              TEXT NOT NULL CHECK (length(type) BETWEEN 1 AND 120),
  type_version      INTEGER NOT NULL DEFAULT 0,
  solo              INTEGER NOT NULL CHECK (solo IN (0, 1)),
  title             TEXT,
  priority          INTEGER NOT NULL DEFAULT 0,
  metadata          TEXT NOT NULL DEFAULT '{}',
  requested_by_type TEXT,
  requested_by_id   TEXT,
  input_hash        TEXT,
  dedupes           INTEGER NOT NULL DEFAULT 0 CHECK (dedupes IN (0, 1)),
  thread            TEXT,
  trace_parent      TEXT,
  created_at        INTEGER NOT NULL,
  -- Of a task of one item (solo = 1), what items has of the items of other tasks: this row
  -- is its item too. NULL or 0 in all other tasks.
  queue_id          INTEGER,
  max_attempts      INTEGER NOT NULL DEFAULT 0,
  run_at            INTEGER,
  item_type         TEXT,    -- NULL = the task's
  item_priority     INTEGER, -- NULL = the task's
  parts_required    TEXT,
  reasons           TEXT,
  payload           TEXT,
  input             TEXT
) STRICT;
CREATE UNIQUE INDEX pawl.tasks_one_per_input ON pawl.tasks (namespace, type, input_hash) WHERE dedupes = 1;
CREATE INDEX pawl.tasks_of_namespace ON pawl.tasks (namespace, id);
CREATE INDEX pawl.tasks_by_requester ON pawl.tasks (namespace, requested_by_id, id) WHERE requested_by_id IS NOT NULL;
CREATE INDEX pawl.tasks_by_input ON pawl.tasks (namespace, input_hash, id) WHERE input_hash IS NOT NULL;
CREATE INDEX pawl.tasks_by_priority ON pawl.tasks (namespace, priority, id) WHERE priority <> 0;

-- Counters and decisions of a task. A task of one item has no row until it has
-- a checkpoint, a retry, a burial or a decision; until then its item's place is
-- its state, and its version is read off it.
CREATE TABLE pawl.task_counters (
  task_id            BLOB PRIMARY KEY,
  namespace          TEXT NOT NULL,
  state              TEXT NOT NULL DEFAULT 'open' CHECK (instr('[open][submitted][approved][applied][completed][rejected][failed][dead_lettered][cancelled]', '[' || state || ']') > 0),
  version            INTEGER NOT NULL DEFAULT 0,
  items              INTEGER NOT NULL DEFAULT 1,
  open               INTEGER NOT NULL DEFAULT 1 CHECK (open >= 0),
  failed             INTEGER NOT NULL DEFAULT 0 CHECK (failed >= 0),
  dead               INTEGER NOT NULL DEFAULT 0 CHECK (dead >= 0),
  cancelled          INTEGER NOT NULL DEFAULT 0 CHECK (cancelled >= 0),
  checkpoints        INTEGER NOT NULL DEFAULT 0,
  pruned             INTEGER NOT NULL DEFAULT 0,
  failed_in          TEXT,
  error              TEXT,
  ready_for_approval INTEGER NOT NULL DEFAULT 0,
  applied_at         INTEGER,
  completed_at       INTEGER,
  updated_at         INTEGER,
  -- 1: the engine has to look whether the task is ready for approval, can be approved by
  -- rule, or is to be applied.
  todo               INTEGER NOT NULL DEFAULT 0,
  -- Until when somebody is to decide.
  decide_by          INTEGER,
  -- Positions handed out to items, which may not be inserted yet. While it is less than
  -- items, no items have been added.
  positions          INTEGER NOT NULL DEFAULT 0,
  -- A task that is being planned has its plan item alone, which is not counted.
  planning           INTEGER NOT NULL DEFAULT 0,
  -- The type says that failed items do not count when the task settles.
  ignores_failures   INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE INDEX pawl.task_counters_todo ON pawl.task_counters (task_id) WHERE todo = 1;
CREATE INDEX pawl.task_counters_decide_by ON pawl.task_counters (decide_by) WHERE decide_by IS NOT NULL;
CREATE INDEX pawl.task_counters_failing ON pawl.task_counters (task_id) WHERE state = 'open' AND failed > 0;
CREATE INDEX pawl.task_counters_by_state ON pawl.task_counters (state, task_id) WHERE state <> 'completed';

-- The items of tasks of many, and all items that plan and apply. all_items has every item.
CREATE TABLE pawl.items (
  id             BLOB PRIMARY KEY,
  namespace      TEXT NOT NULL,
  queue_id       INTEGER NOT NULL,
  task_id        BLOB NOT NULL,
  type           TEXT NOT NULL CHECK (length(type) BETWEEN 1 AND 120),
  kind           TEXT NOT NULL DEFAULT 'work' CHECK (instr('[work][plan][apply]', '[' || kind || ']') > 0),
  position       INTEGER NOT NULL,
  key            TEXT,
  priority       INTEGER NOT NULL,
  max_attempts   INTEGER NOT NULL CHECK (max_attempts >= 1),
  run_at         INTEGER,
  after          TEXT,
  parts_required TEXT,
  created_at     INTEGER NOT NULL,
  -- Why the item was last sent back for rework, as JSON. A later failure does not change it.
  reasons        TEXT,
  input          TEXT NOT NULL
) STRICT;
CREATE INDEX pawl.items_of_task ON pawl.items (task_id, position);

-- needs_id must complete before item_id may run. Written with the items.
CREATE TABLE pawl.item_deps (
  needs_id BLOB NOT NULL,
  item_id  BLOB NOT NULL,
  PRIMARY KEY (needs_id, item_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX pawl.item_deps_of_item ON pawl.item_deps (item_id);

-- Claimable, in claim order. rank = -2 * priority, + 1 when fresh: what comes
-- back goes before what is new. Inserted and deleted, never updated.
CREATE TABLE pawl.ready (
  queue_id     INTEGER NOT NULL,
  rank         INTEGER NOT NULL,
  item_id      BLOB NOT NULL,
  task_id      BLOB NOT NULL,
  attempt      INTEGER NOT NULL DEFAULT 0,
  failures     INTEGER NOT NULL DEFAULT 0,
  max_attempts INTEGER NOT NULL,
  solo         INTEGER NOT NULL,
  feeds        INTEGER NOT NULL DEFAULT 0,
  acceptance   INTEGER NOT NULL DEFAULT 0,
  rework       INTEGER NOT NULL DEFAULT 0,
  spared       INTEGER NOT NULL DEFAULT 0,
  left_by      TEXT,
  worker       INTEGER,
  started_at   INTEGER,
  since        INTEGER,
  error        TEXT,
  PRIMARY KEY (queue_id, rank, item_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX pawl.ready_failures ON pawl.ready (task_id) WHERE failures > 0;

CREATE TABLE pawl.scheduled (
  item_id      BLOB PRIMARY KEY,
  queue_id     INTEGER NOT NULL,
  task_id      BLOB NOT NULL,
  priority     INTEGER NOT NULL,
  run_at       INTEGER NOT NULL,
  attempt      INTEGER NOT NULL DEFAULT 0,
  failures     INTEGER NOT NULL DEFAULT 0,
  max_attempts INTEGER NOT NULL,
  solo         INTEGER NOT NULL,
  feeds        INTEGER NOT NULL DEFAULT 0,
  acceptance   INTEGER NOT NULL DEFAULT 0,
  rework       INTEGER NOT NULL DEFAULT 0,
  spared       INTEGER NOT NULL DEFAULT 0,
  left_by      TEXT,
  worker       INTEGER,
  started_at   INTEGER,
  since        INTEGER,
  error        TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX pawl.scheduled_due ON pawl.scheduled (run_at);
CREATE INDEX pawl.scheduled_failures ON pawl.scheduled (task_id) WHERE failures > 0;
CREATE INDEX pawl.scheduled_of_task ON pawl.scheduled (task_id);

CREATE TABLE pawl.waiting (
  item_id      BLOB PRIMARY KEY,
  queue_id     INTEGER NOT NULL,
  task_id      BLOB NOT NULL,
  priority     INTEGER NOT NULL,
  until        INTEGER,
  signal       TEXT,
  signal_key   TEXT,
  needs        INTEGER NOT NULL DEFAULT 0,
  broken       INTEGER NOT NULL DEFAULT 0,
  attempt      INTEGER NOT NULL DEFAULT 0,
  failures     INTEGER NOT NULL DEFAULT 0,
  max_attempts INTEGER NOT NULL,
  solo         INTEGER NOT NULL,
  feeds        INTEGER NOT NULL DEFAULT 0,
  acceptance   INTEGER NOT NULL DEFAULT 0,
  rework       INTEGER NOT NULL DEFAULT 0,
  spared       INTEGER NOT NULL DEFAULT 0,
  left_by      TEXT,
  worker       INTEGER,
  started_at   INTEGER,
  since        INTEGER,
  error        TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX pawl.waiting_ready ON pawl.waiting (item_id) WHERE needs = 0 AND until IS NULL AND signal IS NULL;
CREATE INDEX pawl.waiting_broken ON pawl.waiting (item_id) WHERE broken > 0;
CREATE INDEX pawl.waiting_signal ON pawl.waiting (signal, COALESCE(signal_key, ''), item_id) WHERE signal IS NOT NULL;
CREATE INDEX pawl.waiting_failures ON pawl.waiting (task_id) WHERE failures > 0;
CREATE INDEX pawl.waiting_of_task ON pawl.waiting (task_id);
CREATE INDEX pawl.waiting_until ON pawl.waiting (until) WHERE until IS NOT NULL AND needs = 0;

-- Held by a worker. The fence: (worker, attempt) and lease_expires_at.
CREATE TABLE pawl.leases (
  item_id          BLOB PRIMARY KEY,
  namespace        TEXT NOT NULL,
  queue_id         INTEGER NOT NULL,
  task_id          BLOB NOT NULL,
  priority         INTEGER NOT NULL,
  state            INTEGER NOT NULL CHECK (state BETWEEN 4 AND 5),
  attempt          INTEGER NOT NULL,
  failures         INTEGER NOT NULL,
  max_attempts     INTEGER NOT NULL,
  solo             INTEGER NOT NULL,
  feeds            INTEGER NOT NULL,
  acceptance       INTEGER NOT NULL,
  rework           INTEGER NOT NULL,
  spared           INTEGER NOT NULL,
  prefetch         INTEGER NOT NULL,
  worker           INTEGER NOT NULL,
  lease_seconds    INTEGER NOT NULL CHECK (lease_seconds BETWEEN 1 AND 86400),
  started_at       INTEGER NOT NULL,
  acquired_at      INTEGER NOT NULL,
  heartbeat_at     INTEGER NOT NULL,
  lease_expires_at INTEGER NOT NULL,
  progress         INTEGER CHECK (progress BETWEEN 0 AND 100),
  stage            TEXT,
  progressed_at    INTEGER,
  error            TEXT,
  -- The API key that claimed it; NULL without keys.
  key_id           TEXT,
  -- The messages of the item that were stopped, for its holder to learn.
  stopped          TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX pawl.leases_failures ON pawl.leases (task_id) WHERE failures > 0;

-- Out of work, not at an end: an operator or an approver may move it on.
CREATE TABLE pawl.parked_items (
  item_id          BLOB PRIMARY KEY,
  queue_id         INTEGER NOT NULL,
  task_id          BLOB NOT NULL,
  priority         INTEGER NOT NULL,
  state            INTEGER NOT NULL CHECK (state BETWEEN 6 AND 7 OR state BETWEEN 10 AND 11),
  attempt          INTEGER NOT NULL,
  failures         INTEGER NOT NULL,
  max_attempts     INTEGER NOT NULL,
  solo             INTEGER NOT NULL,
  feeds            INTEGER NOT NULL DEFAULT 0,
  acceptance       INTEGER NOT NULL DEFAULT 0,
  rework           INTEGER NOT NULL DEFAULT 0,
  spared           INTEGER NOT NULL DEFAULT 0,
  left_by          TEXT,
  worker           INTEGER,
  started_at       INTEGER,
  since            INTEGER NOT NULL,
  completed_at     INTEGER,
  accepted_at      INTEGER,
  progress         INTEGER,
  stage            TEXT,
  evidence         TEXT,
  notes            TEXT,
  error            TEXT,
  result           TEXT,
  assembled_result TEXT
) STRICT;
CREATE INDEX pawl.parked_items_by_state ON pawl.parked_items (state, since);
CREATE INDEX pawl.parked_items_for_others ON pawl.parked_items (item_id) WHERE state = @state(failed) AND left_by = 'dependency';
CREATE INDEX pawl.parked_items_failures ON pawl.parked_items (task_id) WHERE failures > 0;
CREATE INDEX pawl.parked_items_errors ON pawl.parked_items (task_id, since) WHERE error IS NOT NULL;

-- Ends. Insert only.
CREATE TABLE pawl.finished_items (
  item_id          BLOB PRIMARY KEY,
  queue_id         INTEGER NOT NULL,
  task_id          BLOB NOT NULL,
  state            INTEGER NOT NULL CHECK (state BETWEEN 8 AND 9 OR state = 12),
  attempt          INTEGER NOT NULL,
  failures         INTEGER NOT NULL,
  rework           INTEGER NOT NULL DEFAULT 0,
  left_by          TEXT,
  worker           INTEGER,
  started_at       INTEGER,
  ended_at         INTEGER NOT NULL,
  accepted_at      INTEGER,
  stage            TEXT,
  error            TEXT,
  result           TEXT,
  assembled_result TEXT
) STRICT;
CREATE INDEX pawl.finished_items_failures ON pawl.finished_items (task_id) WHERE failures > 0;
CREATE INDEX pawl.finished_items_not_completed ON pawl.finished_items (state, task_id) WHERE state <> @state(completed);

CREATE TABLE pawl.item_parts (
  id                   TEXT PRIMARY KEY,
  namespace            TEXT NOT NULL,
  item_id              BLOB NOT NULL,
  part_key             TEXT NOT NULL CHECK (length(part_key) BETWEEN 1 AND 120),
  seq                  INTEGER CHECK (seq >= 0),
  status               TEXT NOT NULL DEFAULT 'draft' CHECK (instr('[draft][validated][rejected]', '[' || status || ']') > 0),
  evidence             TEXT,
  notes                TEXT,
  errors               TEXT,
  checksum             TEXT,
  worker_id            TEXT NOT NULL,
  attempt              INTEGER NOT NULL,
  idempotency_key_hash TEXT,
  created_at           INTEGER NOT NULL,
  superseded_at        INTEGER,
  payload              TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX pawl.item_parts_live ON pawl.item_parts (item_id, part_key, COALESCE(seq, -1)) WHERE superseded_at IS NULL;
CREATE INDEX pawl.item_parts_by_status ON pawl.item_parts (item_id, status);

CREATE TABLE pawl.checkpoints (
  id         TEXT PRIMARY KEY,
  namespace  TEXT NOT NULL,
  task_id    BLOB NOT NULL,
  item_id    BLOB,
  attempt    INTEGER,
  seq        INTEGER NOT NULL CHECK (seq >= 1),
  type       TEXT NOT NULL CHECK (instr('[iteration_start][iteration_end][tool_executed][llm_response][approval_point][state_transition][manual_checkpoint][error_boundary][custom]', '[' || type || ']') > 0),
  name       TEXT,
  args_hash  TEXT,
  message_id TEXT,
  snapshot   TEXT,
  metadata   TEXT,
  said       TEXT,
  blob       BLOB,
  created_at INTEGER NOT NULL,
  CHECK (snapshot IS NOT NULL OR said IS NOT NULL OR blob IS NOT NULL)
) STRICT;
CREATE INDEX pawl.checkpoints_of_blob ON pawl.checkpoints (blob) WHERE blob IS NOT NULL;
CREATE UNIQUE INDEX pawl.checkpoints_in_order ON pawl.checkpoints (task_id, seq);
CREATE INDEX pawl.checkpoints_of_item ON pawl.checkpoints (item_id, seq) WHERE item_id IS NOT NULL;
CREATE INDEX pawl.checkpoints_of_namespace ON pawl.checkpoints (namespace, id);

CREATE TABLE pawl.blobs (
  namespace TEXT NOT NULL,
  address   BLOB NOT NULL,
  base      BLOB,
  depth     INTEGER NOT NULL,
  chain     INTEGER NOT NULL,
  size      INTEGER NOT NULL,
  used_at   INTEGER NOT NULL,
  body      BLOB NOT NULL, -- last: the other columns are read without it
  PRIMARY KEY (namespace, address)
) STRICT;
CREATE INDEX pawl.blobs_by_base ON pawl.blobs (namespace, base) WHERE base IS NOT NULL;

-- Bytes that callers upload. An upload is the stored object, with a key of its own; an
-- uploaded blob is what readers find by its address, the SHA-256 of all bytes. State 0 = it
-- is being written, 1 = stored, 2 = being removed.
CREATE TABLE pawl.uploads (
  id        TEXT PRIMARY KEY,
  namespace TEXT NOT NULL,
  place     TEXT NOT NULL,
  size      INTEGER NOT NULL,
  state     INTEGER NOT NULL,
  used_at   INTEGER NOT NULL,
  CONSTRAINT uploads_state CHECK (state BETWEEN 0 AND 2)
) STRICT;
CREATE INDEX pawl.uploads_to_remove ON pawl.uploads (used_at) WHERE state <> 1;
CREATE INDEX pawl.uploads_by_place ON pawl.uploads (place) WHERE place <> '';

CREATE TABLE pawl.upload_pieces (
  upload_id TEXT NOT NULL REFERENCES pawl.uploads (id) ON DELETE CASCADE,
  number    INTEGER NOT NULL,
  body      BLOB NOT NULL,
  PRIMARY KEY (upload_id, number)
) STRICT;

CREATE TABLE pawl.uploaded_blobs (
  namespace TEXT NOT NULL,
  address   BLOB NOT NULL,
  upload_id TEXT NOT NULL,
  used_at   INTEGER NOT NULL,
  PRIMARY KEY (namespace, address)
) STRICT;
CREATE UNIQUE INDEX pawl.uploaded_blobs_of_upload ON pawl.uploaded_blobs (upload_id);

-- Tasks whose values refer to an uploaded blob. A row is written before the value, and
-- removed with the blob when neither the task nor its archive exists any more.
CREATE TABLE pawl.blob_refs (
  namespace  TEXT NOT NULL,
  address    BLOB NOT NULL,
  task_id    BLOB NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (namespace, address, task_id)
) STRICT, WITHOUT ROWID;

-- What an event may say: its name, whose it is (a task's, an item's, or that of an item
-- that was then the only one of its task) and the states that it changed. Each has a number
-- for ever, and an event stores that number.
CREATE TABLE pawl.moves (
  code       INTEGER PRIMARY KEY,
  class      TEXT NOT NULL CHECK (class IN ('task', 'item', 'only')),
  event      TEXT NOT NULL,
  from_state TEXT,
  to_state   TEXT,
  task_from  TEXT,
  task_to    TEXT
) STRICT;
-- generated: the codes of events
INSERT INTO pawl.moves (code, class, event, from_state, to_state, task_from, task_to)
VALUES
  (1, 'task', 'proposed', NULL, 'open', NULL, NULL),
  (2, 'task', 'submitted', 'open', 'submitted', NULL, NULL),
  (3, 'task', 'completed', 'open', 'completed', NULL, NULL),
  (4, 'task', 'failed', 'open', 'failed', NULL, NULL),
  (5, 'task', 'dead_lettered', 'open', 'dead_lettered', NULL, NULL),
  (6, 'task', 'cancelled', 'open', 'cancelled', NULL, NULL),
  (7, 'task', 'failed', 'submitted', 'failed', NULL, NULL),
  (8, 'task', 'dead_lettered', 'submitted', 'dead_lettered', NULL, NULL),
  (9, 'task', 'cancelled', 'submitted', 'cancelled', NULL, NULL),
  (10, 'task', 'submitted', 'failed', 'submitted', NULL, NULL),
  (11, 'task', 'completed', 'failed', 'completed', NULL, NULL),
  (12, 'task', 'dead_lettered', 'failed', 'dead_lettered', NULL, NULL),
  (13, 'task', 'cancelled', 'failed', 'cancelled', NULL, NULL),
  (14, 'task', 'submitted', 'dead_lettered', 'submitted', NULL, NULL),
  (15, 'task', 'completed', 'dead_lettered', 'completed', NULL, NULL),
  (16, 'task', 'cancelled', 'dead_lettered', 'cancelled', NULL, NULL),
  (17, 'task', 'approved', 'submitted', 'approved', NULL, NULL),
  (18, 'task', 'rejected', 'submitted', 'rejected', NULL, NULL),
  (19, 'task', 'rejected', 'submitted', 'open', NULL, NULL),
  (20, 'task', 'applied', 'approved', 'applied', NULL, NULL),
  (21, 'task', 'failed', 'approved', 'failed', NULL, NULL),
  (22, 'task', 'completed', 'applied', 'completed', NULL, NULL),
  (23, 'task', 'retried', 'failed', 'open', NULL, NULL),
  (24, 'task', 'retried', 'failed', 'approved', NULL, NULL),
  (25, 'task', 'retried', 'dead_lettered', 'open', NULL, NULL),
  (26, 'task', 'retried', 'dead_lettered', 'approved', NULL, NULL),
  (27, 'task', 'cancelled', 'approved', 'cancelled', NULL, NULL),
  (28, 'item', 'planned', NULL, 'queued', NULL, NULL),
  (29, 'only', 'proposed', NULL, 'queued', NULL, 'open'),
  (30, 'item', 'planned', NULL, 'scheduled', NULL, NULL),
  (31, 'only', 'proposed', NULL, 'scheduled', NULL, 'open'),
  (32, 'item', 'planned', NULL, 'waiting', NULL, NULL),
  (33, 'only', 'proposed', NULL, 'waiting', NULL, 'open'),
  (34, 'item', 'due', 'scheduled', 'queued', NULL, NULL),
  (35, 'only', 'due', 'scheduled', 'queued', NULL, NULL),
  (36, 'item', 'ready', 'waiting', 'queued', NULL, NULL),
  (37, 'only', 'ready', 'waiting', 'queued', NULL, NULL),
  (38, 'item', 'leased', 'queued', 'leased', NULL, NULL),
  (39, 'only', 'leased', 'queued', 'leased', NULL, NULL),
  (40, 'item', 'in_progress', 'leased', 'in_progress', NULL, NULL),
  (41, 'only', 'in_progress', 'leased', 'in_progress', NULL, NULL),
  (42, 'item', 'completed', 'leased', 'completed', NULL, NULL),
  (43, 'only', 'completed', 'leased', 'completed', 'open', 'completed'),
  (44, 'item', 'completed', 'in_progress', 'completed', NULL, NULL),
  (45, 'only', 'completed', 'in_progress', 'completed', 'open', 'completed'),
  (46, 'item', 'submitted', 'leased', 'submitted', NULL, NULL),
  (47, 'only', 'submitted', 'leased', 'submitted', 'open', 'submitted'),
  (48, 'item', 'submitted', 'in_progress', 'submitted', NULL, NULL),
  (49, 'only', 'submitted', 'in_progress', 'submitted', 'open', 'submitted'),
  (50, 'item', 'failed', 'leased', 'scheduled', NULL, NULL),
  (51, 'only', 'failed', 'leased', 'scheduled', NULL, NULL),
  (52, 'item', 'failed', 'leased', 'queued', NULL, NULL),
  (53, 'only', 'failed', 'leased', 'queued', NULL, NULL),
  (54, 'item', 'failed', 'leased', 'failed', NULL, NULL),
  (55, 'only', 'failed', 'leased', 'failed', 'open', 'failed'),
  (56, 'item', 'failed', 'in_progress', 'scheduled', NULL, NULL),
  (57, 'only', 'failed', 'in_progress', 'scheduled', NULL, NULL),
  (58, 'item', 'failed', 'in_progress', 'queued', NULL, NULL),
  (59, 'only', 'failed', 'in_progress', 'queued', NULL, NULL),
  (60, 'item', 'failed', 'in_progress', 'failed', NULL, NULL),
  (61, 'only', 'failed', 'in_progress', 'failed', 'open', 'failed'),
  (62, 'item', 'lease_expired', 'leased', 'queued', NULL, NULL),
  (63, 'only', 'lease_expired', 'leased', 'queued', NULL, NULL),
  (64, 'item', 'lease_expired', 'leased', 'failed', NULL, NULL),
  (65, 'only', 'lease_expired', 'leased', 'failed', 'open', 'failed'),
  (66, 'item', 'lease_expired', 'in_progress', 'queued', NULL, NULL),
  (67, 'only', 'lease_expired', 'in_progress', 'queued', NULL, NULL),
  (68, 'item', 'lease_expired', 'in_progress', 'failed', NULL, NULL),
  (69, 'only', 'lease_expired', 'in_progress', 'failed', 'open', 'failed'),
  (70, 'item', 'released', 'leased', 'queued', NULL, NULL),
  (71, 'only', 'released', 'leased', 'queued', NULL, NULL),
  (72, 'item', 'released', 'in_progress', 'queued', NULL, NULL),
  (73, 'only', 'released', 'in_progress', 'queued', NULL, NULL),
  (74, 'item', 'lease_revoked', 'leased', 'queued', NULL, NULL),
  (75, 'only', 'lease_revoked', 'leased', 'queued', NULL, NULL),
  (76, 'item', 'lease_revoked', 'in_progress', 'queued', NULL, NULL),
  (77, 'only', 'lease_revoked', 'in_progress', 'queued', NULL, NULL),
  (78, 'item', 'suspended', 'leased', 'waiting', NULL, NULL),
  (79, 'only', 'suspended', 'leased', 'waiting', NULL, NULL),
  (80, 'item', 'suspended', 'in_progress', 'waiting', NULL, NULL),
  (81, 'only', 'suspended', 'in_progress', 'waiting', NULL, NULL),
  (82, 'item', 'accepted', 'submitted', 'accepted', NULL, NULL),
  (83, 'only', 'accepted', 'submitted', 'accepted', NULL, NULL),
  (84, 'item', 'completed', 'accepted', 'completed', NULL, NULL),
  (85, 'only', 'completed', 'accepted', 'completed', NULL, NULL),
  (86, 'item', 'rejected', 'submitted', 'rejected', NULL, NULL),
  (87, 'only', 'rejected', 'submitted', 'rejected', NULL, NULL),
  (88, 'item', 'rejected', 'submitted', 'queued', NULL, NULL),
  (89, 'only', 'rejected', 'submitted', 'queued', NULL, NULL),
  (90, 'item', 'failed', 'waiting', 'failed', NULL, NULL),
  (91, 'only', 'failed', 'waiting', 'failed', 'open', 'failed'),
  (92, 'item', 'cancelled', 'waiting', 'cancelled', NULL, NULL),
  (93, 'only', 'cancelled', 'waiting', 'cancelled', 'open', 'cancelled'),
  (94, 'item', 'failed', 'queued', 'failed', NULL, NULL),
  (95, 'only', 'failed', 'queued', 'failed', 'open', 'failed'),
  (96, 'item', 'retried', 'failed', 'queued', NULL, NULL),
  (97, 'only', 'retried', 'failed', 'queued', 'failed', 'open'),
  (98, 'item', 'retried', 'dead_lettered', 'queued', NULL, NULL),
  (99, 'only', 'retried', 'dead_lettered', 'queued', 'dead_lettered', 'open'),
  (100, 'item', 'dead_lettered', 'failed', 'dead_lettered', NULL, NULL),
  (101, 'only', 'dead_lettered', 'failed', 'dead_lettered', 'failed', 'dead_lettered'),
  (102, 'item', 'cancelled', 'scheduled', 'cancelled', NULL, NULL),
  (103, 'only', 'cancelled', 'scheduled', 'cancelled', 'open', 'cancelled'),
  (104, 'item', 'cancelled', 'queued', 'cancelled', NULL, NULL),
  (105, 'only', 'cancelled', 'queued', 'cancelled', 'open', 'cancelled'),
  (106, 'item', 'cancelled', 'leased', 'cancelled', NULL, NULL),
  (107, 'only', 'cancelled', 'leased', 'cancelled', 'open', 'cancelled'),
  (108, 'item', 'cancelled', 'in_progress', 'cancelled', NULL, NULL),
  (109, 'only', 'cancelled', 'in_progress', 'cancelled', 'open', 'cancelled'),
  (110, 'item', 'cancelled', 'submitted', 'cancelled', NULL, NULL),
  (111, 'only', 'cancelled', 'submitted', 'cancelled', 'submitted', 'cancelled'),
  (112, 'item', 'cancelled', 'accepted', 'cancelled', NULL, NULL),
  (113, 'only', 'cancelled', 'accepted', 'cancelled', 'approved', 'cancelled'),
  (114, 'only', 'cancelled', 'accepted', 'cancelled', 'failed', 'cancelled'),
  (115, 'only', 'cancelled', 'accepted', 'cancelled', 'dead_lettered', 'cancelled'),
  (116, 'item', 'cancelled', 'failed', 'cancelled', NULL, NULL),
  (117, 'only', 'cancelled', 'failed', 'cancelled', 'failed', 'cancelled'),
  (118, 'item', 'cancelled', 'dead_lettered', 'cancelled', NULL, NULL),
  (119, 'only', 'cancelled', 'dead_lettered', 'cancelled', 'dead_lettered', 'cancelled'),
  (120, 'item', 'progressed', NULL, NULL, NULL, NULL),
  (121, 'only', 'progressed', NULL, NULL, NULL, NULL),
  (122, 'task', 'checkpointed', NULL, NULL, NULL, NULL),
  (123, 'item', 'checkpointed', NULL, NULL, NULL, NULL),
  (124, 'only', 'checkpointed', NULL, NULL, NULL, NULL),
  (125, 'item', 'part_submitted', NULL, NULL, NULL, NULL),
  (126, 'only', 'part_submitted', NULL, NULL, NULL, NULL),
  (127, 'item', 'part_rejected', NULL, NULL, NULL, NULL),
  (128, 'only', 'part_rejected', NULL, NULL, NULL, NULL),
  (129, 'task', 'ready_for_approval', NULL, NULL, NULL, NULL),
  (130, 'task', 'updated', NULL, NULL, NULL, NULL),
  (131, 'item', 'updated', NULL, NULL, NULL, NULL),
  (132, 'only', 'updated', NULL, NULL, NULL, NULL),
  (133, 'task', 'stale', NULL, NULL, NULL, NULL),
  (134, 'task', 'deleted', NULL, NULL, NULL, NULL),
  (135, 'task', 'message_started', NULL, NULL, NULL, NULL),
  (136, 'item', 'message_started', NULL, NULL, NULL, NULL),
  (137, 'only', 'message_started', NULL, NULL, NULL, NULL),
  (138, 'task', 'message_ended', NULL, NULL, NULL, NULL),
  (139, 'item', 'message_ended', NULL, NULL, NULL, NULL),
  (140, 'only', 'message_ended', NULL, NULL, NULL, NULL),
  (141, 'task', 'signalled', NULL, NULL, NULL, NULL),
  (142, 'task', 'fired', NULL, NULL, NULL, NULL),
  (143, 'task', 'approval_expired', NULL, NULL, NULL, NULL),
  (144, 'task', 'escalated', NULL, NULL, NULL, NULL);
-- end of what is generated

CREATE TABLE pawl.task_events (
  id           INTEGER PRIMARY KEY AUTOINCREMENT CHECK (id > 0),
  namespace    TEXT NOT NULL,
  task_id      BLOB NOT NULL,
  item_id      BLOB,
  attempt      INTEGER,
  move         INTEGER NOT NULL,
  actor        INTEGER NOT NULL,
  message      TEXT,
  data         TEXT,
  diff         TEXT,
  trace_parent TEXT,
  created_at   INTEGER NOT NULL,
  -- The API key that caused the event; NULL without keys.
  key_id       TEXT,
  CONSTRAINT task_events_move CHECK (move BETWEEN 1 AND 144)
) STRICT;
CREATE INDEX pawl.task_events_of_task ON pawl.task_events (task_id, id);
CREATE INDEX pawl.task_events_since ON pawl.task_events (created_at);

CREATE TABLE pawl.task_results (
  task_id    BLOB PRIMARY KEY,
  namespace  TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  payload    TEXT NOT NULL
) STRICT;

CREATE TABLE pawl.provenances (
  id                  TEXT PRIMARY KEY,
  namespace           TEXT NOT NULL,
  task_id             BLOB REFERENCES pawl.tasks (id) ON DELETE CASCADE,
  item_id             BLOB,
  verb                TEXT NOT NULL,
  scope               TEXT,
  idempotency_key     TEXT,
  agent_id            TEXT,
  agent_name          TEXT,
  agent_version       TEXT,
  model               TEXT,
  request_fingerprint TEXT CHECK (length(request_fingerprint) <= 64),
  extra               TEXT,
  created_at          INTEGER NOT NULL,
  attempt             INTEGER,
  event_id            INTEGER
) STRICT;
CREATE UNIQUE INDEX pawl.provenances_one_per_key ON pawl.provenances (namespace, scope, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX pawl.provenances_of_task ON pawl.provenances (task_id);
CREATE INDEX pawl.provenances_of_item ON pawl.provenances (item_id) WHERE item_id IS NOT NULL;
CREATE INDEX pawl.provenances_of_event ON pawl.provenances (event_id) WHERE event_id IS NOT NULL;

CREATE TABLE pawl.idempotency_keys (
  namespace    TEXT NOT NULL,
  scope        TEXT NOT NULL,
  key_hash     TEXT NOT NULL,
  request_hash TEXT,
  status       TEXT NOT NULL CHECK (instr('[pending][completed][failed]', '[' || status || ']') > 0),
  token        TEXT,
  content_type TEXT,
  code         INTEGER,
  task_id      BLOB REFERENCES pawl.tasks (id) ON DELETE SET NULL,
  item_id      BLOB,
  hits         INTEGER NOT NULL DEFAULT 0,
  misses       INTEGER NOT NULL DEFAULT 1,
  replays      INTEGER NOT NULL DEFAULT 0,
  created_at   INTEGER NOT NULL,
  completed_at INTEGER,
  expires_at   INTEGER,
  locked_until INTEGER,
  location     TEXT,
  response     TEXT,
  PRIMARY KEY (namespace, scope, key_hash)
) STRICT, WITHOUT ROWID;
CREATE INDEX pawl.idempotency_keys_of_task ON pawl.idempotency_keys (task_id, created_at) WHERE task_id IS NOT NULL;
CREATE INDEX pawl.idempotency_keys_of_item ON pawl.idempotency_keys (item_id, created_at) WHERE item_id IS NOT NULL;
CREATE INDEX pawl.idempotency_keys_expiry ON pawl.idempotency_keys (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX pawl.idempotency_keys_by_status ON pawl.idempotency_keys (status, created_at);
CREATE INDEX pawl.idempotency_keys_unexpiring ON pawl.idempotency_keys (completed_at) WHERE expires_at IS NULL;
CREATE INDEX pawl.idempotency_keys_listed ON pawl.idempotency_keys (namespace, created_at, key_hash) WHERE code IS NULL;

CREATE TABLE pawl.messages (
  id            TEXT PRIMARY KEY,
  namespace     TEXT NOT NULL,
  thread        TEXT,
  task_id       BLOB,
  item_id       BLOB,
  attempt       INTEGER,
  role          TEXT NOT NULL,
  state         TEXT NOT NULL DEFAULT 'complete' CHECK (instr('[streaming][complete][stopped][error]', '[' || state || ']') > 0),
  model         TEXT,
  step_number   INTEGER NOT NULL DEFAULT 0,
  max_steps     INTEGER NOT NULL DEFAULT 10,
  chunks        INTEGER NOT NULL DEFAULT 0,
  checkpoint_id TEXT,
  usage         TEXT,
  metadata      TEXT,
  created_at    INTEGER NOT NULL,
  ended_at      INTEGER,
  -- Where the current step began. What follows is cut off when another attempt takes over.
  step_offset   INTEGER,
  -- The ranges that were cut off, from-to-attempt, separated by spaces.
  cuts          TEXT,
  -- Of an ended message: 1 while its chunks are kept.
  replayable    INTEGER,
  bytes         INTEGER NOT NULL DEFAULT 0,
  content       TEXT
) STRICT;
CREATE INDEX pawl.messages_of_task ON pawl.messages (task_id, id) WHERE task_id IS NOT NULL;
CREATE INDEX pawl.messages_of_thread ON pawl.messages (namespace, thread, id) WHERE thread IS NOT NULL;
CREATE INDEX pawl.messages_streaming ON pawl.messages (item_id) WHERE state = 'streaming';
CREATE INDEX pawl.messages_replayable ON pawl.messages (ended_at) WHERE replayable = 1;
CREATE INDEX pawl.messages_of_claim ON pawl.messages (item_id, state, id) WHERE state IN ('streaming', 'stopped');
CREATE INDEX pawl.messages_of_namespace ON pawl.messages (namespace, id);

CREATE TABLE pawl.message_chunks (
  message_id TEXT NOT NULL,
  seq        INTEGER NOT NULL,
  count      INTEGER NOT NULL,
  attempt    INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  body       TEXT NOT NULL,
  PRIMARY KEY (message_id, seq)
) STRICT;

CREATE TABLE pawl.types (
  namespace  TEXT NOT NULL,
  name       TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 120),
  version    INTEGER NOT NULL CHECK (version >= 1),
  definition TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  removed_at INTEGER,
  PRIMARY KEY (namespace, name, version)
) STRICT;

-- Who may call, as what, and into which namespace ('*': any). Of the secret only its
-- hash is kept.
CREATE TABLE pawl.api_keys (
  id           TEXT PRIMARY KEY,
  namespace    TEXT NOT NULL CHECK (namespace <> ''),
  name         TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 255),
  roles        TEXT NOT NULL,
  payloads     INTEGER NOT NULL DEFAULT 0 CHECK (payloads IN (0, 1)),
  rate         INTEGER NOT NULL DEFAULT 0 CHECK (rate >= 0),
  actor_type   TEXT NOT NULL,
  actor_id     TEXT NOT NULL,
  secret_hash  TEXT NOT NULL,
  refusals     INTEGER NOT NULL DEFAULT 0,
  created_at   INTEGER NOT NULL,
  expires_at   INTEGER,
  revoked_at   INTEGER,
  last_used_at INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE pawl.workers (
  namespace    TEXT NOT NULL,
  worker_id    TEXT NOT NULL,
  name         TEXT,
  version      TEXT,
  types        TEXT,
  started_at   INTEGER NOT NULL,
  last_seen_at INTEGER NOT NULL,
  PRIMARY KEY (namespace, worker_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE pawl.schedules (
  namespace  TEXT NOT NULL,
  name       TEXT NOT NULL,
  spec       TEXT NOT NULL,
  zone       TEXT NOT NULL DEFAULT 'UTC',
  task       TEXT NOT NULL,
  next_at    INTEGER,
  last_at    INTEGER,
  paused     INTEGER NOT NULL DEFAULT 0,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (namespace, name)
) STRICT;
CREATE INDEX pawl.schedules_due ON pawl.schedules (next_at) WHERE next_at IS NOT NULL;

CREATE TABLE pawl.signals (
  namespace  TEXT NOT NULL,
  name       TEXT NOT NULL,
  key        TEXT NOT NULL DEFAULT '',
  sent_at    INTEGER,
  created_at INTEGER NOT NULL,
  payload    TEXT,
  PRIMARY KEY (namespace, name, key)
) STRICT, WITHOUT ROWID;

-- One row per pass; id 0 holds the sum of the passes that retention removed.
CREATE TABLE pawl.sweeps (
  id                  INTEGER PRIMARY KEY AUTOINCREMENT,
  server              TEXT NOT NULL DEFAULT '',
  scans               INTEGER NOT NULL DEFAULT 1,
  expired_found       INTEGER NOT NULL DEFAULT 0,
  recovered           INTEGER NOT NULL DEFAULT 0,
  failed              INTEGER NOT NULL DEFAULT 0,
  checkpoints_created INTEGER NOT NULL DEFAULT 0,
  errors              INTEGER NOT NULL DEFAULT 0,
  scan_duration_ms    INTEGER NOT NULL DEFAULT 0,
  detail              TEXT NOT NULL DEFAULT '{}',
  started_at          INTEGER NOT NULL
) STRICT;

CREATE TABLE pawl.relay_cursors (
  sink       TEXT PRIMARY KEY,
  position   INTEGER NOT NULL DEFAULT 0,
  detail     TEXT NOT NULL DEFAULT '{}',
  updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE pawl.feed_pages (
  page       INTEGER PRIMARY KEY,
  ids        BLOB NOT NULL,
  count      INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  low        INTEGER NOT NULL,
  high       INTEGER NOT NULL
) STRICT;
CREATE INDEX pawl.feed_pages_of_event ON pawl.feed_pages (high, low);

-- The transparency log: a Merkle tree over the events in feed order.
CREATE TABLE pawl.log_tiles (
  level  INTEGER NOT NULL,
  n      INTEGER NOT NULL,
  root   BLOB NOT NULL,
  leaves BLOB,
  PRIMARY KEY (level, n)
) STRICT;
CREATE TABLE pawl.log_runs (
  first  INTEGER PRIMARY KEY,
  leaves BLOB NOT NULL
) STRICT;
CREATE TABLE pawl.log_epochs (
  epoch      INTEGER PRIMARY KEY,
  origin     TEXT NOT NULL,
  size       INTEGER NOT NULL,
  lost       INTEGER NOT NULL,
  checkpoint TEXT NOT NULL,
  created_at INTEGER NOT NULL
) STRICT;
CREATE TABLE pawl.log_checkpoints (
  signer     TEXT PRIMARY KEY,
  epoch      INTEGER NOT NULL,
  size       INTEGER NOT NULL,
  note       TEXT NOT NULL,
  created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO pawl.log_epochs (epoch, origin, size, lost, checkpoint, created_at)
VALUES (1, 'pawl/' || lower(hex(randomblob(16))), 0, 0, '', 0);
-- Events that were removed, or restored, packed, with the leaf that says so; NULL = not in the log yet.
CREATE TABLE pawl.log_removals (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  ids        BLOB NOT NULL,
  restored   INTEGER NOT NULL DEFAULT 0 CHECK (restored IN (0, 1)),
  leaf       INTEGER,
  created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX pawl.log_removals_waiting ON pawl.log_removals (id) WHERE leaf IS NULL;
-- Pages of the feed whose events are all removed.
CREATE TABLE pawl.log_pages (
  page       INTEGER PRIMARY KEY,
  ids        BLOB NOT NULL,
  count      INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  low        INTEGER NOT NULL,
  high       INTEGER NOT NULL
) STRICT;
CREATE INDEX pawl.log_pages_of_event ON pawl.log_pages (high, low);

CREATE TABLE pawl.archives (
  task_id     BLOB PRIMARY KEY,
  namespace   TEXT NOT NULL,
  path        TEXT,
  body        BLOB,
  bytes       INTEGER NOT NULL,
  sha256      TEXT NOT NULL,
  created_at  INTEGER NOT NULL,
  restored_at INTEGER
) STRICT;
CREATE INDEX pawl.archives_restored ON pawl.archives (restored_at) WHERE restored_at IS NOT NULL;

-- Deleted tasks: leads to the event `deleted` that stays of each.
CREATE TABLE pawl.tombstones (
  task_id     BLOB NOT NULL,
  event_id    INTEGER NOT NULL,
  namespace   TEXT NOT NULL,
  created_at  INTEGER NOT NULL,
  restored_at INTEGER,
  PRIMARY KEY (task_id, event_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX pawl.tombstones_of_namespace ON pawl.tombstones (namespace, event_id);
CREATE INDEX pawl.tombstones_by_age ON pawl.tombstones (created_at);

-- Task tokens are signed with this secret. Each database has its own.
CREATE TABLE pawl.secrets (
  name  TEXT PRIMARY KEY,
  value TEXT NOT NULL CHECK (length(value) >= 32)
) STRICT, WITHOUT ROWID;

INSERT INTO pawl.secrets (name, value)
VALUES ('task tokens', hex(randomblob(32)));

-- A transaction that removes old rows puts a row here first and takes it away
-- last; without it the record refuses DELETE.
CREATE TABLE pawl.retention_gate (
  reason TEXT NOT NULL
) STRICT;

-- +goose StatementBegin
CREATE TRIGGER pawl.log_tiles_no_update BEFORE UPDATE ON pawl.log_tiles
BEGIN SELECT RAISE(ABORT, 'pawl: log_tiles is append-only'); END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER pawl.log_tiles_no_delete BEFORE DELETE ON pawl.log_tiles
WHEN NOT EXISTS (SELECT 1 FROM pawl.retention_gate)
BEGIN SELECT RAISE(ABORT, 'pawl: log_tiles is append-only'); END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER pawl.checkpoints_no_update BEFORE UPDATE ON pawl.checkpoints
BEGIN SELECT RAISE(ABORT, 'pawl: checkpoints is append-only'); END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER pawl.checkpoints_no_delete BEFORE DELETE ON pawl.checkpoints
WHEN NOT EXISTS (SELECT 1 FROM pawl.retention_gate)
BEGIN SELECT RAISE(ABORT, 'pawl: checkpoints is append-only'); END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER pawl.task_events_no_update BEFORE UPDATE ON pawl.task_events
BEGIN SELECT RAISE(ABORT, 'pawl: task_events is append-only'); END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER pawl.task_events_no_delete BEFORE DELETE ON pawl.task_events
WHEN NOT EXISTS (SELECT 1 FROM pawl.retention_gate)
BEGIN SELECT RAISE(ABORT, 'pawl: task_events is append-only'); END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER pawl.finished_items_no_update BEFORE UPDATE ON pawl.finished_items
BEGIN SELECT RAISE(ABORT, 'pawl: finished_items is append-only'); END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER pawl.finished_items_no_delete BEFORE DELETE ON pawl.finished_items
WHEN NOT EXISTS (SELECT 1 FROM pawl.retention_gate)
BEGIN SELECT RAISE(ABORT, 'pawl: finished_items is append-only'); END;
-- +goose StatementEnd

-- Every event with the names that its code stands for.
CREATE VIEW pawl.event_rows AS
SELECT e.id, e.namespace, e.task_id, e.item_id, e.attempt, m.class, m.event, m.from_state, m.to_state, m.task_from, m.task_to, e.actor,
  e.message, e.data, e.diff, e.trace_parent, e.created_at, e.key_id, e.move
FROM pawl.task_events e
LEFT JOIN pawl.moves m ON m.code = e.move;

-- Every item. The columns of both parts have the same affinities: otherwise SQLite would
-- read all rows before it looks at a condition.
CREATE VIEW pawl.all_items AS
SELECT id, namespace, queue_id, task_id, type, kind, position, key, priority, max_attempts, run_at, after, input, parts_required, created_at, reasons
FROM pawl.items
UNION ALL
SELECT id, namespace, queue_id, id, CAST(COALESCE(item_type, type) AS TEXT), CAST('work' AS TEXT), CAST(0 AS INTEGER), CAST(NULL AS TEXT), CAST(COALESCE(item_priority, priority) AS INTEGER), max_attempts, run_at, CAST(NULL AS TEXT), input,
  parts_required, created_at, reasons
FROM pawl.tasks
WHERE solo = 1;

-- The two ranks an item can have among the ready, a row each: fresh, and back
-- again.
CREATE VIEW pawl.item_ranks AS
SELECT id, namespace, task_id, type, kind, 1 - 2 * priority AS rank, queue_id FROM pawl.all_items
UNION ALL
SELECT id, namespace, task_id, type, kind, -2 * priority, queue_id FROM pawl.all_items;

-- Every item with its place, in raw columns: what the engine reads. The place
-- is a join, so reading one item is eight point look-ups: ready has two, fresh
-- and back again, for `rank IN (…, …)` would make PostgreSQL walk the whole type.
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
  COALESCE(l.solo, r.solo, b.solo, s.solo, g.solo, t.solo) AS solo
FROM pawl.all_items w
LEFT JOIN pawl.leases l ON l.item_id = w.id
LEFT JOIN pawl.finished_items e ON e.item_id = w.id
LEFT JOIN pawl.ready r ON r.queue_id = w.queue_id AND r.rank = 1 - 2 * w.priority AND r.item_id = w.id
LEFT JOIN pawl.ready b ON b.queue_id = w.queue_id AND b.rank = -2 * w.priority AND b.item_id = w.id
LEFT JOIN pawl.scheduled s ON s.item_id = w.id
LEFT JOIN pawl.waiting g ON g.item_id = w.id
LEFT JOIN pawl.parked_items t ON t.item_id = w.id;

-- Every task with its state. A task of one item whose row in task_counters says
-- open, or is not there, reads its state and version off its item. The item's
-- places are joined here once more, table by table: to the right of a LEFT JOIN
-- SQLite would make a copy of all of item_rows, for the sake of one item.
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
  x.checkpoints, x.pruned, x.failed_in, x.error, x.stage, x.item_state, x.progress, x.retry_count, x.applied_at, x.completed_at
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
    COALESCE(k.completed_at, e.ended_at, p.completed_at) AS completed_at
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

-- The views for people and their queries (docs/sql.md). Stable; the tables are not.
CREATE VIEW pawl.v_items AS
SELECT @item_text(i.id) AS id, i.namespace, @task_text(i.task_id) AS task_id, i.type, i.kind, i.position, i.key, i.state,
  CASE
    WHEN i.state IN ('leased', 'in_progress') AND i.lease_expires_at <= CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER) THEN 'expired'
    WHEN i.state IN ('queued', 'scheduled', 'waiting') THEN 'pending'
    WHEN i.state IN ('leased', 'in_progress', 'submitted', 'accepted') THEN 'in_progress'
    WHEN i.state IN ('failed', 'rejected', 'dead_lettered') THEN 'failed'
    ELSE i.state
  END AS status,
  i.priority, i.attempt, i.failures, i.max_attempts, i.rework, i.worker_id, i.last_worker_id, i.lease_seconds,
  (strftime('%Y-%m-%dT%H:%M:%S', i.lease_acquired_at / 1000000, 'unixepoch') || printf('.%06dZ', i.lease_acquired_at % 1000000)) AS lease_acquired_at, (strftime('%Y-%m-%dT%H:%M:%S', i.lease_expires_at / 1000000, 'unixepoch') || printf('.%06dZ', i.lease_expires_at % 1000000)) AS lease_expires_at, (strftime('%Y-%m-%dT%H:%M:%S', i.heartbeat_at / 1000000, 'unixepoch') || printf('.%06dZ', i.heartbeat_at % 1000000)) AS heartbeat_at,
  i.progress, i.stage, i.input, i.result, i.assembled_result, i.parts_required, i.error, i.after,
  (strftime('%Y-%m-%dT%H:%M:%S', i.run_at / 1000000, 'unixepoch') || printf('.%06dZ', i.run_at % 1000000)) AS run_at, (strftime('%Y-%m-%dT%H:%M:%S', i.created_at / 1000000, 'unixepoch') || printf('.%06dZ', i.created_at % 1000000)) AS created_at, (strftime('%Y-%m-%dT%H:%M:%S', i.started_at / 1000000, 'unixepoch') || printf('.%06dZ', i.started_at % 1000000)) AS started_at, (strftime('%Y-%m-%dT%H:%M:%S', i.accepted_at / 1000000, 'unixepoch') || printf('.%06dZ', i.accepted_at % 1000000)) AS accepted_at,
  (strftime('%Y-%m-%dT%H:%M:%S', i.completed_at / 1000000, 'unixepoch') || printf('.%06dZ', i.completed_at % 1000000)) AS completed_at, (strftime('%Y-%m-%dT%H:%M:%S', i.updated_at / 1000000, 'unixepoch') || printf('.%06dZ', i.updated_at % 1000000)) AS updated_at, i.id AS uuid, i.task_id AS task_uuid
FROM pawl.item_rows i;

CREATE VIEW pawl.v_tasks AS
SELECT @task_text(t.id) AS id, t.namespace, t.type, t.type_version, t.state,
  CASE
    WHEN t.state = 'queued' THEN 'pending'
    WHEN t.state IN ('checked_out', 'in_progress', 'submitted', 'approved', 'applied') THEN 'in_progress'
    WHEN t.state IN ('failed', 'rejected', 'dead_lettered') THEN 'failed'
    ELSE t.state
  END AS status,
  t.title, COALESCE(t.stage, t.state) AS stage, t.priority, t.payload, t.metadata, t.requested_by_type, t.requested_by_id, t.input_hash, t.thread,
  t.items, t.open, t.failed, t.dead, t.cancelled, t.checkpoints,
  CASE WHEN t.state = 'completed' THEN 100 WHEN t.solo = 1 THEN COALESCE(t.progress, 0) WHEN t.items = 0 THEN 0 ELSE MIN(99, 100 * (t.items - t.open) / t.items) END AS progress,
  t.error, COALESCE(t.retry_count, COALESCE((SELECT SUM(x.failures) FROM pawl.leases x WHERE x.task_id = t.id AND x.failures > 0), 0)
    + COALESCE((SELECT SUM(x.failures) FROM pawl.finished_items x WHERE x.task_id = t.id AND x.failures > 0), 0)
    + COALESCE((SELECT SUM(x.failures) FROM pawl.ready x WHERE x.task_id = t.id AND x.failures > 0), 0)
    + COALESCE((SELECT SUM(x.failures) FROM pawl.scheduled x WHERE x.task_id = t.id AND x.failures > 0), 0)
    + COALESCE((SELECT SUM(x.failures) FROM pawl.waiting x WHERE x.task_id = t.id AND x.failures > 0), 0)
    + COALESCE((SELECT SUM(x.failures) FROM pawl.parked_items x WHERE x.task_id = t.id AND x.failures > 0), 0)) AS retry_count,
  t.failed_in, t.version,
  (strftime('%Y-%m-%dT%H:%M:%S', t.created_at / 1000000, 'unixepoch') || printf('.%06dZ', t.created_at % 1000000)) AS created_at,
  (SELECT strftime('%Y-%m-%dT%H:%M:%S', x.at / 1000000, 'unixepoch') || printf('.%06dZ', x.at % 1000000) FROM (SELECT COALESCE((SELECT e.created_at FROM pawl.task_events e WHERE e.task_id = t.id ORDER BY e.id DESC LIMIT 1), t.created_at) AS at) x) AS updated_at,
  (SELECT strftime('%Y-%m-%dT%H:%M:%S', x.at / 1000000, 'unixepoch') || printf('.%06dZ', x.at % 1000000) FROM (SELECT COALESCE((SELECT e.created_at FROM pawl.event_rows e WHERE e.task_id = t.id AND e.to_state IS NOT NULL ORDER BY e.id DESC LIMIT 1), t.created_at) AS at) x) AS last_transitioned_at,
  (strftime('%Y-%m-%dT%H:%M:%S', t.applied_at / 1000000, 'unixepoch') || printf('.%06dZ', t.applied_at % 1000000)) AS applied_at, (strftime('%Y-%m-%dT%H:%M:%S', t.completed_at / 1000000, 'unixepoch') || printf('.%06dZ', t.completed_at % 1000000)) AS completed_at, t.id AS uuid
FROM pawl.task_rows t;

CREATE VIEW pawl.v_parts AS
SELECT p.id, p.namespace, @item_text(p.item_id) AS item_id, p.part_key, p.seq, p.status, p.payload, p.evidence, p.notes, p.errors, p.checksum,
  p.worker_id, p.attempt, p.idempotency_key_hash, (strftime('%Y-%m-%dT%H:%M:%S', p.created_at / 1000000, 'unixepoch') || printf('.%06dZ', p.created_at % 1000000)) AS created_at,
  (SELECT strftime('%Y-%m-%dT%H:%M:%S', x.at / 1000000, 'unixepoch') || printf('.%06dZ', x.at % 1000000) FROM (SELECT COALESCE(p.superseded_at, p.created_at) AS at) x) AS updated_at, (strftime('%Y-%m-%dT%H:%M:%S', p.superseded_at / 1000000, 'unixepoch') || printf('.%06dZ', p.superseded_at % 1000000)) AS superseded_at, p.item_id AS item_uuid
FROM pawl.item_parts p;

CREATE VIEW pawl.v_leases AS
SELECT @item_text(l.item_id) AS item_id, l.namespace, @task_text(l.task_id) AS task_id, (SELECT q.type FROM pawl.queues q WHERE q.id = l.queue_id) AS type, @state_name(l.state) AS state, l.attempt, l.failures, l.max_attempts, (SELECT a.name FROM pawl.actors a WHERE a.id = l.worker) AS worker_id, l.lease_seconds, l.progress, l.stage,
  (strftime('%Y-%m-%dT%H:%M:%S', l.acquired_at / 1000000, 'unixepoch') || printf('.%06dZ', l.acquired_at % 1000000)) AS lease_acquired_at, (strftime('%Y-%m-%dT%H:%M:%S', l.heartbeat_at / 1000000, 'unixepoch') || printf('.%06dZ', l.heartbeat_at % 1000000)) AS heartbeat_at, (strftime('%Y-%m-%dT%H:%M:%S', l.lease_expires_at / 1000000, 'unixepoch') || printf('.%06dZ', l.lease_expires_at % 1000000)) AS lease_expires_at,
  CASE WHEN l.lease_expires_at <= CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER) THEN 1 ELSE 0 END AS expired,
  l.item_id AS item_uuid, l.task_id AS task_uuid
FROM pawl.leases l;

CREATE VIEW pawl.v_task_results AS
SELECT @task_text(e.task_id) AS task_id, t.namespace, e.result AS payload, (strftime('%Y-%m-%dT%H:%M:%S', e.ended_at / 1000000, 'unixepoch') || printf('.%06dZ', e.ended_at % 1000000)) AS created_at, e.task_id AS task_uuid
FROM pawl.finished_items e JOIN pawl.tasks t ON t.id = e.task_id AND t.solo = 1
WHERE e.state = @state(completed)
UNION ALL
SELECT @task_text(r.task_id) AS task_id, r.namespace, r.payload, (strftime('%Y-%m-%dT%H:%M:%S', r.created_at / 1000000, 'unixepoch') || printf('.%06dZ', r.created_at % 1000000)), r.task_id
FROM pawl.task_results r;

CREATE VIEW pawl.v_events AS
SELECT 'evt_' || e.id AS id, e.namespace, @task_text(e.task_id) AS task_id, @item_text(e.item_id) AS item_id, e.attempt, e.event, e.from_state, e.to_state, e.task_from, e.task_to,
  (SELECT a.kind FROM pawl.actors a WHERE a.id = e.actor) AS actor_type, (SELECT NULLIF(a.name, '') FROM pawl.actors a WHERE a.id = e.actor) AS actor_id, e.message, e.data, e.diff, (strftime('%Y-%m-%dT%H:%M:%S', e.created_at / 1000000, 'unixepoch') || printf('.%06dZ', e.created_at % 1000000)) AS created_at,
  e.task_id AS task_uuid, e.item_id AS item_uuid
FROM pawl.event_rows e;

CREATE VIEW pawl.v_checkpoints AS
SELECT c.id, @task_text(c.task_id) AS task_id, @item_text(c.item_id) AS item_id, c.namespace, c.attempt, c.seq, c.type, c.name, c.snapshot, c.metadata, (strftime('%Y-%m-%dT%H:%M:%S', c.created_at / 1000000, 'unixepoch') || printf('.%06dZ', c.created_at % 1000000)) AS created_at,
  c.task_id AS task_uuid, c.item_id AS item_uuid
FROM pawl.checkpoints c;
