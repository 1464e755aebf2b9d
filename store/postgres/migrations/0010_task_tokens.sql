-- oldest: 1
-- +goose Up
-- What task tokens are made under: one secret a database, made here and kept.
CREATE TABLE pawl.secrets (
  name  text COLLATE "C" PRIMARY KEY,
  value text NOT NULL CHECK (length(value) >= 32)
);

INSERT INTO pawl.secrets (name, value)
VALUES ('task tokens', gen_random_uuid()::text || gen_random_uuid()::text);
