-- oldest: 1
-- +goose Up
-- Everything a task, its items and its record are kept in. Times are
-- microseconds since 1970 UTC; ids are a prefix and a ULID, never a colon.
-- The wide rows (tasks, items) are written once. Where an item is, is the
-- narrow table its row is in: ready, scheduled, waiting, leases, parked_items, finished_items.
-- No foreign keys and no triggers on the hot tables: a row lock on the task for
-- every item halves a create; `doctor` looks for orphans instead.

-- One clock: every stamp and every comparison reads it. Tests replace it.
-- +goose StatementBegin
CREATE FUNCTION pawl.now() RETURNS bigint LANGUAGE sql VOLATILE PARALLEL SAFE
AS $$ SELECT (date_part('epoch', clock_timestamp()) * 1000000)::bigint $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION pawl.stamp(micros bigint) RETURNS timestamptz LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT 'epoch'::timestamptz + micros * interval '1 microsecond' $$;
-- +goose StatementEnd

CREATE TABLE pawl.tasks (
  id                text COLLATE "C" PRIMARY KEY,
  namespace         text COLLATE "C" NOT NULL CHECK (namespace <> ''),
  type              text COLLATE "C" NOT NULL CHECK (length(type) BETWEEN 1 AND 120),
  type_version      integer NOT NULL DEFAULT 0,
  solo              smallint NOT NULL CHECK (solo IN (0, 1)),
  title             text,
  priority          smallint NOT NULL DEFAULT 0,
  payload           text,
  metadata          text NOT NULL DEFAULT '{}',
  requested_by_type text,
  requested_by_id   text,
  input_hash        text COLLATE "C",
  dedupes           smallint NOT NULL DEFAULT 0 CHECK (dedupes IN (0, 1)),
  thread            text COLLATE "C",
  trace_parent      text,
  created_at        bigint NOT NULL
);
CREATE UNIQUE INDEX tasks_one_per_input ON pawl.tasks (namespace, type, input_hash) WHERE dedupes = 1;
CREATE INDEX tasks_by_time ON pawl.tasks USING brin (created_at);
CREATE INDEX tasks_of_namespace ON pawl.tasks (namespace, id);
CREATE INDEX tasks_by_requester ON pawl.tasks (namespace, requested_by_id, id) WHERE requested_by_id IS NOT NULL;
CREATE INDEX tasks_by_input ON pawl.tasks (namespace, input_hash, id) WHERE input_hash IS NOT NULL;
CREATE INDEX tasks_by_priority ON pawl.tasks (namespace, priority, id) WHERE priority <> 0;

-- Counters and decisions of a task. A task of one item has no row until it has
-- a checkpoint, a retry, a burial or a decision; until then its item's place is
-- its state, and its version is read off it.
CREATE TABLE pawl.task_counters (
  task_id            text COLLATE "C" PRIMARY KEY,
  namespace          text COLLATE "C" NOT NULL,
  state              text COLLATE "C" NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'submitted', 'approved', 'applied', 'completed', 'rejected', 'failed', 'dead_lettered', 'cancelled')),
  version            integer NOT NULL DEFAULT 0,
  items              integer NOT NULL DEFAULT 1,
  open               integer NOT NULL DEFAULT 1 CHECK (open >= 0),
  failed             integer NOT NULL DEFAULT 0 CHECK (failed >= 0),
  dead               integer NOT NULL DEFAULT 0 CHECK (dead >= 0),
  cancelled          integer NOT NULL DEFAULT 0 CHECK (cancelled >= 0),
  checkpoints        bigint NOT NULL DEFAULT 0,
  pruned             bigint NOT NULL DEFAULT 0,
  failed_in          text,
  error              text,
  ready_for_approval smallint NOT NULL DEFAULT 0,
  applied_at         bigint,
  completed_at       bigint,
  updated_at         bigint,
  -- 1: the engine has to look whether the task is ready for approval, can be approved by
  -- rule, or is to be applied.
  todo               smallint NOT NULL DEFAULT 0,
  -- Until when somebody is to decide.
  decide_by          bigint,
  -- Positions handed out to items, which may not be inserted yet. While it is less than
  -- items, no items have been added.
  positions          integer NOT NULL DEFAULT 0,
  -- A task that is being planned has its plan item alone, which is not counted.
  planning           smallint NOT NULL DEFAULT 0,
  -- The type says that failed items do not count when the task settles.
  ignores_failures   smallint NOT NULL DEFAULT 0
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX task_counters_todo ON pawl.task_counters (task_id) WHERE todo = 1;
CREATE INDEX task_counters_decide_by ON pawl.task_counters (decide_by) WHERE decide_by IS NOT NULL;
CREATE INDEX task_counters_failing ON pawl.task_counters (task_id) WHERE state = 'open' AND failed > 0;
CREATE INDEX task_counters_by_state ON pawl.task_counters (state, task_id) WHERE state <> 'completed';

CREATE TABLE pawl.items (
  id             text COLLATE "C" PRIMARY KEY,
  namespace      text COLLATE "C" NOT NULL,
  task_id        text COLLATE "C" NOT NULL,
  type           text COLLATE "C" NOT NULL CHECK (length(type) BETWEEN 1 AND 120),
  kind           text COLLATE "C" NOT NULL DEFAULT 'work' CHECK (kind IN ('work', 'plan', 'apply')),
  position       integer NOT NULL,
  key            text COLLATE "C",
  priority       smallint NOT NULL,
  max_attempts   integer NOT NULL CHECK (max_attempts >= 1),
  run_at         bigint,
  after          text,
  input          text NOT NULL,
  parts_required text,
  created_at     bigint NOT NULL,
  -- Why the item was last sent back for rework, as JSON. A later failure does not change it.
  reasons        text
);
CREATE INDEX items_of_task ON pawl.items (task_id, position);

-- needs_id must complete before item_id may run. Written with the items.
CREATE TABLE pawl.item_deps (
  needs_id text COLLATE "C" NOT NULL,
  item_id  text COLLATE "C" NOT NULL,
  PRIMARY KEY (needs_id, item_id)
);
CREATE INDEX item_deps_of_item ON pawl.item_deps (item_id);

-- Claimable, in claim order. rank = -2 * priority, + 1 when fresh: what comes
-- back goes before what is new. Inserted and deleted, never updated.
CREATE TABLE pawl.ready (
  namespace    text COLLATE "C" NOT NULL,
  type         text COLLATE "C" NOT NULL,
  rank         integer NOT NULL,
  item_id      text COLLATE "C" NOT NULL,
  task_id      text COLLATE "C" NOT NULL,
  attempt      integer NOT NULL DEFAULT 0,
  failures     integer NOT NULL DEFAULT 0,
  max_attempts integer NOT NULL,
  solo         smallint NOT NULL,
  feeds        smallint NOT NULL DEFAULT 0,
  acceptance   smallint NOT NULL DEFAULT 0,
  rework       smallint NOT NULL DEFAULT 0,
  spared       smallint NOT NULL DEFAULT 0,
  left_by      text COLLATE "C",
  worker_id    text COLLATE "C",
  started_at   bigint,
  since        bigint,
  error        text,
  PRIMARY KEY (namespace, type, rank, item_id)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX ready_failures ON pawl.ready (task_id) WHERE failures > 0;

CREATE TABLE pawl.scheduled (
  item_id      text COLLATE "C" PRIMARY KEY,
  namespace    text COLLATE "C" NOT NULL,
  task_id      text COLLATE "C" NOT NULL,
  type         text COLLATE "C" NOT NULL,
  priority     smallint NOT NULL,
  run_at       bigint NOT NULL,
  attempt      integer NOT NULL DEFAULT 0,
  failures     integer NOT NULL DEFAULT 0,
  max_attempts integer NOT NULL,
  solo         smallint NOT NULL,
  feeds        smallint NOT NULL DEFAULT 0,
  acceptance   smallint NOT NULL DEFAULT 0,
  rework       smallint NOT NULL DEFAULT 0,
  spared       smallint NOT NULL DEFAULT 0,
  left_by      text COLLATE "C",
  worker_id    text COLLATE "C",
  started_at   bigint,
  since        bigint,
  error        text
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX scheduled_due ON pawl.scheduled (run_at);
CREATE INDEX scheduled_failures ON pawl.scheduled (task_id) WHERE failures > 0;
CREATE INDEX scheduled_of_task ON pawl.scheduled (task_id);

CREATE TABLE pawl.waiting (
  item_id      text COLLATE "C" PRIMARY KEY,
  namespace    text COLLATE "C" NOT NULL,
  task_id      text COLLATE "C" NOT NULL,
  type         text COLLATE "C" NOT NULL,
  priority     smallint NOT NULL,
  until        bigint,
  signal       text COLLATE "C",
  signal_key   text COLLATE "C",
  needs        integer NOT NULL DEFAULT 0,
  broken       integer NOT NULL DEFAULT 0,
  attempt      integer NOT NULL DEFAULT 0,
  failures     integer NOT NULL DEFAULT 0,
  max_attempts integer NOT NULL,
  solo         smallint NOT NULL,
  feeds        smallint NOT NULL DEFAULT 0,
  acceptance   smallint NOT NULL DEFAULT 0,
  rework       smallint NOT NULL DEFAULT 0,
  spared       smallint NOT NULL DEFAULT 0,
  left_by      text COLLATE "C",
  worker_id    text COLLATE "C",
  started_at   bigint,
  since        bigint,
  error        text
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX waiting_ready ON pawl.waiting (item_id) WHERE needs = 0 AND until IS NULL AND signal IS NULL;
CREATE INDEX waiting_broken ON pawl.waiting (item_id) WHERE broken > 0;
CREATE INDEX waiting_signal ON pawl.waiting (signal, COALESCE(signal_key, ''), item_id) WHERE signal IS NOT NULL;
CREATE INDEX waiting_failures ON pawl.waiting (task_id) WHERE failures > 0;
CREATE INDEX waiting_of_task ON pawl.waiting (task_id);
CREATE INDEX waiting_until ON pawl.waiting (until) WHERE until IS NOT NULL AND needs = 0;

-- Held by a worker. The fence: (worker_id, attempt) and lease_expires_at.
CREATE TABLE pawl.leases (
  item_id          text COLLATE "C" PRIMARY KEY,
  namespace        text COLLATE "C" NOT NULL,
  task_id          text COLLATE "C" NOT NULL,
  type             text COLLATE "C" NOT NULL,
  priority         smallint NOT NULL,
  state            text COLLATE "C" NOT NULL CHECK (state IN ('leased', 'in_progress')),
  attempt          integer NOT NULL,
  failures         integer NOT NULL,
  max_attempts     integer NOT NULL,
  solo             smallint NOT NULL,
  feeds            smallint NOT NULL,
  acceptance       smallint NOT NULL,
  rework           smallint NOT NULL,
  spared           smallint NOT NULL,
  prefetch         smallint NOT NULL,
  worker_id        text COLLATE "C" NOT NULL CHECK (worker_id <> ''),
  lease_seconds    integer NOT NULL CHECK (lease_seconds BETWEEN 1 AND 86400),
  started_at       bigint NOT NULL,
  acquired_at      bigint NOT NULL,
  heartbeat_at     bigint NOT NULL,
  lease_expires_at bigint NOT NULL,
  progress         smallint CHECK (progress BETWEEN 0 AND 100),
  stage            text,
  progressed_at    bigint,
  error            text,
  -- The API key that claimed it; NULL without keys.
  key_id           text COLLATE "C",
  -- The messages of the item that were stopped, for its holder to learn.
  stopped          text
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX leases_failures ON pawl.leases (task_id) WHERE failures > 0;

-- Out of work, not at an end: an operator or an approver may move it on.
CREATE TABLE pawl.parked_items (
  item_id          text COLLATE "C" PRIMARY KEY,
  namespace        text COLLATE "C" NOT NULL,
  task_id          text COLLATE "C" NOT NULL,
  type             text COLLATE "C" NOT NULL,
  priority         smallint NOT NULL,
  state            text COLLATE "C" NOT NULL CHECK (state IN ('submitted', 'accepted', 'failed', 'dead_lettered')),
  attempt          integer NOT NULL,
  failures         integer NOT NULL,
  max_attempts     integer NOT NULL,
  solo             smallint NOT NULL,
  feeds            smallint NOT NULL DEFAULT 0,
  acceptance       smallint NOT NULL DEFAULT 0,
  rework           smallint NOT NULL DEFAULT 0,
  spared           smallint NOT NULL DEFAULT 0,
  left_by          text COLLATE "C",
  worker_id        text COLLATE "C",
  started_at       bigint,
  since            bigint NOT NULL,
  completed_at     bigint,
  accepted_at      bigint,
  progress         smallint,
  stage            text,
  result           text,
  assembled_result text,
  evidence         text,
  notes            text,
  error            text
);
CREATE INDEX parked_items_by_state ON pawl.parked_items (state, since);
CREATE INDEX parked_items_for_others ON pawl.parked_items (item_id) WHERE state = 'failed' AND left_by = 'dependency';
CREATE INDEX parked_items_failures ON pawl.parked_items (task_id) WHERE failures > 0;
CREATE INDEX parked_items_errors ON pawl.parked_items (task_id, since) WHERE error IS NOT NULL;

-- Ends. Insert only.
CREATE TABLE pawl.finished_items (
  item_id          text COLLATE "C" PRIMARY KEY,
  namespace        text COLLATE "C" NOT NULL,
  task_id          text COLLATE "C" NOT NULL,
  state            text COLLATE "C" NOT NULL CHECK (state IN ('completed', 'rejected', 'cancelled')),
  attempt          integer NOT NULL,
  failures         integer NOT NULL,
  rework           smallint NOT NULL DEFAULT 0,
  left_by          text COLLATE "C",
  worker_id        text COLLATE "C",
  started_at       bigint,
  ended_at         bigint NOT NULL,
  accepted_at      bigint,
  stage            text,
  result           text,
  assembled_result text,
  error            text
);
CREATE INDEX finished_items_failures ON pawl.finished_items (task_id) WHERE failures > 0;
CREATE INDEX finished_items_not_completed ON pawl.finished_items (state, task_id) WHERE state <> 'completed';

CREATE TABLE pawl.item_parts (
  id                   text COLLATE "C" PRIMARY KEY,
  namespace            text COLLATE "C" NOT NULL,
  item_id              text COLLATE "C" NOT NULL,
  part_key             text COLLATE "C" NOT NULL CHECK (length(part_key) BETWEEN 1 AND 120),
  seq                  integer CHECK (seq >= 0),
  status               text COLLATE "C" NOT NULL DEFAULT 'draft' CHECK (status IN ('draft', 'validated', 'rejected')),
  payload              text NOT NULL,
  evidence             text,
  notes                text,
  errors               text,
  checksum             text COLLATE "C",
  worker_id            text COLLATE "C" NOT NULL,
  attempt              integer NOT NULL,
  idempotency_key_hash text COLLATE "C",
  created_at           bigint NOT NULL,
  superseded_at        bigint
);
CREATE UNIQUE INDEX item_parts_live ON pawl.item_parts (item_id, part_key, COALESCE(seq, -1)) WHERE superseded_at IS NULL;
CREATE INDEX item_parts_by_status ON pawl.item_parts (item_id, status);

CREATE TABLE pawl.checkpoints (
  id         text COLLATE "C" PRIMARY KEY,
  namespace  text COLLATE "C" NOT NULL,
  task_id    text COLLATE "C" NOT NULL,
  item_id    text COLLATE "C",
  attempt    integer,
  seq        bigint NOT NULL CHECK (seq >= 1),
  type       text COLLATE "C" NOT NULL CHECK (type IN ('iteration_start', 'iteration_end', 'tool_executed', 'llm_response', 'approval_point', 'state_transition', 'manual_checkpoint', 'error_boundary', 'custom')),
  name       text COLLATE "C",
  args_hash  text COLLATE "C",
  message_id text COLLATE "C",
  snapshot   text,
  metadata   text,
  said       text,
  created_at bigint NOT NULL,
  CHECK (snapshot IS NOT NULL OR said IS NOT NULL)
);
CREATE UNIQUE INDEX checkpoints_in_order ON pawl.checkpoints (task_id, seq);
CREATE INDEX checkpoints_of_item ON pawl.checkpoints (item_id, seq) WHERE item_id IS NOT NULL;
CREATE INDEX checkpoints_by_time ON pawl.checkpoints USING brin (created_at);
CREATE INDEX checkpoints_of_namespace ON pawl.checkpoints (namespace, id);

-- What the record may say. PostgreSQL reads the text of a table's checks anew in every
-- statement that writes to it; a domain's check is read once by a connection.
CREATE DOMAIN pawl.event_name AS text COLLATE "C" CHECK (VALUE IN (
  'proposed', 'planned', 'due', 'ready', 'leased', 'in_progress', 'progressed', 'checkpointed', 'submitted',
  'part_submitted', 'part_rejected', 'ready_for_approval', 'accepted', 'completed', 'failed', 'released',
  'lease_expired', 'suspended', 'approved', 'applied', 'rejected', 'retried', 'dead_lettered', 'cancelled',
  'updated', 'stale', 'deleted', 'message_started', 'message_ended', 'signalled', 'fired', 'approval_expired',
  'escalated', 'lease_revoked'));
CREATE DOMAIN pawl.actor_kind AS text COLLATE "C" CHECK (VALUE IN (
  'user', 'agent', 'worker', 'system', 'api'));
CREATE DOMAIN pawl.item_move AS text COLLATE "C" CHECK (VALUE IN (
  '>', '>queued', '>scheduled', '>waiting', 'scheduled>queued', 'waiting>queued', 'queued>leased',
  'leased>in_progress', 'leased>completed', 'in_progress>completed', 'leased>submitted',
  'in_progress>submitted', 'leased>scheduled', 'leased>queued', 'leased>failed', 'in_progress>scheduled',
  'in_progress>queued', 'in_progress>failed', 'leased>waiting', 'in_progress>waiting', 'submitted>accepted',
  'accepted>completed', 'submitted>rejected', 'submitted>queued', 'accepted>rejected', 'accepted>queued',
  'queued>failed', 'queued>cancelled', 'scheduled>failed', 'scheduled>cancelled', 'waiting>failed',
  'waiting>cancelled', 'failed>queued', 'dead_lettered>queued', 'failed>dead_lettered', 'leased>cancelled',
  'in_progress>cancelled', 'submitted>cancelled', 'accepted>cancelled', 'failed>cancelled',
  'dead_lettered>cancelled'));
CREATE DOMAIN pawl.task_move AS text COLLATE "C" CHECK (VALUE IN (
  '>', '>open', 'open>submitted', 'open>completed', 'open>failed', 'open>dead_lettered', 'open>cancelled',
  'submitted>completed', 'submitted>failed', 'submitted>dead_lettered', 'failed>submitted', 'failed>completed',
  'dead_lettered>submitted', 'dead_lettered>completed', 'dead_lettered>failed',
  'submitted>approved', 'submitted>rejected', 'submitted>open', 'approved>applied', 'approved>failed',
  'applied>completed', 'failed>open', 'failed>approved', 'dead_lettered>open', 'dead_lettered>approved',
  'failed>dead_lettered', 'submitted>cancelled', 'approved>cancelled', 'applied>cancelled', 'failed>cancelled',
  'dead_lettered>cancelled'));

CREATE TABLE pawl.task_events (
  id           bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
  namespace    text COLLATE "C" NOT NULL,
  task_id      text COLLATE "C" NOT NULL,
  item_id      text COLLATE "C",
  attempt      integer,
  event        text COLLATE "C" NOT NULL,
  from_state   text COLLATE "C",
  to_state     text COLLATE "C",
  task_from    text COLLATE "C",
  task_to      text COLLATE "C",
  actor_type   text COLLATE "C" NOT NULL CHECK (actor_type::pawl.actor_kind IS NOT NULL),
  actor_id     text COLLATE "C",
  message      text,
  data         text,
  diff         text,
  trace_parent text,
  created_at   bigint NOT NULL,
  -- The API key that caused the event; NULL without keys.
  key_id       text COLLATE "C",
  CONSTRAINT task_events_name CHECK (event::pawl.event_name IS NOT NULL),
  CONSTRAINT task_events_item_move CHECK (item_id IS NULL OR (COALESCE(from_state, '') || '>' || COALESCE(to_state, ''))::pawl.item_move IS NOT NULL),
  CONSTRAINT task_events_task_move CHECK (item_id IS NOT NULL OR (COALESCE(from_state, '') || '>' || COALESCE(to_state, ''))::pawl.task_move IS NOT NULL),
  CONSTRAINT task_events_caused_move CHECK ((COALESCE(task_from, '') || '>' || COALESCE(task_to, ''))::pawl.task_move IS NOT NULL
    AND (item_id IS NOT NULL OR (task_from IS NULL AND task_to IS NULL)))
);
CREATE INDEX task_events_of_task ON pawl.task_events (task_id, id);
CREATE INDEX task_events_by_time ON pawl.task_events USING brin (created_at);

CREATE TABLE pawl.task_results (
  task_id    text COLLATE "C" PRIMARY KEY,
  namespace  text COLLATE "C" NOT NULL,
  payload    text NOT NULL,
  created_at bigint NOT NULL
);

CREATE TABLE pawl.provenances (
  id                  text COLLATE "C" PRIMARY KEY,
  namespace           text COLLATE "C" NOT NULL,
  task_id             text COLLATE "C" REFERENCES pawl.tasks (id) ON DELETE CASCADE,
  item_id             text COLLATE "C" REFERENCES pawl.items (id) ON DELETE CASCADE,
  verb                text COLLATE "C" NOT NULL,
  scope               text COLLATE "C",
  idempotency_key     text COLLATE "C",
  agent_id            text,
  agent_name          text,
  agent_version       text,
  model               text,
  request_fingerprint text COLLATE "C" CHECK (length(request_fingerprint) <= 64),
  extra               text,
  created_at          bigint NOT NULL,
  attempt             integer,
  event_id            bigint
);
CREATE UNIQUE INDEX provenances_one_per_key ON pawl.provenances (namespace, scope, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX provenances_of_task ON pawl.provenances (task_id);
CREATE INDEX provenances_of_item ON pawl.provenances (item_id) WHERE item_id IS NOT NULL;
CREATE INDEX provenances_of_event ON pawl.provenances (event_id) WHERE event_id IS NOT NULL;

CREATE TABLE pawl.idempotency_keys (
  namespace    text COLLATE "C" NOT NULL,
  scope        text COLLATE "C" NOT NULL,
  key_hash     text COLLATE "C" NOT NULL,
  request_hash text COLLATE "C",
  status       text COLLATE "C" NOT NULL CHECK (status IN ('pending', 'completed', 'failed')),
  token        text COLLATE "C",
  response     text,
  content_type text,
  code         integer,
  task_id      text COLLATE "C" REFERENCES pawl.tasks (id) ON DELETE SET NULL,
  item_id      text COLLATE "C" REFERENCES pawl.items (id) ON DELETE SET NULL,
  hits         bigint NOT NULL DEFAULT 0,
  misses       bigint NOT NULL DEFAULT 1,
  replays      bigint NOT NULL DEFAULT 0,
  created_at   bigint NOT NULL,
  completed_at bigint,
  expires_at   bigint,
  locked_until bigint,
  location     text,
  PRIMARY KEY (namespace, scope, key_hash)
);
CREATE INDEX idempotency_keys_of_task ON pawl.idempotency_keys (task_id, created_at) WHERE task_id IS NOT NULL;
CREATE INDEX idempotency_keys_of_item ON pawl.idempotency_keys (item_id, created_at) WHERE item_id IS NOT NULL;
CREATE INDEX idempotency_keys_expiry ON pawl.idempotency_keys (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX idempotency_keys_by_status ON pawl.idempotency_keys (status, created_at);
CREATE INDEX idempotency_keys_unexpiring ON pawl.idempotency_keys (completed_at) WHERE expires_at IS NULL;
CREATE INDEX idempotency_keys_listed ON pawl.idempotency_keys (namespace, created_at, key_hash) WHERE code IS NULL;

CREATE TABLE pawl.messages (
  id            text COLLATE "C" PRIMARY KEY,
  namespace     text COLLATE "C" NOT NULL,
  thread        text COLLATE "C",
  task_id       text COLLATE "C",
  item_id       text COLLATE "C",
  attempt       integer,
  role          text COLLATE "C" NOT NULL,
  content       text,
  state         text COLLATE "C" NOT NULL DEFAULT 'complete' CHECK (state IN ('streaming', 'complete', 'stopped', 'error')),
  model         text,
  step_number   integer NOT NULL DEFAULT 0,
  max_steps     integer NOT NULL DEFAULT 10,
  chunks        bigint NOT NULL DEFAULT 0,
  checkpoint_id text COLLATE "C",
  usage         text,
  metadata      text,
  created_at    bigint NOT NULL,
  ended_at      bigint,
  -- Where the current step began. What follows is cut off when another attempt takes over.
  step_offset   bigint,
  -- The ranges that were cut off, from-to-attempt, separated by spaces.
  cuts          text,
  -- Of an ended message: 1 while its chunks are kept.
  replayable    smallint,
  bytes         bigint NOT NULL DEFAULT 0
);
CREATE INDEX messages_of_task ON pawl.messages (task_id, id) WHERE task_id IS NOT NULL;
CREATE INDEX messages_of_thread ON pawl.messages (namespace, thread, id) WHERE thread IS NOT NULL;
CREATE INDEX messages_streaming ON pawl.messages (item_id) WHERE state = 'streaming';
CREATE INDEX messages_replayable ON pawl.messages (ended_at) WHERE replayable = 1;
CREATE INDEX messages_of_claim ON pawl.messages (item_id, state, id) WHERE state IN ('streaming', 'stopped');
CREATE INDEX messages_of_namespace ON pawl.messages (namespace, id);

CREATE TABLE pawl.message_chunks (
  message_id text COLLATE "C" NOT NULL,
  seq        bigint NOT NULL,
  count      integer NOT NULL,
  attempt    integer NOT NULL,
  body       text NOT NULL,
  created_at bigint NOT NULL,
  PRIMARY KEY (message_id, seq)
);

CREATE TABLE pawl.types (
  namespace  text COLLATE "C" NOT NULL,
  name       text COLLATE "C" NOT NULL CHECK (length(name) BETWEEN 1 AND 120),
  version    integer NOT NULL CHECK (version >= 1),
  definition text NOT NULL,
  created_at bigint NOT NULL,
  removed_at bigint,
  PRIMARY KEY (namespace, name, version)
);

-- Who may call, as what, and into which namespace ('*': any). Of the secret only its
-- hash is kept.
CREATE TABLE pawl.api_keys (
  id           text COLLATE "C" PRIMARY KEY,
  namespace    text COLLATE "C" NOT NULL CHECK (namespace <> ''),
  name         text NOT NULL CHECK (length(name) BETWEEN 1 AND 255),
  roles        text NOT NULL,
  payloads     smallint NOT NULL DEFAULT 0 CHECK (payloads IN (0, 1)),
  rate         integer NOT NULL DEFAULT 0 CHECK (rate >= 0),
  actor_type   text NOT NULL,
  actor_id     text NOT NULL,
  secret_hash  text NOT NULL,
  refusals     bigint NOT NULL DEFAULT 0,
  created_at   bigint NOT NULL,
  expires_at   bigint,
  revoked_at   bigint,
  last_used_at bigint
);

CREATE TABLE pawl.workers (
  namespace    text COLLATE "C" NOT NULL,
  worker_id    text COLLATE "C" NOT NULL,
  name         text,
  version      text,
  types        text,
  started_at   bigint NOT NULL,
  last_seen_at bigint NOT NULL,
  PRIMARY KEY (namespace, worker_id)
);

CREATE TABLE pawl.schedules (
  namespace  text COLLATE "C" NOT NULL,
  name       text COLLATE "C" NOT NULL,
  spec       text NOT NULL,
  zone       text NOT NULL DEFAULT 'UTC',
  task       text NOT NULL,
  next_at    bigint,
  last_at    bigint,
  paused     smallint NOT NULL DEFAULT 0,
  created_at bigint NOT NULL,
  PRIMARY KEY (namespace, name)
);
CREATE INDEX schedules_due ON pawl.schedules (next_at) WHERE next_at IS NOT NULL;

CREATE TABLE pawl.signals (
  namespace  text COLLATE "C" NOT NULL,
  name       text COLLATE "C" NOT NULL,
  key        text COLLATE "C" NOT NULL DEFAULT '',
  payload    text,
  sent_at    bigint,
  created_at bigint NOT NULL,
  PRIMARY KEY (namespace, name, key)
);

-- One row per pass; id 0 holds the sum of the passes that retention removed.
CREATE TABLE pawl.sweeps (
  id                  bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
  server              text NOT NULL DEFAULT '',
  scans               bigint NOT NULL DEFAULT 1,
  expired_found       bigint NOT NULL DEFAULT 0,
  recovered           bigint NOT NULL DEFAULT 0,
  failed              bigint NOT NULL DEFAULT 0,
  checkpoints_created bigint NOT NULL DEFAULT 0,
  errors              bigint NOT NULL DEFAULT 0,
  scan_duration_ms    bigint NOT NULL DEFAULT 0,
  detail              text NOT NULL DEFAULT '{}',
  started_at          bigint NOT NULL
);

CREATE TABLE pawl.relay_cursors (
  sink       text COLLATE "C" PRIMARY KEY,
  position   bigint NOT NULL DEFAULT 0,
  detail     text NOT NULL DEFAULT '{}',
  updated_at bigint NOT NULL
);

CREATE TABLE pawl.feed_pages (
  page       bigint PRIMARY KEY,
  ids        bytea NOT NULL,
  count      integer NOT NULL,
  created_at bigint NOT NULL,
  low        bigint NOT NULL,
  high       bigint NOT NULL
);
CREATE INDEX feed_pages_of_event ON pawl.feed_pages (high, low);

-- The transparency log: a Merkle tree over the events in feed order.
CREATE TABLE pawl.log_tiles (
  level  integer NOT NULL,
  n      bigint NOT NULL,
  root   bytea NOT NULL,
  leaves bytea,
  PRIMARY KEY (level, n)
);
-- Hashes do not get smaller.
ALTER TABLE pawl.log_tiles ALTER COLUMN leaves SET STORAGE EXTERNAL;
CREATE TABLE pawl.log_runs (
  first  bigint PRIMARY KEY,
  leaves bytea NOT NULL
);
ALTER TABLE pawl.log_runs ALTER COLUMN leaves SET STORAGE EXTERNAL;
CREATE TABLE pawl.log_epochs (
  epoch      bigint PRIMARY KEY,
  origin     text NOT NULL,
  size       bigint NOT NULL,
  lost       bigint NOT NULL,
  checkpoint text NOT NULL,
  created_at bigint NOT NULL
);
CREATE TABLE pawl.log_checkpoints (
  signer     text COLLATE "C" PRIMARY KEY,
  epoch      bigint NOT NULL,
  size       bigint NOT NULL,
  note       text NOT NULL,
  created_at bigint NOT NULL
);
INSERT INTO pawl.log_epochs (epoch, origin, size, lost, checkpoint, created_at)
VALUES (1, 'pawl/' || replace(gen_random_uuid()::text, '-', ''), 0, 0, '', 0);
-- Events that were removed, packed, with the leaf that says so; NULL = not in the log yet.
CREATE TABLE pawl.log_removals (
  id         bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
  ids        bytea NOT NULL,
  leaf       bigint,
  created_at bigint NOT NULL
);
CREATE INDEX log_removals_waiting ON pawl.log_removals (id) WHERE leaf IS NULL;
-- Pages of the feed whose events are all removed.
CREATE TABLE pawl.log_pages (
  page       bigint PRIMARY KEY,
  ids        bytea NOT NULL,
  count      integer NOT NULL,
  created_at bigint NOT NULL,
  low        bigint NOT NULL,
  high       bigint NOT NULL
);
CREATE INDEX log_pages_of_event ON pawl.log_pages (high, low);

CREATE TABLE pawl.archives (
  task_id     text COLLATE "C" PRIMARY KEY,
  namespace   text COLLATE "C" NOT NULL,
  path        text,
  body        bytea,
  bytes       bigint NOT NULL,
  sha256      text COLLATE "C" NOT NULL,
  created_at  bigint NOT NULL,
  restored_at bigint
);
CREATE INDEX archives_restored ON pawl.archives (restored_at) WHERE restored_at IS NOT NULL;

-- Deleted tasks: leads to the event `deleted` that stays of each.
CREATE TABLE pawl.tombstones (
  task_id     text COLLATE "C" NOT NULL,
  event_id    bigint NOT NULL,
  namespace   text COLLATE "C" NOT NULL,
  created_at  bigint NOT NULL,
  restored_at bigint,
  PRIMARY KEY (task_id, event_id)
);
CREATE INDEX tombstones_of_namespace ON pawl.tombstones (namespace, event_id);
CREATE INDEX tombstones_by_age ON pawl.tombstones (created_at);

-- Task tokens are signed with this secret. Each database has its own.
CREATE TABLE pawl.secrets (
  name  text COLLATE "C" PRIMARY KEY,
  value text NOT NULL CHECK (length(value) >= 32)
);

INSERT INTO pawl.secrets (name, value)
VALUES ('task tokens', gen_random_uuid()::text || gen_random_uuid()::text);

-- A transaction that removes old rows puts a row here first and takes it away
-- last; without it the record refuses DELETE.
CREATE TABLE pawl.retention_gate (
  reason text NOT NULL
);

-- +goose StatementBegin
CREATE FUNCTION pawl.append_only() RETURNS trigger LANGUAGE plpgsql
AS $$ BEGIN
  IF TG_OP = 'DELETE' AND EXISTS (SELECT 1 FROM pawl.retention_gate) THEN RETURN OLD; END IF;
  RAISE EXCEPTION 'pawl: % is append-only', TG_TABLE_NAME USING ERRCODE = 'integrity_constraint_violation';
END $$;
-- +goose StatementEnd
CREATE TRIGGER log_tiles_no_update BEFORE UPDATE ON pawl.log_tiles FOR EACH ROW EXECUTE FUNCTION pawl.append_only();
CREATE TRIGGER log_tiles_no_delete BEFORE DELETE ON pawl.log_tiles FOR EACH ROW EXECUTE FUNCTION pawl.append_only();
CREATE TRIGGER checkpoints_no_update BEFORE UPDATE ON pawl.checkpoints FOR EACH ROW EXECUTE FUNCTION pawl.append_only();
CREATE TRIGGER checkpoints_no_delete BEFORE DELETE ON pawl.checkpoints FOR EACH ROW EXECUTE FUNCTION pawl.append_only();
CREATE TRIGGER task_events_no_update BEFORE UPDATE ON pawl.task_events FOR EACH ROW EXECUTE FUNCTION pawl.append_only();
CREATE TRIGGER task_events_no_delete BEFORE DELETE ON pawl.task_events FOR EACH ROW EXECUTE FUNCTION pawl.append_only();
CREATE TRIGGER finished_items_no_update BEFORE UPDATE ON pawl.finished_items FOR EACH ROW EXECUTE FUNCTION pawl.append_only();
CREATE TRIGGER finished_items_no_delete BEFORE DELETE ON pawl.finished_items FOR EACH ROW EXECUTE FUNCTION pawl.append_only();

-- The two ranks an item can have among the ready, a row each: fresh, and back
-- again.
CREATE VIEW pawl.item_ranks AS
SELECT id, namespace, task_id, type, kind, 1 - 2 * priority AS rank FROM pawl.items
UNION ALL
SELECT id, namespace, task_id, type, kind, -2 * priority FROM pawl.items;

-- Every item with its place, in raw columns: what the engine reads. The place
-- is a join, so reading one item is eight point look-ups: ready has two, fresh
-- and back again, for `rank IN (…, …)` would make PostgreSQL walk the whole type.
CREATE VIEW pawl.item_rows AS
SELECT w.id, w.namespace, w.task_id, w.type, w.kind, w.position, w.key, w.priority, w.after, w.input, w.parts_required, w.created_at,
  CASE
    WHEN l.item_id IS NOT NULL THEN l.state
    WHEN e.item_id IS NOT NULL THEN e.state
    WHEN r.item_id IS NOT NULL OR b.item_id IS NOT NULL THEN 'queued'
    WHEN s.item_id IS NOT NULL THEN 'scheduled'
    WHEN g.item_id IS NOT NULL THEN 'waiting'
    ELSE t.state
  END AS state,
  COALESCE(l.attempt, e.attempt, r.attempt, b.attempt, s.attempt, g.attempt, t.attempt, 0) AS attempt,
  COALESCE(l.failures, e.failures, r.failures, b.failures, s.failures, g.failures, t.failures, 0) AS failures,
  w.max_attempts,
  COALESCE(l.rework, e.rework, r.rework, b.rework, s.rework, g.rework, t.rework, 0) AS rework,
  COALESCE(e.left_by, r.left_by, b.left_by, s.left_by, g.left_by, t.left_by) AS left_by,
  l.worker_id,
  COALESCE(l.worker_id, e.worker_id, r.worker_id, b.worker_id, s.worker_id, g.worker_id, t.worker_id) AS last_worker_id,
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
  COALESCE(CASE WHEN l.item_id IS NOT NULL THEN GREATEST(l.heartbeat_at, l.progressed_at) END, e.ended_at, r.since, b.since, s.since, g.since, t.since, w.created_at) AS updated_at,
  COALESCE(l.solo, r.solo, b.solo, s.solo, g.solo, t.solo) AS solo
FROM pawl.items w
LEFT JOIN pawl.leases l ON l.item_id = w.id
LEFT JOIN pawl.finished_items e ON e.item_id = w.id
LEFT JOIN pawl.ready r ON r.namespace = w.namespace AND r.type = w.type AND r.rank = 1 - 2 * w.priority AND r.item_id = w.id
LEFT JOIN pawl.ready b ON b.namespace = w.namespace AND b.type = w.type AND b.rank = -2 * w.priority AND b.item_id = w.id
LEFT JOIN pawl.scheduled s ON s.item_id = w.id
LEFT JOIN pawl.waiting g ON g.item_id = w.id
LEFT JOIN pawl.parked_items t ON t.item_id = w.id;

-- Every task with its state. A task of one item whose row in task_counters says
-- open, or is not there, reads its state and version off its item. The item's
-- places are joined here once more, table by table: to the right of a LEFT JOIN
-- SQLite would make a copy of all of item_rows, for the sake of one item.
CREATE VIEW pawl.task_rows AS
SELECT x.id, x.namespace, x.type, x.type_version, x.solo, x.title, x.priority, COALESCE(x.payload, x.input) AS payload, x.metadata,
  x.requested_by_type, x.requested_by_id, x.input_hash, x.thread, x.created_at,
  CASE
    WHEN x.stored <> 'open' THEN x.stored
    WHEN x.solo = 1 THEN CASE
      WHEN x.item_state IN ('queued', 'scheduled', 'waiting') THEN 'queued'
      WHEN x.item_state = 'leased' THEN 'checked_out'
      WHEN x.item_state = 'accepted' THEN 'approved'
      ELSE x.item_state END
    WHEN x.live_open < x.live_items THEN 'in_progress'
    WHEN EXISTS (SELECT 1 FROM pawl.leases l WHERE l.task_id = x.id AND l.state = 'in_progress' AND x.planning = 0) THEN 'in_progress'
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
  SELECT t.id, t.namespace, t.type, t.type_version, t.solo, t.title, t.priority, t.payload, w.input, t.metadata,
    t.requested_by_type, t.requested_by_id, t.input_hash, t.thread, t.created_at,
    COALESCE(k.state, 'open') AS stored,
    COALESCE(k.version, 0) AS live_version, k.items AS live_items, k.open AS live_open, k.failed AS live_failed, COALESCE(k.planning, 0) AS planning, k.dead AS live_dead, k.cancelled AS live_cancelled,
    COALESCE(k.checkpoints, 0) AS checkpoints,
    COALESCE(k.pruned, 0) AS pruned,
    k.failed_in,
    CASE
      WHEN l.item_id IS NOT NULL THEN l.state
      WHEN e.item_id IS NOT NULL THEN e.state
      WHEN r.item_id IS NOT NULL OR b.item_id IS NOT NULL THEN 'queued'
      WHEN s.item_id IS NOT NULL THEN 'scheduled'
      WHEN g.item_id IS NOT NULL THEN 'waiting'
      ELSE p.state
    END AS item_state,
    COALESCE(k.error, l.error, e.error, r.error, b.error, s.error, g.error, p.error) AS error,
    COALESCE(l.stage, e.stage, p.stage) AS stage,
    l.progress,
    CASE WHEN t.solo = 1 THEN COALESCE(l.failures, e.failures, r.failures, b.failures, s.failures, g.failures, p.failures, 0) END AS retry_count,
    k.applied_at,
    COALESCE(k.completed_at, e.ended_at, p.completed_at) AS completed_at
  FROM pawl.tasks t
  LEFT JOIN pawl.task_counters k ON k.task_id = t.id
  LEFT JOIN pawl.items w ON t.solo = 1 AND w.id = 'itm_' || substr(t.id, 5)
  LEFT JOIN pawl.leases l ON l.item_id = w.id
  LEFT JOIN pawl.finished_items e ON e.item_id = w.id
  LEFT JOIN pawl.ready r ON r.namespace = w.namespace AND r.type = w.type AND r.rank = 1 - 2 * w.priority AND r.item_id = w.id
  LEFT JOIN pawl.ready b ON b.namespace = w.namespace AND b.type = w.type AND b.rank = -2 * w.priority AND b.item_id = w.id
  LEFT JOIN pawl.scheduled s ON s.item_id = w.id
  LEFT JOIN pawl.waiting g ON g.item_id = w.id
  LEFT JOIN pawl.parked_items p ON p.item_id = w.id
) x;

-- The views for people and their queries (docs/sql.md). Stable; the tables are not.
CREATE VIEW pawl.v_items AS
SELECT i.id, i.namespace, i.task_id, i.type, i.kind, i.position, i.key, i.state,
  CASE
    WHEN i.state IN ('leased', 'in_progress') AND i.lease_expires_at <= pawl.now() THEN 'expired'
    WHEN i.state IN ('queued', 'scheduled', 'waiting') THEN 'pending'
    WHEN i.state IN ('leased', 'in_progress', 'submitted', 'accepted') THEN 'in_progress'
    WHEN i.state IN ('failed', 'rejected', 'dead_lettered') THEN 'failed'
    ELSE i.state
  END AS status,
  i.priority, i.attempt, i.failures, i.max_attempts, i.rework, i.worker_id, i.last_worker_id, i.lease_seconds,
  pawl.stamp(i.lease_acquired_at) AS lease_acquired_at, pawl.stamp(i.lease_expires_at) AS lease_expires_at, pawl.stamp(i.heartbeat_at) AS heartbeat_at,
  i.progress, i.stage, i.input, i.result, i.assembled_result, i.parts_required, i.error, i.after,
  pawl.stamp(i.run_at) AS run_at, pawl.stamp(i.created_at) AS created_at, pawl.stamp(i.started_at) AS started_at, pawl.stamp(i.accepted_at) AS accepted_at,
  pawl.stamp(i.completed_at) AS completed_at, pawl.stamp(i.updated_at) AS updated_at
FROM pawl.item_rows i;

CREATE VIEW pawl.v_tasks AS
SELECT t.id, t.namespace, t.type, t.type_version, t.state,
  CASE
    WHEN t.state = 'queued' THEN 'pending'
    WHEN t.state IN ('checked_out', 'in_progress', 'submitted', 'approved', 'applied') THEN 'in_progress'
    WHEN t.state IN ('failed', 'rejected', 'dead_lettered') THEN 'failed'
    ELSE t.state
  END AS status,
  t.title, COALESCE(t.stage, t.state) AS stage, t.priority, t.payload, t.metadata, t.requested_by_type, t.requested_by_id, t.input_hash, t.thread,
  t.items, t.open, t.failed, t.dead, t.cancelled, t.checkpoints,
  CASE WHEN t.state = 'completed' THEN 100 WHEN t.solo = 1 THEN COALESCE(t.progress, 0) WHEN t.items = 0 THEN 0 ELSE LEAST(99, 100 * (t.items - t.open) / t.items) END AS progress,
  t.error, COALESCE(t.retry_count, (SELECT SUM(i.failures) FROM pawl.item_rows i WHERE i.task_id = t.id), 0) AS retry_count,
  t.failed_in, t.version,
  pawl.stamp(t.created_at) AS created_at,
  pawl.stamp(COALESCE((SELECT e.created_at FROM pawl.task_events e WHERE e.task_id = t.id ORDER BY e.id DESC LIMIT 1), t.created_at)) AS updated_at,
  pawl.stamp(COALESCE((SELECT e.created_at FROM pawl.task_events e WHERE e.task_id = t.id AND e.to_state IS NOT NULL ORDER BY e.id DESC LIMIT 1), t.created_at)) AS last_transitioned_at,
  pawl.stamp(t.applied_at) AS applied_at, pawl.stamp(t.completed_at) AS completed_at
FROM pawl.task_rows t;

CREATE VIEW pawl.v_parts AS
SELECT p.id, p.namespace, p.item_id, p.part_key, p.seq, p.status, p.payload, p.evidence, p.notes, p.errors, p.checksum,
  p.worker_id, p.attempt, p.idempotency_key_hash, pawl.stamp(p.created_at) AS created_at,
  pawl.stamp(COALESCE(p.superseded_at, p.created_at)) AS updated_at, pawl.stamp(p.superseded_at) AS superseded_at
FROM pawl.item_parts p;

CREATE VIEW pawl.v_leases AS
SELECT l.item_id, l.namespace, l.task_id, l.type, l.state, l.attempt, l.failures, l.max_attempts, l.worker_id, l.lease_seconds, l.progress, l.stage,
  pawl.stamp(l.acquired_at) AS lease_acquired_at, pawl.stamp(l.heartbeat_at) AS heartbeat_at, pawl.stamp(l.lease_expires_at) AS lease_expires_at,
  CASE WHEN l.lease_expires_at <= pawl.now() THEN 1 ELSE 0 END AS expired
FROM pawl.leases l;

CREATE VIEW pawl.v_task_results AS
SELECT e.task_id, e.namespace, e.result AS payload, pawl.stamp(e.ended_at) AS created_at
FROM pawl.finished_items e JOIN pawl.tasks t ON t.id = e.task_id AND t.solo = 1
WHERE e.state = 'completed'
UNION ALL
SELECT r.task_id, r.namespace, r.payload, pawl.stamp(r.created_at)
FROM pawl.task_results r;

CREATE VIEW pawl.v_events AS
SELECT 'evt_' || e.id AS id, e.namespace, e.task_id, e.item_id, e.attempt, e.event, e.from_state, e.to_state, e.task_from, e.task_to,
  e.actor_type, e.actor_id, e.message, e.data, e.diff, pawl.stamp(e.created_at) AS created_at
FROM pawl.task_events e;

CREATE VIEW pawl.v_checkpoints AS
SELECT c.id, c.task_id, c.item_id, c.namespace, c.attempt, c.seq, c.type, c.name, c.snapshot, c.metadata, pawl.stamp(c.created_at) AS created_at
FROM pawl.checkpoints c;
