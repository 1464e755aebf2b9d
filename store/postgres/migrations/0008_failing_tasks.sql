-- oldest: 1
-- +goose Up
-- Open tasks with a failed item: types may have the rest of them cancelled.
CREATE INDEX task_live_failing ON pawl.task_live (task_id) WHERE state = 'open' AND failed > 0;
