WITH n AS MATERIALIZED (SELECT pawl.now() AS now),
t AS MATERIALIZED (
  SELECT @filled(new_task, $27 + given), COALESCE(items, ($1::int[])[1]) AS items, @actors($3, $4)[COALESCE(actor, ($2::int[])[1])] AS actor, data, key_id, digest,
    @queues($8, $10)[COALESCE(queue, ($23::int[])[1])] AS queue_id
  FROM unnest($1::int[], $2::int[], $5::text[], $6::text[], $23::int[], $25::bytea[], @arrays(new_task, $27 + given))
    AS t(items, actor, data, key_id, queue, digest, @columns(new_task))),
i AS MATERIALIZED (
  SELECT id, ($8::text[])[COALESCE(queue, ($22::int[])[1])] AS namespace, COALESCE(task_id, ($9::uuid[])[1]) AS task_id, ($10::text[])[COALESCE(queue, ($22::int[])[1])] AS type, @queues($8, $10)[COALESCE(queue, ($22::int[])[1])] AS queue_id,
    COALESCE(kind, 'work') AS kind, COALESCE(position, 0) AS position, key, COALESCE(priority, 0::smallint) AS priority,
    run_at, deadline, after, COALESCE(needs, 0) AS needs, input, @actors($3, $4)[COALESCE(actor, ($19::int[])[1])] AS actor, data, key_id, digest, @filled(given, $27), n.now,
    CASE WHEN i.needs > 0 THEN 'waiting' WHEN i.run_at > n.now THEN 'scheduled' ELSE 'queued' END AS state
  FROM unnest($7::uuid[], $9::uuid[], $11::text[], $12::int[], $13::text[], $14::smallint[],
    $15::bigint[], $16::text[], $17::int[], $18::text[], $19::int[], $20::text[], $21::text[], $22::int[], $24::bigint[], $26::bytea[], @arrays(given, $27))
    AS i(id, task_id, kind, position, key, priority, run_at, after, needs, input, actor, data, key_id, queue, deadline, digest, @columns(given)), n),
task AS (
  INSERT INTO pawl.tasks (@columns(new_task), queue_id, created_at)
  SELECT @columns(new_task), queue_id, now
  FROM t, n),
live AS (
  INSERT INTO pawl.task_counters (task_id, namespace, items, open)
  SELECT id, namespace, items, items
  FROM t
  WHERE solo = 0),
item AS (
  INSERT INTO pawl.items (id, namespace, queue_id, task_id, type, kind, position, key, priority, max_attempts, run_at, after, input, created_at, deadline)
  SELECT id, namespace, queue_id, task_id, type, kind, position, key, priority, max_attempts, run_at, after, input, now, deadline
  FROM i
  WHERE solo <> 1),
ready AS (
  INSERT INTO pawl.ready (queue_id, rank, item_id, task_id, since, @columns(given))
  SELECT queue_id, @new_rank(priority), id, task_id, CASE WHEN schedule_to_start IS NOT NULL THEN now END, @columns(given)
  FROM i
  WHERE state = 'queued'),
scheduled AS (
  INSERT INTO pawl.scheduled (item_id, queue_id, task_id, priority, run_at, @columns(given))
  SELECT id, queue_id, task_id, priority, run_at, @columns(given)
  FROM i
  WHERE state = 'scheduled'),
waiting AS (
  INSERT INTO pawl.waiting (item_id, queue_id, task_id, priority, until, needs, @columns(given))
  SELECT id, queue_id, task_id, priority, run_at, needs, @columns(given)
  FROM i
  WHERE state = 'waiting'),
deps AS (
  INSERT INTO pawl.item_deps (@columns(item_deps))
  SELECT @columns(item_deps)
  FROM unnest(@arrays(item_deps, $27 + given + new_task)) AS d(@columns(item_deps))),
-- The events are inserted in the order given, a task's before its items': Append reads its
-- second input after the first. So the ids of a task's events rise in this order.
event AS (
  INSERT INTO pawl.task_events (namespace, task_id, item_id, move, actor, key_id, data, created_at, queue_id, digest)
  SELECT namespace, id, NULL, @move(proposed, -, 'open', task), actor, key_id, data, now, NULL::int, digest
  FROM t, n
  WHERE solo = 0
  UNION ALL
  SELECT namespace, task_id, id, CASE WHEN solo = 1 THEN @move(proposed, -, state, only) ELSE @move(planned, -, state, item) END, actor, key_id, data, now, queue_id, digest
  FROM i)
SELECT now
FROM n
