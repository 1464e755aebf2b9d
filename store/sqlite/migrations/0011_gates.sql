-- oldest: 1
-- +goose Up
-- Keys of queues that nobody uses any more.

-- Since when a sweep has found no use of the gate. Whoever reads its number to use it sets NULL,
-- and keeps the number for minutes at most. After an hour a sweep removes the row. The highest
-- number stays, so that none is given twice.
ALTER TABLE gates ADD COLUMN idle_since INTEGER;
CREATE INDEX parked_items_of_gate ON parked_items (gate) WHERE gate IS NOT NULL;

-- A process that was frozen may know the number of a gate that is gone. A claim that finds the hint
-- has the queue searched for items without a gate. Only a gate without a pointer needs no hint.
DROP TRIGGER ready_hint;
-- +goose StatementBegin
CREATE TRIGGER ready_hint AFTER INSERT ON ready
WHEN NEW.gate IS NOT NULL
BEGIN
  INSERT OR IGNORE INTO gate_hints (queue_id, at, gate, tx)
  SELECT NEW.queue_id, 0, NEW.gate, 0
  WHERE NOT EXISTS (SELECT 1 FROM gates x WHERE x.id = NEW.gate AND x.pointer = '');
END;
-- +goose StatementEnd
