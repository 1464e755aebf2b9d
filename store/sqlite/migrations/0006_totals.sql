-- oldest: 1
-- +goose Up
-- Totals without counting rows.

-- How many events of each kind there are, of those that have positions: the states of items and
-- tasks follow from them. type is that of the item, or of the task; '' = the task was gone. Only a
-- transaction that has locked the feed changes rows.
CREATE TABLE totals (
  namespace TEXT NOT NULL,
  type      TEXT NOT NULL,
  move      INTEGER NOT NULL,
  events    INTEGER NOT NULL,
  PRIMARY KEY (namespace, type, move)
) STRICT, WITHOUT ROWID;

-- What a removal takes away from the totals, as JSON, until it has its leaf.
ALTER TABLE log_removals ADD COLUMN counts TEXT;

-- The oldest item of a queue by state, and the lists of items by type and state.
CREATE INDEX scheduled_of_queue ON scheduled (queue_id, item_id);
CREATE INDEX waiting_of_queue ON waiting (queue_id, item_id);
CREATE INDEX parked_items_of_queue ON parked_items (queue_id, state, item_id);

-- The items of tasks of many that are not queued yet.
CREATE INDEX scheduled_of_many ON scheduled (task_id) WHERE solo = 0;
CREATE INDEX waiting_of_many ON waiting (task_id) WHERE solo = 0;
