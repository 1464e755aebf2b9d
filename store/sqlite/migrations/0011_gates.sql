-- oldest: 1
-- +goose Up
-- Keys of queues that nobody uses any more.

-- Since when a sweep has found no use of the gate. Whoever reads its number to use it sets NULL,
-- and keeps the number for minutes at most. After an hour a sweep removes the row. The highest
-- number stays, so that none is given twice.
ALTER TABLE pawl.gates ADD COLUMN idle_since INTEGER;
CREATE INDEX pawl.parked_items_of_gate ON pawl.parked_items (gate) WHERE gate IS NOT NULL;

-- A process that was frozen may know the number of a gate that is gone. A claim that finds the hint
-- has the queue searched for items without a gate. Only a gate without a pointer needs no hint.
DROP TRIGGER pawl.ready_hint;
-- +goose StatementBegin
CREATE TRIGGER pawl.ready_hint AFTER INSERT ON pawl.ready
WHEN NEW.gate IS NOT NULL
BEGIN
  INSERT OR IGNORE INTO pawl.gate_hints (queue_id, at, gate, tx)
  SELECT NEW.queue_id, 0, NEW.gate, 0
  WHERE NOT EXISTS (SELECT 1 FROM pawl.gates x WHERE x.id = NEW.gate AND x.pointer = '');
END;
-- +goose StatementEnd
