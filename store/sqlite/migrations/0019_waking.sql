-- oldest: 1
-- +goose Up
-- A signal that was sent to more items than one transaction queues notes what is left: who sent it, and since when the
-- newest of the items has waited.

ALTER TABLE pawl.signals ADD COLUMN waking TEXT;
CREATE INDEX pawl.signals_waking ON pawl.signals (namespace, name, key) WHERE waking IS NOT NULL;
