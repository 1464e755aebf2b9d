-- oldest: 1
-- +goose Up
-- Keys of queues that nobody uses any more.

-- Since when a sweep has found no use of the gate. Whoever reads its number to use it sets NULL,
-- and keeps the number for minutes at most. After an hour a sweep removes the row. The highest
-- number stays, so that none is given twice.
ALTER TABLE pawl.gates ADD COLUMN idle_since bigint;
CREATE INDEX parked_items_of_gate ON pawl.parked_items (gate) WHERE gate IS NOT NULL;
