-- oldest: 1
-- +goose Up
-- Why an item was sent back for rework, the last time it was: the complaints as
-- JSON. It stays when a later failure takes the place of the item's error.
ALTER TABLE pawl.work_items ADD COLUMN reasons text;
