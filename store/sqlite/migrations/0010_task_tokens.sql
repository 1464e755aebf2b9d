-- oldest: 1
-- +goose Up
-- What task tokens are made under: one secret a database, made here and kept.
CREATE TABLE secrets (
  name  TEXT PRIMARY KEY,
  value TEXT NOT NULL CHECK (length(value) >= 32)
) STRICT, WITHOUT ROWID;

INSERT INTO secrets (name, value)
VALUES ('task tokens', hex(randomblob(32)));
