-- oldest: 1
-- +goose Up
-- One question for each budget: all items that wait for more of it ask by the same task. Items of
-- queues with limits that came back without a key.

DROP INDEX pawl.budget_questions_of_task;
CREATE INDEX budget_questions_by_task ON pawl.budget_questions (task_id);

-- The period in which the item was refused because its question was rejected. NULL = it was not.
ALTER TABLE pawl.budget_questions ADD COLUMN told_in bigint;

-- A transaction may not see the gate of its item yet. Only a gate without a pointer needs no hint.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.hint_gate() RETURNS trigger LANGUAGE plpgsql
AS $$
DECLARE
  of_queue integer;
  of_gate  integer;
BEGIN
  IF TG_OP = 'DELETE' THEN
    of_queue := OLD.queue_id;
    of_gate := OLD.gate;
  ELSE
    of_queue := NEW.queue_id;
    of_gate := NEW.gate;
  END IF;
  INSERT INTO pawl.gate_hints (queue_id, at, gate, tx)
  SELECT of_queue, 0, of_gate, pg_current_xact_id()::text::bigint
  WHERE NOT EXISTS (SELECT 1 FROM pawl.gates x WHERE x.id = of_gate AND x.pointer = '')
  ON CONFLICT DO NOTHING;
  RETURN NULL;
END $$;
-- +goose StatementEnd

-- An item that was claimed before the first limits and comes back after them has no gate. A row of
-- gate_hints with at = -1 has the queue searched for such items.
-- +goose StatementBegin
CREATE FUNCTION pawl.hint_search() RETURNS trigger LANGUAGE plpgsql
AS $$
BEGIN
  INSERT INTO pawl.gate_hints (queue_id, at, gate, tx)
  SELECT q.id, -1, 0, pg_current_xact_id()::text::bigint
  FROM pawl.queues q
  WHERE q.id = NEW.queue_id AND q.limited IS NOT NULL
  ON CONFLICT DO NOTHING;
  RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER ready_hint_search AFTER INSERT ON pawl.ready FOR EACH ROW WHEN (NEW.gate IS NULL AND NEW.attempt > 0) EXECUTE FUNCTION pawl.hint_search();
