-- oldest: 1
-- +goose Up
-- What the engine owes a task by itself (todo = 1): to see whether it is ready
-- for approval, to approve it by rule, to apply it. Until when somebody is to
-- decide.
ALTER TABLE task_live ADD COLUMN todo INTEGER NOT NULL DEFAULT 0;
ALTER TABLE task_live ADD COLUMN decide_by INTEGER;
CREATE INDEX task_live_todo ON task_live (task_id) WHERE todo = 1;
CREATE INDEX task_live_decide_by ON task_live (decide_by) WHERE decide_by IS NOT NULL;
