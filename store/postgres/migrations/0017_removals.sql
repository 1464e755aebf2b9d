-- oldest: 1
-- +goose Up
-- A statement that removes rows asks once whether it may, and not for each row: see append_only.

DROP TRIGGER checkpoints_no_delete ON pawl.checkpoints;
DROP TRIGGER task_events_no_delete ON pawl.task_events;
DROP TRIGGER finished_items_no_delete ON pawl.finished_items;
CREATE TRIGGER checkpoints_no_delete BEFORE DELETE ON pawl.checkpoints FOR EACH STATEMENT EXECUTE FUNCTION pawl.append_only();
CREATE TRIGGER task_events_no_delete BEFORE DELETE ON pawl.task_events FOR EACH STATEMENT EXECUTE FUNCTION pawl.append_only();
CREATE TRIGGER finished_items_no_delete BEFORE DELETE ON pawl.finished_items FOR EACH STATEMENT EXECUTE FUNCTION pawl.append_only();

-- A foreign key asked for each task that was removed whether a row refers to it. The rows are unlinked or removed
-- before, and a call that adds one keeps its task.
ALTER TABLE pawl.idempotency_keys DROP CONSTRAINT IF EXISTS idempotency_keys_task_id_fkey;
ALTER TABLE pawl.provenances DROP CONSTRAINT IF EXISTS provenances_task_id_fkey;
