-- oldest: 1
-- +goose Up
-- What is stuck and why: groups of failures, and the search of tasks.

-- The group of failures that a failed or dead-lettered item belongs to: Failure.Key of its
-- error. NULL in other states, and in rows that an older program wrote: a sweep sets it there.
ALTER TABLE pawl.parked_items ADD COLUMN failure INTEGER;

-- Large values are the last columns, as in migration 2: the text of an empty table is changed.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema
SET sql = replace(replace(sql, ', failure INTEGER', ''), '  result           TEXT', '  failure INTEGER,
  result           TEXT')
WHERE type = 'table' AND name = 'pawl.parked_items' AND NOT EXISTS (SELECT 1 FROM pawl.parked_items);
PRAGMA writable_schema = RESET;

CREATE INDEX pawl.parked_items_by_failure ON pawl.parked_items (queue_id, failure, state, since, item_id) WHERE failure IS NOT NULL;
CREATE INDEX pawl.parked_items_without_failure ON pawl.parked_items (item_id) WHERE failure IS NULL AND error IS NOT NULL AND (state = @state(failed) OR state = @state(dead_lettered));

-- Items that ended and did not complete, in the order of a list of items.
CREATE INDEX pawl.finished_items_in_order ON pawl.finished_items (state, item_id) WHERE state <> @state(completed);

-- The search of tasks by their title, and the types of tasks that may have no queue: those
-- whose items are of other types.
CREATE INDEX pawl.tasks_by_title ON pawl.tasks (namespace, @lower(title), id) WHERE title IS NOT NULL;
CREATE INDEX pawl.tasks_of_other_items ON pawl.tasks (namespace, type) WHERE solo = 0 OR item_type IS NOT NULL;
