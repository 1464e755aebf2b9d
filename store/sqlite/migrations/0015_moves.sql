-- oldest: 1
-- +goose Up
-- Moves of a database, or of one namespace, to another database.

-- A move has a row on both sides. namespace: '' = the whole database. step says what is done: 'copying'
-- = rows are copied while the source is used; 'fenced' = the source refuses changes; 'flipped' = the
-- target has it; 'done' = nothing is left to do. peer is where the other side is, url what callers are
-- told. The fence falls by itself at fenced_until, when the mover has died. mover is the process
-- that moves: another one that goes on puts itself there, and the first one writes nothing any more. open = 1: the
-- present transaction is the mover's; no other transaction ever sees that.
CREATE TABLE pawl.relocations (
  id         TEXT PRIMARY KEY,
  side       TEXT NOT NULL CHECK (side IN ('source', 'target')),
  namespace  TEXT NOT NULL,
  step       TEXT NOT NULL CHECK (step IN ('copying', 'fenced', 'flipped', 'done')),
  peer       TEXT NOT NULL,
  url        TEXT,
  fenced_until INTEGER,
  mover      TEXT NOT NULL DEFAULT '',
  open       INTEGER NOT NULL DEFAULT 0 CHECK (open IN (0, 1)),
  detail     TEXT NOT NULL DEFAULT '{}',
  created_at INTEGER NOT NULL,
  changed_at INTEGER NOT NULL
) STRICT;

-- What was changed in the source since it is copied: a table, and the key of a row as a JSON array.
CREATE TABLE pawl.relocation_changes (
  id    INTEGER PRIMARY KEY AUTOINCREMENT,
  named TEXT NOT NULL,
  key   TEXT NOT NULL
) STRICT;

-- Numbers that rows of a namespace have in the target in place of those of the source, until the move is
-- over. kind is the table whose rows have the numbers.
CREATE TABLE pawl.relocation_numbers (
  kind TEXT NOT NULL,
  was  INTEGER NOT NULL,
  now  INTEGER NOT NULL,
  PRIMARY KEY (kind, was)
) STRICT;
