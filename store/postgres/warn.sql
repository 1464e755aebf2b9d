-- What keeps the tables from being vacuumed; a login without pg_monitor sees its own connections.

-- name: transactions
SELECT current_setting('autovacuum') = 'off', a.pid::text, EXTRACT(EPOCH FROM clock_timestamp() - a.xact_start)::float8
FROM (SELECT 1) one
LEFT JOIN (
  SELECT s.pid, s.xact_start
  FROM pg_stat_activity s
  WHERE s.datname = current_database() AND s.pid <> pg_backend_pid() AND s.backend_xmin IS NOT NULL AND s.backend_type = 'client backend'
    AND s.xact_start < clock_timestamp() - make_interval(secs => $1)
  ORDER BY s.xact_start
  LIMIT 1
) a ON TRUE

-- name: dead rows
SELECT s.relname, format('%I.%I', s.schemaname, s.relname), s.n_dead_tup, s.n_live_tup
FROM pg_stat_user_tables s
WHERE s.schemaname = $1 AND s.n_dead_tup > $2 AND s.n_dead_tup > s.n_live_tup
ORDER BY s.relname
LIMIT $3
