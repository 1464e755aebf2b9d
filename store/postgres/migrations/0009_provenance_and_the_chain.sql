-- oldest: 1
-- +goose Up
-- What somebody said of himself is kept with the event of what he did. The events
-- of each task are sealed after their commit, in feed order: a row for each look,
-- with their numbers (packed) and, for each, 43 characters of SHA-256 over the
-- link before and the event. last counts the task's sealed events up to the row's
-- end. How far the feed is sealed stands under 'seal'.
ALTER TABLE pawl.provenances ADD COLUMN attempt integer;
ALTER TABLE pawl.provenances ADD COLUMN event_id bigint;
CREATE INDEX provenances_of_event ON pawl.provenances (event_id) WHERE event_id IS NOT NULL;

CREATE TABLE pawl.seals (
  task_id    text COLLATE "C" NOT NULL,
  namespace  text COLLATE "C" NOT NULL,
  last       bigint NOT NULL,
  count      integer NOT NULL,
  ids        text NOT NULL,
  links      text NOT NULL,
  created_at bigint NOT NULL,
  PRIMARY KEY (task_id, last)
);
CREATE TRIGGER seals_no_update BEFORE UPDATE ON pawl.seals FOR EACH ROW EXECUTE FUNCTION pawl.append_only();
CREATE TRIGGER seals_no_delete BEFORE DELETE ON pawl.seals FOR EACH ROW EXECUTE FUNCTION pawl.append_only();
INSERT INTO pawl.relay_cursors (sink, position, detail, updated_at) VALUES ('seal', 0, '{}', 0);
