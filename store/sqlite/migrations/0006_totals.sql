-- oldest: 1
-- +goose Up
-- Totals without counting rows.

-- How many events of each kind there are, of those that have positions: the states of items and
-- tasks follow from them. type is that of the item, or of the task; '' = the task was gone. Only a
-- transaction that has locked the feed changes rows.
CREATE TABLE pawl.totals (
  namespace TEXT NOT NULL,
  type      TEXT NOT NULL,
  move      INTEGER NOT NULL,
  events    INTEGER NOT NULL,
  PRIMARY KEY (namespace, type, move)
) STRICT, WITHOUT ROWID;

-- What a removal takes away from the totals, as JSON, until it has its leaf.
ALTER TABLE pawl.log_removals ADD COLUMN counts TEXT;

-- The oldest item of a queue by state, and the lists of items by type and state.
CREATE INDEX pawl.scheduled_of_queue ON pawl.scheduled (queue_id, item_id);
CREATE INDEX pawl.waiting_of_queue ON pawl.waiting (queue_id, item_id);
CREATE INDEX pawl.parked_items_of_queue ON pawl.parked_items (queue_id, state, item_id);

-- The items of tasks of many that are not queued yet.
CREATE INDEX pawl.scheduled_of_many ON pawl.scheduled (task_id) WHERE solo = 0;
CREATE INDEX pawl.waiting_of_many ON pawl.waiting (task_id) WHERE solo = 0;
