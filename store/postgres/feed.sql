-- The order in which transactions become visible; see store.Commits.

-- The highest number drawn for an event; the snapshot does not limit it. If the process
-- stops running in this transaction, it soon loses its connection.
-- name: drawn
SELECT CASE WHEN s.is_called THEN s.last_value ELSE s.last_value - 1 END, set_config('idle_in_transaction_session_timeout', '5s', true)
FROM pawl.task_events_id_seq s

-- name: among
SELECT e.id
FROM unnest($1::bigint[], $2::bigint[]) AS s (low, high),
  LATERAL (
    SELECT e.id
    FROM pawl.task_events e
    WHERE e.id >= s.low AND e.id <= s.high
    OFFSET 0) e
ORDER BY e.id

-- name: horizon
SELECT pg_snapshot_xmin(s.now)::text::bigint, pg_snapshot_xmax(s.now)::text::bigint
FROM (SELECT pg_current_snapshot() AS now) s

-- A transaction holds a lock on its own id from its first statement on. It has a number
-- only after its first write.
-- name: open
SELECT l.virtualtransaction || ' ' || COALESCE(a.backend_xid::text, '')
FROM pg_locks l
JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.locktype = 'virtualxid' AND l.mode = 'ExclusiveLock' AND l.pid <> pg_backend_pid() AND a.datname = current_database()

-- name: prepared
SELECT p.transaction::text
FROM pg_prepared_xacts p
WHERE p.database = current_database()

-- A promoted standby is on another timeline. The name of a WAL file begins with the
-- timeline; the control file has it only after the next checkpoint.
-- name: server
SELECT (SELECT c.system_identifier::text FROM pg_control_system() c),
  CASE WHEN pg_is_in_recovery() THEN 0 ELSE ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint END,
  pg_is_in_recovery()

-- The state of the feed, the server, and the highest number drawn, in one statement.
-- name: state
SELECT COALESCE(f.position, 0), COALESCE(f.detail, ''), COALESCE(f.updated_at, 0), (SELECT c.system_identifier::text FROM pg_control_system() c),
  CASE WHEN pg_is_in_recovery() THEN 0 ELSE ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint END,
  pg_is_in_recovery(), CASE WHEN s.is_called THEN s.last_value ELSE s.last_value - 1 END
FROM pawl.task_events_id_seq s
LEFT JOIN pawl.relay_cursors f ON f.sink = 'feed'

-- A login without pg_monitor reads NULL for the state of other logins' connections.
-- name: set-up
SELECT clock_timestamp(), current_setting('synchronous_commit'),
  (SELECT COUNT(*) FROM pg_stat_replication r WHERE r.state IN ('streaming', 'catchup') AND r.sync_state = 'async' AND r.application_name <> 'pg_basebackup'),
  (SELECT COUNT(*) FROM pg_stat_replication r WHERE r.sync_state IN ('sync', 'quorum')),
  (SELECT COUNT(*) FROM pg_stat_replication r WHERE r.state IS NULL)
