-- oldest: 1
-- +goose Up
-- API keys: who may call, as what, and into which namespace ('*': any). Of the
-- secret only its hash is kept. A lease belongs to the key that claimed it. What
-- a whole call answered is kept with its idempotency key, Location and all.
CREATE TABLE api_keys (
  id           TEXT PRIMARY KEY,
  namespace    TEXT NOT NULL CHECK (namespace <> ''),
  name         TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 255),
  roles        TEXT NOT NULL,
  payloads     INTEGER NOT NULL DEFAULT 0 CHECK (payloads IN (0, 1)),
  rate         INTEGER NOT NULL DEFAULT 0 CHECK (rate >= 0),
  actor_type   TEXT NOT NULL,
  actor_id     TEXT NOT NULL,
  secret_hash  TEXT NOT NULL,
  refusals     INTEGER NOT NULL DEFAULT 0,
  created_at   INTEGER NOT NULL,
  expires_at   INTEGER,
  revoked_at   INTEGER,
  last_used_at INTEGER
) STRICT, WITHOUT ROWID;

ALTER TABLE leases ADD COLUMN key_id TEXT;

ALTER TABLE idempotency_keys ADD COLUMN location TEXT;
