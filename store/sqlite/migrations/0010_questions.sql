-- oldest: 1
-- +goose Up
-- One question for each budget: all items that wait for more of it ask by the same task. Items of
-- queues with limits that came back without a key.

DROP INDEX pawl.budget_questions_of_task;
CREATE INDEX pawl.budget_questions_by_task ON pawl.budget_questions (task_id);

-- The period in which the item was refused because its question was rejected. NULL = it was not.
ALTER TABLE pawl.budget_questions ADD COLUMN told_in INTEGER;
