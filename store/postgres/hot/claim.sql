-- ctid is safe only here: rows of ready are updated only while they get a gate, and a row of
-- which another version has been locked stays where it is. With $16 the queues may have limits. The ranks are read in order, and
-- only as far as the limit goes. Within one rank, the rows of the types are merged by item
-- id, and those of each type are locked up to the limit. A row of more than $15 bytes ends
-- the statement with an error. The lines that begin with --bytes are left out at first. With
-- them, rows are taken until they have $15 bytes together; this reads the size of each item
-- beforehand.
WITH q AS MATERIALIZED (
  SELECT (ARRAY(
    SELECT (SELECT q.id FROM pawl.queues q WHERE q.namespace = $1::text AND q.type = u.type AND @not_paused(q) AND (q.limited IS NULL OR $16::boolean))
    FROM unnest($4::text[]) AS u(type))) AS ids),
d AS (
  DELETE FROM pawl.ready
  WHERE ctid = ANY(ARRAY(
    --bytes SELECT b.tid
    --bytes FROM (
    --bytes   SELECT a.tid, SUM(a.bytes) OVER (ORDER BY a.rank, a.item_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
    --bytes   FROM (
    SELECT c.tid
    --bytes , c.item_id, k.rank, (SELECT octet_length(w.input) + COALESCE(octet_length(c.error), 0) + COALESCE(octet_length(w.reasons), 0) FROM pawl.all_items w WHERE w.id = c.item_id) AS bytes
    FROM unnest($3::int[]) AS k(rank),
      LATERAL (
        SELECT q.*
        FROM unnest((SELECT ids FROM q), $5::int[], $6::uuid[], $7::uuid[]) AS g(queue_id, rank, head, tail),
          LATERAL (
            SELECT r.ctid AS tid, r.item_id
            --bytes , r.error
            FROM pawl.ready r
            WHERE r.queue_id = g.queue_id AND r.rank = g.rank AND r.item_id >= g.head AND r.item_id <= g.tail
            ORDER BY r.item_id
            LIMIT $2::int
            FOR UPDATE SKIP LOCKED) q
        WHERE g.rank = k.rank
        ORDER BY q.item_id
        LIMIT $2::int) c
    LIMIT $2::int
    --bytes ) a) b
    --bytes WHERE COALESCE(b.before, 0) < $15::int
    ))
  RETURNING queue_id, rank, item_id, task_id, @columns(carried, attempt: attempt + 1 AS claim), started_at, error, since),
n AS MATERIALIZED (SELECT pawl.now() AS now FROM (SELECT count(*) FROM d) locked),
-- The rows are divided in claim order: each claimant's rows start at its ordinal in $8.
-- said is the item's open message, or else its newest stopped one. seconds is the lease: the
-- claimant's, or that of the type.
r AS MATERIALIZED (
  SELECT x.*, COALESCE(NULLIF(($10::int[])[x.who], 0), ($17::int[])[array_position((SELECT ids FROM q), x.queue_id)]) AS seconds
  FROM (
    SELECT d.*, @priority_of(d.rank, d.item_id) AS priority, width_bucket((row_number() OVER (ORDER BY d.rank, d.item_id))::int, $8::int[]) AS who,
      (SELECT m.state || ' ' || m.id || ' ' || m.chunks || ' ' || m.step_number
       FROM pawl.messages m
       WHERE m.item_id = d.item_id AND m.state IN ('streaming', 'stopped')
       ORDER BY m.state DESC, m.id DESC
       LIMIT 1) AS said
    FROM d) x),
lease AS (
  INSERT INTO pawl.leases (item_id, namespace, queue_id, task_id, priority, state, @columns(carried),
    prefetch, worker, lease_seconds, started_at, acquired_at, heartbeat_at, lease_expires_at, error, stopped, key_id)
  SELECT item_id, $1::text, queue_id, task_id, priority, @state(leased), @columns(carried, attempt: claim),
    ($11::smallint[])[who], @workers($9)[who], seconds, COALESCE(started_at, (SELECT now FROM n)), (SELECT now FROM n), (SELECT now FROM n),
    LEAST((SELECT now FROM n) + seconds * 1000000::bigint, (SELECT now FROM n) + start_to_close * 1000000::bigint), error, CASE WHEN split_part(said, ' ', 1) = 'stopped' THEN split_part(said, ' ', 2) END,
    NULLIF(($14::text[])[who], '')
  FROM r),
event AS (
  INSERT INTO pawl.task_events (namespace, task_id, item_id, attempt, move, actor, key_id, created_at, queue_id, since)
  SELECT $1::text, task_id, item_id, claim, @move(leased, 'queued', 'leased', solo), @actors($12, $13)[who], NULLIF(($14::text[])[who], ''), (SELECT now FROM n), queue_id, since
  FROM r)
SELECT r.who, r.seconds, r.item_id, r.task_id, ($4::text[])[array_position((SELECT ids FROM q), r.queue_id)], w.key, r.rank, r.priority, r.claim, r.failures, r.max_attempts, w.input,
  (SELECT now FROM n), LEAST((SELECT now FROM n) + seconds * 1000000::bigint, (SELECT now FROM n) + start_to_close * 1000000::bigint),
  r.said, r.error, w.reasons, r.rework, w.trace_parent, COALESCE(w.forked, false),
  CASE WHEN octet_length(w.input) + COALESCE(octet_length(r.error), 0) + COALESCE(octet_length(w.reasons), 0) > $15::int THEN ('bytes of ' || r.item_id)::int END
FROM r
LEFT JOIN LATERAL (
  SELECT NULL::text AS key, t.input, t.reasons, t.trace_parent, t.forked_at > 0 AS forked FROM pawl.tasks t WHERE r.task_id = r.item_id AND t.id = r.item_id AND t.solo = 1
  UNION ALL
  SELECT w.key, w.input, w.reasons, t.trace_parent, t.forked_at > 0 FROM pawl.items w LEFT JOIN pawl.tasks t ON t.id = w.task_id WHERE w.id = r.item_id
  LIMIT 1) w ON true
