-- oldest: 1
-- +goose Up
-- What the engine owes a task by itself (todo = 1): to see whether it is ready
-- for approval, to approve it by rule, to apply it. Until when somebody is to
-- decide.
ALTER TABLE pawl.task_live ADD COLUMN todo smallint NOT NULL DEFAULT 0;
ALTER TABLE pawl.task_live ADD COLUMN decide_by bigint;
CREATE INDEX task_live_todo ON pawl.task_live (task_id) WHERE todo = 1;
CREATE INDEX task_live_decide_by ON pawl.task_live (decide_by) WHERE decide_by IS NOT NULL;
