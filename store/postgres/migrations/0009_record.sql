-- oldest: 1
-- +goose Up
-- What is recorded of a worker's call, so that a repeated one is recognised.

-- A digest of the call that ended a lease: of its verb, worker and body. NULL = another event.
ALTER TABLE pawl.task_events ADD COLUMN request bigint;
