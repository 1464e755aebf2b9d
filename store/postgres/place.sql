-- Where the database is; see store.Place.

-- name: may read system
SELECT has_function_privilege('pg_control_system()', 'EXECUTE')

-- name: system
SELECT c.system_identifier::text
FROM pg_control_system() c

-- name: place
SELECT (SELECT d.oid::bigint FROM pg_database d WHERE d.datname = current_database()),
  (SELECT t.relnamespace::bigint FROM pg_class t WHERE t.oid = 'pawl.places'::regclass)
