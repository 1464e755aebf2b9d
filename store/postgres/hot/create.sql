WITH n AS MATERIALIZED (SELECT pawl.now() AS now),
t AS MATERIALIZED (
  SELECT id, COALESCE(namespace, ($2::text[])[1]) AS namespace, COALESCE(type, ($3::text[])[1]) AS type, COALESCE(type_version, 0) AS type_version,
    COALESCE(solo, ($5::smallint[])[1]) AS solo, title, COALESCE(priority, 0::smallint) AS priority, payload, COALESCE(metadata, '{}') AS metadata,
    requested_by_type, requested_by_id, input_hash, COALESCE(dedupes, 0::smallint) AS dedupes, trace_parent,
    COALESCE(items, ($15::int[])[1]) AS items, COALESCE(actor_type, ($16::text[])[1]) AS actor_type, actor_id, data, key_id
  FROM unnest($1::text[], $2::text[], $3::text[], $4::int[], $5::smallint[], $6::text[], $7::smallint[], $8::text[], $9::text[],
    $10::text[], $11::text[], $12::text[], $13::smallint[], $14::text[], $15::int[], $16::text[], $17::text[], $18::text[], $40::text[])
    AS t(id, namespace, type, type_version, solo, title, priority, payload, metadata,
      requested_by_type, requested_by_id, input_hash, dedupes, trace_parent, items, actor_type, actor_id, data, key_id)),
i AS MATERIALIZED (
  SELECT id, COALESCE(namespace, ($20::text[])[1]) AS namespace, COALESCE(task_id, ($21::text[])[1]) AS task_id, COALESCE(type, ($22::text[])[1]) AS type,
    COALESCE(kind, 'work') AS kind, COALESCE(solo, 0::smallint) AS solo, COALESCE(position, 0) AS position, key, COALESCE(priority, 0::smallint) AS priority,
    COALESCE(max_attempts, ($28::int[])[1]) AS max_attempts, run_at, after, COALESCE(needs, 0) AS needs, COALESCE(feeds, 0::smallint) AS feeds, COALESCE(acceptance, 0::smallint) AS acceptance, input,
    COALESCE(actor_type, ($35::text[])[1]) AS actor_type, actor_id, data, key_id, n.now,
    CASE WHEN i.needs > 0 THEN 'waiting' WHEN i.run_at > n.now THEN 'scheduled' ELSE 'queued' END AS state
  FROM unnest($19::text[], $20::text[], $21::text[], $22::text[], $23::text[], $24::smallint[], $25::int[], $26::text[], $27::smallint[],
    $28::int[], $29::bigint[], $30::text[], $31::int[], $32::smallint[], $33::smallint[], $34::text[], $35::text[], $36::text[], $37::text[], $41::text[])
    AS i(id, namespace, task_id, type, kind, solo, position, key, priority,
      max_attempts, run_at, after, needs, feeds, acceptance, input, actor_type, actor_id, data, key_id), n),
task AS (
  INSERT INTO pawl.tasks (id, namespace, type, type_version, solo, title, priority, payload, metadata, requested_by_type, requested_by_id, input_hash, dedupes, trace_parent, created_at)
  SELECT id, namespace, type, type_version, solo, title, priority, payload, metadata, requested_by_type, requested_by_id, input_hash, dedupes, trace_parent, now
  FROM t, n),
live AS (
  INSERT INTO pawl.task_live (task_id, namespace, items, open)
  SELECT id, namespace, items, items
  FROM t
  WHERE solo = 0),
item AS (
  INSERT INTO pawl.work_items (id, namespace, task_id, type, kind, position, key, priority, max_attempts, run_at, after, input, created_at)
  SELECT id, namespace, task_id, type, kind, position, key, priority, max_attempts, run_at, after, input, now
  FROM i),
ready AS (
  INSERT INTO pawl.ready (namespace, type, rank, item_id, task_id, max_attempts, solo, feeds, acceptance)
  SELECT namespace, type, 1 - 2 * priority, id, task_id, max_attempts, solo, feeds, acceptance
  FROM i
  WHERE state = 'queued'),
scheduled AS (
  INSERT INTO pawl.scheduled (item_id, namespace, task_id, type, priority, run_at, max_attempts, solo, feeds, acceptance)
  SELECT id, namespace, task_id, type, priority, run_at, max_attempts, solo, feeds, acceptance
  FROM i
  WHERE state = 'scheduled'),
waiting AS (
  INSERT INTO pawl.waiting (item_id, namespace, task_id, type, priority, until, needs, max_attempts, solo, feeds, acceptance)
  SELECT id, namespace, task_id, type, priority, run_at, needs, max_attempts, solo, feeds, acceptance
  FROM i
  WHERE state = 'waiting'),
deps AS (
  INSERT INTO pawl.item_deps (needs_id, item_id)
  SELECT needs_id, item_id
  FROM unnest($38::text[], $39::text[]) AS d(needs_id, item_id)),
-- In the order given, a task before its items: Append goes on to the second when
-- it is through with the first, and their ids rise within the task.
event AS (
  INSERT INTO pawl.task_events (namespace, task_id, item_id, event, to_state, task_to, actor_type, actor_id, key_id, data, created_at)
  SELECT namespace, id, NULL, 'proposed', 'open', NULL, actor_type, actor_id, key_id, data, now
  FROM t, n
  WHERE solo = 0
  UNION ALL
  SELECT namespace, task_id, id, CASE WHEN solo = 1 THEN 'proposed' ELSE 'planned' END, state, CASE WHEN solo = 1 THEN 'open' END, actor_type, actor_id, key_id, data, now
  FROM i)
SELECT now
FROM n
