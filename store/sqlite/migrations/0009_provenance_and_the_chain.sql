-- oldest: 1
-- +goose Up
-- What somebody said of himself is kept with the event of what he did. The events
-- of each task are sealed after their commit, in feed order: a row for each look,
-- with their numbers (packed) and, for each, 43 characters of SHA-256 over the
-- link before and the event. last counts the task's sealed events up to the row's
-- end. How far the feed is sealed stands under 'seal'.
ALTER TABLE provenances ADD COLUMN attempt INTEGER;
ALTER TABLE provenances ADD COLUMN event_id INTEGER;
CREATE INDEX provenances_of_event ON provenances (event_id) WHERE event_id IS NOT NULL;

CREATE TABLE seals (
  task_id    TEXT NOT NULL,
  namespace  TEXT NOT NULL,
  last       INTEGER NOT NULL,
  count      INTEGER NOT NULL,
  ids        TEXT NOT NULL,
  links      TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (task_id, last)
) STRICT, WITHOUT ROWID;
-- +goose StatementBegin
CREATE TRIGGER seals_no_update BEFORE UPDATE ON seals
BEGIN SELECT RAISE(ABORT, 'pawl: seals is append-only'); END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER seals_no_delete BEFORE DELETE ON seals
WHEN NOT EXISTS (SELECT 1 FROM retention_gate)
BEGIN SELECT RAISE(ABORT, 'pawl: seals is append-only'); END;
-- +goose StatementEnd
INSERT INTO relay_cursors (sink, position, detail, updated_at) VALUES ('seal', 0, '{}', 0);
