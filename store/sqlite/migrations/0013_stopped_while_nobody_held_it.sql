-- oldest: 1
-- +goose Up
-- A claim says which message of its item is open, or was stopped while nobody held
-- the item, or by a holder who did not live to learn.
CREATE INDEX messages_of_claim ON messages (item_id, state, id) WHERE state IN ('streaming', 'stopped');
