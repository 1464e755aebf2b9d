-- oldest: 1
-- +goose Up
-- API keys: who may call, as what, and into which namespace ('*': any). Of the
-- secret only its hash is kept. A lease belongs to the key that claimed it. What
-- a whole call answered is kept with its idempotency key, Location and all.
CREATE TABLE pawl.api_keys (
  id           text COLLATE "C" PRIMARY KEY,
  namespace    text COLLATE "C" NOT NULL CHECK (namespace <> ''),
  name         text NOT NULL CHECK (length(name) BETWEEN 1 AND 255),
  roles        text NOT NULL,
  payloads     smallint NOT NULL DEFAULT 0 CHECK (payloads IN (0, 1)),
  rate         integer NOT NULL DEFAULT 0 CHECK (rate >= 0),
  actor_type   text NOT NULL,
  actor_id     text NOT NULL,
  secret_hash  text NOT NULL,
  refusals     bigint NOT NULL DEFAULT 0,
  created_at   bigint NOT NULL,
  expires_at   bigint,
  revoked_at   bigint,
  last_used_at bigint
);

ALTER TABLE pawl.leases ADD COLUMN key_id text COLLATE "C";

ALTER TABLE pawl.idempotency_keys ADD COLUMN location text;
