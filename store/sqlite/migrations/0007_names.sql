-- oldest: 1
-- +goose Up
-- The checkpoints that a task has itself, found by their names.
CREATE INDEX pawl.checkpoints_by_name ON pawl.checkpoints (task_id, name, seq) WHERE item_id IS NULL AND name IS NOT NULL;

-- The codes of new events: see migration 2. The index above tells other connections to read the
-- schema again.
-- generated: the codes of events
INSERT INTO pawl.moves (code, class, event, from_state, to_state, task_from, task_to)
VALUES
  (151, 'task', 'pruned', NULL, NULL, NULL, NULL);
-- end of what is generated
PRAGMA writable_schema = ON;
UPDATE sqlite_schema
SET sql = replace(sql, 'CHECK (move' || ' BETWEEN 1 AND 150)', 'CHECK (move BETWEEN 1 AND 151)')
WHERE type = 'table' AND name = 'pawl.task_events';
PRAGMA writable_schema = RESET;
