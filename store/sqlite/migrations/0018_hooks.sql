-- oldest: 1
-- +goose Up
-- The hooks that some process has of a type. A process without them leaves the decision to one that has them.

CREATE TABLE pawl.type_hooks (
  type TEXT NOT NULL,
  hook TEXT NOT NULL CHECK (hook IN ('AutoApprove', 'Check')),
  PRIMARY KEY (type, hook)
) STRICT, WITHOUT ROWID;
