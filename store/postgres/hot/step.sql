-- Checkpoint for one call whose lease is in progress and that leaves no event: the steps of
-- a handler are such calls. For any other call it returns no row; the caller then runs the
-- statement for many calls.
WITH k AS MATERIALIZED (
  SELECT task_id, namespace, lease_expires_at
  FROM pawl.leases
  WHERE item_id = $1::uuid AND namespace = $2::text AND worker = @worker($3::text) AND attempt = $4::int AND state = @state(in_progress)
  FOR UPDATE),
n AS MATERIALIZED (SELECT pawl.now() AS now FROM (SELECT count(*) FROM k) locked),
u AS (
  INSERT INTO pawl.task_counters (task_id, namespace, checkpoints)
  SELECT task_id, namespace, 1
  FROM k, n
  WHERE k.lease_expires_at > n.now
  ON CONFLICT (task_id) DO UPDATE
  SET checkpoints = task_counters.checkpoints + 1
  RETURNING task_id, checkpoints),
saved AS (
  INSERT INTO pawl.checkpoints (id, namespace, task_id, item_id, attempt, seq, type, name, args_hash, snapshot, metadata, created_at)
  SELECT $5::text, $2::text, task_id, $1::uuid, $4::int, checkpoints, $6::text, $7::text, $8::text, $9::text, $10::text, now
  FROM u, n)
SELECT checkpoints
FROM u
