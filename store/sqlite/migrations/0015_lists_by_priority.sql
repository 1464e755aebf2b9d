-- oldest: 1
-- +goose Up
-- Most tasks have priority 0. They are not in this index; lists in order of
-- priority read them by namespace.
DROP INDEX tasks_by_priority;
CREATE INDEX tasks_by_priority ON tasks (namespace, priority, id) WHERE priority <> 0;
