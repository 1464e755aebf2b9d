-- oldest: 1
-- +goose Up
-- The SHA-256 of the input or the result that an event stands for, as the verb stored it that held the value. NULL = it
-- stands for none, or the log reads the value.

ALTER TABLE pawl.task_events ADD COLUMN digest BLOB;
