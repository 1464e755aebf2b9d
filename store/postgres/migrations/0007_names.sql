-- oldest: 1
-- +goose Up
-- The checkpoints that a task has itself, found by their names.
CREATE INDEX checkpoints_by_name ON pawl.checkpoints (task_id, name, seq) WHERE item_id IS NULL AND name IS NOT NULL;

-- The codes of new events. The rows that exist fit the new CHECK too: they are not read.
-- generated: the codes of events
INSERT INTO pawl.moves (code, class, event, from_state, to_state, task_from, task_to)
VALUES
  (151, 'task', 'pruned', NULL, NULL, NULL, NULL);
-- end of what is generated
ALTER TABLE pawl.task_events
  DROP CONSTRAINT task_events_move,
  ADD CONSTRAINT task_events_move CHECK (move BETWEEN 1 AND 151) NOT VALID;
