-- name: new database
CREATE DATABASE %s TEMPLATE %s
-- name: drop database
DROP DATABASE IF EXISTS %s WITH (FORCE)
-- name: checkpoint
CHECKPOINT
-- name: wal
SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint
-- name: take a snapshot
SELECT count(*)
FROM pg_class
-- name: sizes
SELECT c.relname, pg_relation_size(c.oid) + COALESCE(pg_relation_size(c.reltoastrelid), 0), pg_indexes_size(c.oid)
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'r' AND n.nspname = $1
-- name: updates of wide rows
SELECT COALESCE(sum(n_tup_upd), 0)::bigint
FROM pg_stat_user_tables
WHERE schemaname = 'pawl' AND relname IN ('tasks', 'items', 'finished_items', 'task_events')
-- name: river done
SELECT count(*)
FROM river_job
WHERE state = 'completed'
-- name: pawl done
SELECT count(*)
FROM pawl.finished_items
WHERE state = 8 /* completed */
-- name: pawl leaves
SELECT COALESCE(MAX(position), 0)
FROM pawl.relay_cursors
WHERE sink = 'feed'
-- name: vacuum
VACUUM ANALYZE
-- name: vacuum full
VACUUM FULL
-- name: connections
SELECT count(*)
FROM pg_stat_activity
WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()
-- name: transactions
SELECT xact_commit + xact_rollback
FROM pg_stat_database
WHERE datname = current_database()
-- name: bytes
SELECT pg_database_size(current_database())
-- name: logged
SELECT wal_records, wal_bytes::bigint, wal_sync
FROM pg_stat_wal
-- name: relations
SELECT COALESCE('large values of ' || o.relname, c.relname), pg_relation_size(c.oid)
FROM pg_class c
JOIN pg_namespace s ON s.oid = c.relnamespace
LEFT JOIN pg_class o ON o.reltoastrelid = c.oid
WHERE (s.nspname = 'pawl' OR o.relnamespace = 'pawl'::regnamespace) AND c.relkind IN ('r', 'i', 't') AND pg_relation_size(c.oid) > $1::int
ORDER BY 2 DESC
-- name: river clean
DELETE FROM river_job
WHERE id IN (
  SELECT id
  FROM river_job
  WHERE state = 'completed' AND finalized_at < now()
  ORDER BY id
  LIMIT 1000)
-- name: dbos done
SELECT count(*)
FROM dbos.workflow_status
WHERE status = 'SUCCESS'
-- name: dbos left
SELECT count(*)
FROM dbos.workflow_status
WHERE status <> 'SUCCESS'
-- name: pg-boss done
SELECT count(*)
FROM pgboss.job
WHERE name = 'bench' AND state = 'completed'
-- name: graphile-worker done
SELECT last_value - (SELECT count(*) FROM graphile_worker._private_jobs)
FROM graphile_worker.jobs_id_seq1
-- name: awa done
SELECT (SELECT count(*) FROM awa.jobs WHERE state = 'completed') +
       (SELECT COALESCE(sum(pruned_completed_count), 0) FROM awa.queue_terminal_rollups)::bigint
-- name: load
SELECT COALESCE(sum(s.n_dead_tup), 0)::float, COALESCE(sum(pg_table_size(s.relid)), 0)::float,
       COALESCE(sum(pg_indexes_size(s.relid)), 0)::float
FROM pg_stat_user_tables s
WHERE s.schemaname = 'pawl'
