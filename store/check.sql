-- The invariants. Each statement searches for the rows that violate one of them. A row of
-- the answer is a violation: its subject, the task that it belongs to (NULL = none), and
-- what was found. Statements with $1 and $2 read the tasks with $1 < id <= $2, the others
-- read all. Each rule is one statement, so it has one snapshot. Groups that rows are joined with
-- are MATERIALIZED: without statistics the planner would compute them again for each row.

-- name: page of tasks
SELECT task_id
FROM pawl.all_items
WHERE task_id > $1
ORDER BY task_id
LIMIT 1 OFFSET $2

-- name: one place
SELECT @item_text(x.id), x.task_id, 'in ' || x.places || ' places'
FROM (
  SELECT w.id, w.task_id,
    (SELECT COUNT(*) FROM pawl.ready r WHERE r.queue_id = w.queue_id AND r.rank = @new_rank(w.priority) AND r.item_id = w.id)
    + (SELECT COUNT(*) FROM pawl.ready b WHERE b.queue_id = w.queue_id AND b.rank = @requeue_rank(w.priority) AND b.item_id = w.id)
    + (SELECT COUNT(*) FROM pawl.ready c WHERE c.queue_id = w.queue_id AND c.rank = @lowered_rank(w.priority) AND c.item_id = w.id)
    + (SELECT COUNT(*) FROM pawl.scheduled s WHERE s.item_id = w.id)
    + (SELECT COUNT(*) FROM pawl.waiting g WHERE g.item_id = w.id)
    + (SELECT COUNT(*) FROM pawl.leases l WHERE l.item_id = w.id)
    + (SELECT COUNT(*) FROM pawl.parked_items t WHERE t.item_id = w.id)
    + (SELECT COUNT(*) FROM pawl.finished_items e WHERE e.item_id = w.id) AS places
  FROM pawl.all_items w
  WHERE w.task_id > $1 AND w.task_id <= $2
) x
WHERE x.places <> 1

-- An even rank is one of two priorities: "one place" finds the wrong ones.
-- name: carried
SELECT @item_text(x.item_id), x.task_id,
  CASE
    WHEN x.of_id IS NULL THEN 'a row of ' || x.place || ' without an item'
    WHEN x.of_one IS NULL THEN 'a row of ' || x.place || ' without a task'
    WHEN x.queue_id <> x.of_queue_id THEN x.place || '.queue_id is ' || x.queue_id || ', the item''s ' || x.of_queue_id
    WHEN x.namespace <> x.of_namespace THEN x.place || '.namespace is ' || x.namespace || ', the item''s ' || x.of_namespace
    WHEN x.task_id <> x.of_task_id THEN x.place || '.task_id is ' || @task_text(x.task_id) || ', the item''s ' || @task_text(x.of_task_id)
    WHEN x.priority <> x.of_priority THEN 'priority in ' || x.place || ' is ' || x.priority || ', the item''s ' || x.of_priority
    WHEN x.max_attempts <> x.of_max_attempts THEN x.place || '.max_attempts is ' || x.max_attempts || ', the item''s ' || x.of_max_attempts
    ELSE x.place || '.solo is ' || x.solo || ', the task''s ' || x.of_one || ', the kind ' || x.of_kind
  END
FROM (
  SELECT p.place, p.item_id, p.queue_id, p.namespace, p.task_id, p.priority, p.max_attempts, p.solo, t.solo AS of_one,
    COALESCE(w.id, o.id) AS of_id, COALESCE(w.queue_id, o.queue_id) AS of_queue_id, COALESCE(w.namespace, o.namespace) AS of_namespace,
    COALESCE(w.task_id, o.id) AS of_task_id, COALESCE(w.priority, o.item_priority, o.priority) AS of_priority,
    COALESCE(w.max_attempts, o.max_attempts) AS of_max_attempts, COALESCE(w.kind, 'work') AS of_kind
  FROM (
    SELECT 'ready' AS place, item_id, queue_id, NULL AS namespace, task_id, CASE WHEN rank % 2 <> 0 THEN (1 - rank) / 2 END AS priority, max_attempts, solo FROM pawl.ready
    UNION ALL
    SELECT 'scheduled', item_id, queue_id, NULL, task_id, priority, max_attempts, solo FROM pawl.scheduled
    UNION ALL
    SELECT 'waiting', item_id, queue_id, NULL, task_id, priority, max_attempts, solo FROM pawl.waiting
    UNION ALL
    SELECT 'leases', item_id, queue_id, namespace, task_id, priority, max_attempts, solo FROM pawl.leases
    UNION ALL
    SELECT 'parked_items', item_id, queue_id, NULL, task_id, priority, max_attempts, solo FROM pawl.parked_items
    UNION ALL
    SELECT 'finished_items', item_id, queue_id, NULL, task_id, NULL, NULL, NULL FROM pawl.finished_items
  ) p
  LEFT JOIN pawl.items w ON w.id = p.item_id
  LEFT JOIN pawl.tasks o ON o.id = p.item_id AND o.solo = 1
  LEFT JOIN pawl.tasks t ON t.id = p.task_id
) x
WHERE x.of_id IS NULL OR x.of_one IS NULL OR x.queue_id <> x.of_queue_id OR x.namespace <> x.of_namespace OR x.task_id <> x.of_task_id
  OR x.priority <> x.of_priority OR x.max_attempts <> x.of_max_attempts OR x.solo <> CASE WHEN x.of_kind = 'work' THEN x.of_one ELSE 2 END

-- name: queues
SELECT @item_text(w.id), w.task_id, 'queue ' || COALESCE(CAST(w.queue_id AS TEXT), 'none') || CASE WHEN q.id IS NULL THEN ', which is not there' ELSE ' is ' || q.namespace || ' ' || q.type || ', the item''s ' || w.namespace || ' ' || w.type END
FROM pawl.all_items w
LEFT JOIN pawl.queues q ON q.id = w.queue_id
WHERE w.task_id > $1 AND w.task_id <= $2 AND (q.id IS NULL OR q.namespace <> w.namespace OR q.type <> w.type)

-- name: gates
SELECT @item_text(p.item_id), p.task_id, p.place || '.gate is ' || p.gate || CASE WHEN x.id IS NULL THEN ', which is not there' ELSE ', of queue ' || x.queue_id || '; the item is in queue ' || p.queue_id END
FROM (
  SELECT 'ready' AS place, item_id, task_id, queue_id, gate FROM pawl.ready WHERE gate IS NOT NULL
  UNION ALL
  SELECT 'scheduled', item_id, task_id, queue_id, gate FROM pawl.scheduled WHERE gate IS NOT NULL
  UNION ALL
  SELECT 'waiting', item_id, task_id, queue_id, gate FROM pawl.waiting WHERE gate IS NOT NULL
  UNION ALL
  SELECT 'leases', item_id, task_id, queue_id, gate FROM pawl.leases WHERE gate IS NOT NULL
  UNION ALL
  SELECT 'parked_items', item_id, task_id, queue_id, gate FROM pawl.parked_items WHERE gate IS NOT NULL
) p
LEFT JOIN pawl.gates x ON x.id = p.gate
WHERE x.id IS NULL OR x.queue_id <> p.queue_id
UNION ALL
SELECT 'gate ' || x.id, NULL, 'of queue ' || x.queue_id || CASE WHEN q.id IS NULL THEN ', which is not there' ELSE ', which is of namespace ' || q.namespace END
FROM pawl.gates x
LEFT JOIN pawl.queues q ON q.id = x.queue_id
WHERE q.id IS NULL OR q.namespace <> x.namespace

-- name: lease
SELECT @item_text(item_id), task_id, 'worker ' || worker || ', attempt ' || attempt || ', until ' || lease_expires_at
FROM pawl.leases
WHERE attempt < 1 OR lease_seconds < 1 OR lease_expires_at <= 0
  OR EXISTS (SELECT 1 FROM pawl.actors a WHERE a.id = worker AND (a.kind <> 'worker' OR a.name = ''))

-- name: names
SELECT CASE WHEN x.place = 'task_events' THEN @task_text(x.id) ELSE @item_text(x.id) END, x.task_id, 'actor ' || x.actor || ' of ' || x.place
FROM (
  SELECT e.task_id AS id, e.task_id, e.actor, 'task_events' AS place FROM pawl.task_events e WHERE e.task_id > $1 AND e.task_id <= $2
  UNION ALL
  SELECT w.id, w.task_id, COALESCE(l.worker, e.worker, t.worker, s.worker, g.worker, r.worker, b.worker, c.worker), 'its state'
  FROM pawl.all_items w
  LEFT JOIN pawl.leases l ON l.item_id = w.id
  LEFT JOIN pawl.finished_items e ON e.item_id = w.id
  LEFT JOIN pawl.parked_items t ON t.item_id = w.id
  LEFT JOIN pawl.scheduled s ON s.item_id = w.id
  LEFT JOIN pawl.waiting g ON g.item_id = w.id
  LEFT JOIN pawl.ready r ON r.queue_id = w.queue_id AND r.rank = @new_rank(w.priority) AND r.item_id = w.id
  LEFT JOIN pawl.ready b ON b.queue_id = w.queue_id AND b.rank = @requeue_rank(w.priority) AND b.item_id = w.id
  LEFT JOIN pawl.ready c ON c.queue_id = w.queue_id AND c.rank = @lowered_rank(w.priority) AND c.item_id = w.id
  WHERE w.task_id > $1 AND w.task_id <= $2
) x
WHERE x.actor IS NOT NULL AND NOT EXISTS (SELECT 1 FROM pawl.actors a WHERE a.id = x.actor)

-- name: budget
SELECT @item_text(p.item_id), p.task_id, 'failures ' || p.failures || ' of ' || p.max_attempts || ', attempt ' || p.attempt
FROM (
  SELECT item_id, task_id, attempt, failures, max_attempts FROM pawl.ready
  UNION ALL
  SELECT item_id, task_id, attempt, failures, max_attempts FROM pawl.scheduled
  UNION ALL
  SELECT item_id, task_id, attempt, failures, max_attempts FROM pawl.waiting
  UNION ALL
  SELECT item_id, task_id, attempt, failures, max_attempts FROM pawl.leases
  UNION ALL
  SELECT item_id, task_id, attempt, failures, failures + 1 FROM pawl.parked_items
  UNION ALL
  SELECT item_id, task_id, attempt, failures, failures + 1 FROM pawl.finished_items
) p
WHERE p.failures < 0 OR p.failures > p.attempt OR p.failures >= p.max_attempts

-- name: dependencies
WITH d AS MATERIALIZED (
  SELECT d.item_id, COUNT(*) AS open
  FROM pawl.item_deps d
  WHERE NOT EXISTS (SELECT 1 FROM pawl.finished_items e WHERE e.item_id = d.needs_id AND e.state = @state(completed))
  GROUP BY d.item_id
)
SELECT @item_text(g.item_id), g.task_id, 'needs ' || g.needs || ' items, and ' || COALESCE(d.open, 0) || ' of those it depends on have not completed'
FROM pawl.waiting g
LEFT JOIN d ON d.item_id = g.item_id
WHERE g.needs <> COALESCE(d.open, 0) + (SELECT COUNT(*) FROM pawl.child_waits c WHERE c.item_id = g.item_id AND c.attempt = g.attempt AND c.over = 0)

-- name: feeders
SELECT @item_text(p.item_id), p.task_id, @item_text(g.item_id) || ' waits for it, and it would not tell'
FROM pawl.waiting g
JOIN pawl.item_deps d ON d.item_id = g.item_id
JOIN (
  SELECT item_id, task_id, feeds FROM pawl.ready
  UNION ALL
  SELECT item_id, task_id, feeds FROM pawl.scheduled
  UNION ALL
  SELECT item_id, task_id, feeds FROM pawl.waiting
  UNION ALL
  SELECT item_id, task_id, feeds FROM pawl.leases
  UNION ALL
  SELECT item_id, task_id, feeds FROM pawl.parked_items
) p ON p.item_id = d.needs_id
WHERE g.needs > 0 AND p.feeds % 2 = 0

-- name: counters
WITH c AS MATERIALIZED (
  SELECT i.task_id, COUNT(*) AS items,
    SUM(CASE WHEN i.state IN @counted(open) THEN 1 ELSE 0 END) AS open,
    SUM(CASE WHEN i.state IN @counted(failed) THEN 1 ELSE 0 END) AS failed,
    SUM(CASE WHEN i.state IN @counted(dead) THEN 1 ELSE 0 END) AS dead,
    SUM(CASE WHEN i.state IN @counted(cancelled) THEN 1 ELSE 0 END) AS cancelled
  FROM pawl.item_rows i
  WHERE i.task_id > $1 AND i.task_id <= $2
    AND i.kind = 'work'
  GROUP BY i.task_id
)
SELECT @task_text(t.id), t.id,
  CASE
    WHEN k.task_id IS NULL THEN 'a task of many items without counters'
    ELSE 'items, open, failed, dead, cancelled are ' || k.items || ', ' || k.open || ', ' || k.failed || ', ' || k.dead || ', ' || k.cancelled
      || '; counted ' || COALESCE(c.items, 0) || ', ' || COALESCE(c.open, 0) || ', ' || COALESCE(c.failed, 0) || ', ' || COALESCE(c.dead, 0) || ', ' || COALESCE(c.cancelled, 0)
  END
FROM pawl.tasks t
LEFT JOIN pawl.task_counters k ON k.task_id = t.id
LEFT JOIN c ON c.task_id = t.id
WHERE t.id > $1 AND t.id <= $2 AND t.solo = 0
  AND (k.task_id IS NULL OR k.items <> COALESCE(c.items, 0) OR k.open <> COALESCE(c.open, 0) OR k.failed <> COALESCE(c.failed, 0)
    OR k.dead <> COALESCE(c.dead, 0) OR k.cancelled <> COALESCE(c.cancelled, 0) OR k.items = 0 AND k.planning = 0)

-- name: settled
SELECT @task_text(k.task_id), k.task_id, 'state ' || k.state || ' with ' || k.open || ' open, ' || k.failed || ' failed, ' || k.dead || ' dead items'
FROM pawl.task_counters k
JOIN pawl.tasks t ON t.id = k.task_id
WHERE k.task_id > $1 AND k.task_id <= $2 AND t.solo = 0
  AND (k.open > 0 AND k.state <> 'open' OR k.open + k.planning = 0 AND k.state = 'open' AND (k.failed = 0 OR k.ignores_failures = 0) OR k.state IN ('completed', 'cancelled') AND k.failed + k.dead > 0 AND k.ignores_failures = 0)

-- name: only item
SELECT @task_text(x.task_id), x.task_id, 'solo ' || x.solo || ' with ' || x.items || ' items, the first ' || COALESCE(@item_text(x.first), 'none')
FROM (
  SELECT y.task_id, MAX(y.solo) AS solo, MAX(y.wrong) AS wrong, SUM(y.rows) AS rows, SUM(y.items) AS items, @least(y.first) AS first
  FROM (
    SELECT i.task_id, NULL AS solo, NULL AS wrong, 1 AS rows, CASE WHEN i.kind = 'work' THEN 1 ELSE 0 END AS items, CASE WHEN i.kind = 'work' THEN i.id END AS first
    FROM pawl.all_items i
    WHERE i.task_id > $1 AND i.task_id <= $2
    UNION ALL
    SELECT t.id, t.solo, CASE WHEN t.solo = 1 AND (t.input IS NULL OR t.queue_id IS NULL OR t.max_attempts < 1)
      OR t.solo = 0 AND (COALESCE(t.input, t.item_type, t.parts_required, t.reasons) IS NOT NULL OR COALESCE(t.queue_id, t.run_at, t.item_priority) IS NOT NULL OR t.max_attempts <> 0)
      THEN 1 ELSE 0 END, 0, 0, NULL
    FROM pawl.tasks t
    WHERE t.id > $1 AND t.id <= $2
  ) y
  GROUP BY y.task_id
) x
WHERE x.solo IS NOT NULL AND (x.rows = 0 OR x.wrong = 1 OR x.solo = 1 AND (x.items <> 1 OR x.first <> x.task_id))

-- name: codes
SELECT 'event ' || e.id, e.task_id, 'move ' || e.move || CASE WHEN e.class IS NULL THEN ', which is not in the table of moves' ELSE ', of a ' || e.class END
FROM pawl.event_rows e
WHERE e.task_id > $1 AND e.task_id <= $2 AND (e.class IS NULL OR e.class = 'task' AND e.item_id IS NOT NULL OR e.class <> 'task' AND e.item_id IS NULL)

-- name: item record
SELECT @item_text(x.item_id), x.task_id, 'event ' || x.id || ' goes from ' || COALESCE(x.from_state, 'nothing') || ', the one before led to ' || COALESCE(x.before, 'nothing')
FROM (
  SELECT e.id, e.task_id, e.item_id, e.from_state, LAG(e.to_state) OVER (PARTITION BY e.item_id ORDER BY e.id) AS before
  FROM pawl.event_rows e
  WHERE e.task_id > $1 AND e.task_id <= $2 AND e.item_id IS NOT NULL AND e.to_state IS NOT NULL
) x
WHERE COALESCE(x.from_state, '') <> COALESCE(x.before, '')

-- name: item state
SELECT @item_text(x.id), x.task_id, 'state ' || COALESCE(x.state, 'none') || ', attempt ' || x.attempt || '; by its ' || x.claims || ' claims and last event '
  || COALESCE(m.to_state, 'none') || ', attempt ' || COALESCE(x.last_attempt, 0)
FROM (
  SELECT y.id, y.task_id, MAX(y.state) AS state, MAX(y.attempt) AS attempt, SUM(y.claims) AS claims, MAX(y.move) AS move, MAX(y.last_attempt) AS last_attempt
  FROM (
    SELECT i.id, i.task_id, i.state, i.attempt, 0 AS claims, NULL AS move, NULL AS last_attempt, 1 AS item
    FROM pawl.item_rows i
    WHERE i.task_id > $1 AND i.task_id <= $2
    UNION ALL
    SELECT e.item_id, e.task_id, NULL, NULL, CASE WHEN e.move IN @events(item claim) THEN 1 ELSE 0 END,
      CASE WHEN e.back = 1 AND e.aside = 0 THEN e.move END, CASE WHEN e.back = 1 AND e.aside = 0 THEN e.attempt END, 0
    FROM (
      SELECT s.item_id, s.task_id, s.move, s.attempt, s.aside, ROW_NUMBER() OVER (PARTITION BY s.item_id, s.aside ORDER BY s.id DESC) AS back
      FROM (
        SELECT id, item_id, task_id, move, attempt, CASE WHEN move IN @events(stateless) THEN 1 ELSE 0 END AS aside
        FROM pawl.task_events
        WHERE task_id > $1 AND task_id <= $2 AND item_id IS NOT NULL
      ) s
    ) e
  ) y
  GROUP BY y.id, y.task_id
  HAVING MAX(y.item) = 1
) x
LEFT JOIN pawl.moves m ON m.code = x.move
WHERE x.move IS NULL OR m.to_state <> COALESCE(x.state, '') OR x.claims <> x.attempt OR COALESCE(x.last_attempt, x.attempt) <> x.attempt

-- name: task record
SELECT @task_text(x.task_id), x.task_id, 'event ' || x.id || ' goes from ' || COALESCE(x.was, 'nothing') || ', the one before led to ' || COALESCE(x.before, 'nothing')
FROM (
  SELECT e.id, e.task_id, e.was, LAG(e.became) OVER (PARTITION BY e.task_id ORDER BY e.id) AS before
  FROM (
    SELECT id, task_id, CASE WHEN class = 'task' THEN from_state ELSE task_from END AS was, CASE WHEN class = 'task' THEN to_state ELSE task_to END AS became
    FROM pawl.event_rows
    WHERE task_id > $1 AND task_id <= $2
  ) e
  WHERE e.became IS NOT NULL
) x
WHERE COALESCE(x.was, '') <> COALESCE(x.before, '')

-- name: task state
SELECT @task_text(x.id), x.id, 'state ' || x.state || ', version ' || x.version || '; by its record ' || COALESCE(x.became, 'none') || ', version ' || x.changes
FROM (
  SELECT g.id, g.version, g.changes - 1 AS changes, CASE WHEN m.class = 'task' THEN m.to_state ELSE m.task_to END AS became, g.state
  FROM (
    SELECT y.id, MAX(y.state) AS state, MAX(y.version) AS version, SUM(y.change) AS changes, MAX(y.last) AS last
    FROM (
      SELECT t.id, CASE WHEN t.state IN @tasks(derived) THEN 'open' ELSE COALESCE(t.state, 'none') END AS state, t.version, 0 AS change, NULL AS last, 1 AS task
      FROM pawl.task_rows t
      WHERE t.id > $1 AND t.id <= $2
      UNION ALL
      SELECT a.task_id, NULL, NULL, 1, CASE WHEN a.became IS NOT NULL THEN a.id END, 0
      FROM (
        SELECT id, task_id, class, event, CASE WHEN class = 'task' THEN to_state ELSE task_to END AS became
        FROM pawl.event_rows
        WHERE task_id > $1 AND task_id <= $2
      ) a
      WHERE a.became IS NOT NULL OR a.event = 'updated' AND a.class = 'task'
    ) y
    GROUP BY y.id
    HAVING MAX(y.task) = 1
  ) g
  LEFT JOIN pawl.task_events e ON e.id = g.last
  LEFT JOIN pawl.moves m ON m.code = e.move
) x
WHERE x.state <> COALESCE(x.became, '') OR x.version <> x.changes

-- name: hangs on its task
SELECT x.what || ' of ' || @task_text(x.task_id), x.task_id,
  CASE WHEN t.id IS NULL THEN 'there is no such task' ELSE 'namespace ' || x.namespace || ', the task''s ' || t.namespace END
FROM (
  SELECT 'task_counters' AS what, task_id, namespace FROM pawl.task_counters WHERE task_id > $1 AND task_id <= $2
  UNION
  SELECT 'items', task_id, namespace FROM pawl.items WHERE task_id > $1 AND task_id <= $2
  UNION
  SELECT 'checkpoints', task_id, namespace FROM pawl.checkpoints WHERE task_id > $1 AND task_id <= $2
  UNION
  SELECT 'task_events', task_id, namespace FROM pawl.task_events WHERE task_id > $1 AND task_id <= $2
    AND (move NOT IN @events(task 'deleted') OR id NOT IN (SELECT event_id FROM pawl.tombstones WHERE task_id > $1 AND task_id <= $2))
  UNION
  SELECT 'task_results', task_id, namespace FROM pawl.task_results WHERE task_id > $1 AND task_id <= $2
  UNION
  SELECT 'provenances', task_id, namespace FROM pawl.provenances WHERE task_id > $1 AND task_id <= $2
  UNION
  SELECT 'messages', task_id, namespace FROM pawl.messages WHERE task_id > $1 AND task_id <= $2
  UNION
  SELECT 'idempotency_keys', task_id, namespace FROM pawl.idempotency_keys WHERE task_id > $1 AND task_id <= $2
) x
LEFT JOIN pawl.tasks t ON t.id = x.task_id
WHERE t.id IS NULL OR t.namespace <> x.namespace

-- name: hangs on its item
SELECT x.what || ' of ' || @item_text(x.item_id), x.task_id,
  CASE
    WHEN x.of_task_id IS NULL THEN 'there is no such item'
    WHEN x.namespace <> x.of_namespace THEN 'namespace ' || x.namespace || ', the item''s ' || x.of_namespace
    ELSE 'task ' || @task_text(x.task_id) || ', the item''s ' || @task_text(x.of_task_id)
  END
FROM (
  SELECT p.what, p.item_id, p.task_id, p.namespace, COALESCE(w.task_id, o.id) AS of_task_id, COALESCE(w.namespace, o.namespace) AS of_namespace
  FROM (
    SELECT 'task_events' AS what, item_id, task_id, namespace FROM pawl.task_events WHERE task_id > $1 AND task_id <= $2 AND item_id IS NOT NULL
    UNION
    SELECT 'checkpoints', item_id, task_id, namespace FROM pawl.checkpoints WHERE task_id > $1 AND task_id <= $2 AND item_id IS NOT NULL
  ) p
  LEFT JOIN pawl.items w ON w.id = p.item_id
  LEFT JOIN pawl.tasks o ON o.id = p.item_id AND o.solo = 1
) x
WHERE x.of_task_id IS NULL OR x.namespace <> x.of_namespace OR x.task_id <> x.of_task_id

-- $1: the latest end of a window. The sweep removes the key of a task that is gone after its
-- window.
-- name: loose ends
SELECT 'item_parts ' || p.id, COALESCE(w.task_id, p.item_id), 'of item ' || @item_text(p.item_id) || ', which is not there or of another namespace'
FROM pawl.item_parts p
LEFT JOIN pawl.all_items w ON w.id = p.item_id
WHERE w.id IS NULL OR w.namespace <> p.namespace
UNION ALL
SELECT 'item_deps of ' || @item_text(d.item_id), COALESCE(w.task_id, n.task_id), 'on ' || @item_text(d.needs_id) || ': one of them is not there, or of another task'
FROM pawl.item_deps d
LEFT JOIN pawl.items w ON w.id = d.item_id
LEFT JOIN pawl.items n ON n.id = d.needs_id
WHERE w.id IS NULL OR n.id IS NULL OR w.task_id <> n.task_id
UNION ALL
SELECT 'deadlines of ' || @item_text(d.item_id), d.task_id, 'the item is not there, or of another task or namespace, or has another deadline'
FROM pawl.deadlines d
LEFT JOIN pawl.all_items w ON w.id = d.item_id
WHERE w.id IS NULL OR w.task_id <> d.task_id OR w.namespace <> d.namespace OR COALESCE(w.deadline, 0) <> d.at
UNION ALL
SELECT 'uniques ' || u.key, u.task_id, 'the task is of another type or namespace, or is not there and the window ends too late'
FROM pawl.uniques u
LEFT JOIN pawl.tasks t ON t.id = u.task_id
WHERE t.id IS NULL AND u.until > $1 OR t.namespace <> u.namespace OR t.type <> u.type
UNION ALL
SELECT 'message_chunks of ' || c.message_id, NULL, 'there is no such message'
FROM pawl.message_chunks c
LEFT JOIN pawl.messages m ON m.id = c.message_id
WHERE m.id IS NULL
UNION ALL
SELECT 'idempotency_keys ' || k.key_hash, k.task_id, 'of item ' || @item_text(k.item_id) || ', which is not there or of another namespace than ' || k.namespace
FROM pawl.idempotency_keys k
WHERE k.item_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM pawl.all_items w WHERE w.id = k.item_id AND w.namespace = k.namespace)
UNION ALL
SELECT 'provenances ' || v.id, v.task_id, 'of item ' || @item_text(v.item_id) || ', which is not there or of another namespace'
FROM pawl.provenances v
WHERE v.item_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM pawl.all_items w WHERE w.id = v.item_id AND w.namespace = v.namespace)

-- name: steps
SELECT c.id, c.task_id, 'it refers to message ' || COALESCE(c.message_id, 'none') || ', which its task does not have'
FROM pawl.checkpoints c
LEFT JOIN pawl.messages m ON m.id = c.message_id AND m.task_id = c.task_id
WHERE c.task_id > $1 AND c.task_id <= $2 AND c.snapshot IS NULL AND c.blob IS NULL AND m.id IS NULL

-- name: blobs
SELECT c.id, c.task_id, 'blob sha256:' || @hex(c.blob@) || ' with its snapshot is missing'
FROM pawl.checkpoints c
LEFT JOIN pawl.blobs b ON b.namespace = c.namespace AND b.address = c.blob
WHERE c.blob IS NOT NULL AND b.address IS NULL
UNION ALL
SELECT 'sha256:' || @hex(d.address@), NULL, 'it is a change of blob sha256:' || @hex(d.base@) || ', which is missing'
FROM pawl.blobs d
LEFT JOIN pawl.blobs b ON b.namespace = d.namespace AND b.address = d.base
WHERE d.base IS NOT NULL AND b.address IS NULL

-- name: effects
SELECT f.id, f.task_id, 'state ' || f.state || ', sender ' || f.sender || ', of attempt ' || f.attempt || ' of item ' || @item_text(f.item_id)
FROM pawl.effects f
WHERE f.gone = 0 AND NOT EXISTS (SELECT 1 FROM pawl.all_items w WHERE w.id = f.item_id AND w.task_id = f.task_id AND w.namespace = f.namespace)
  OR f.gone = 0 AND f.state = 'open' AND f.sender = 'attempt'
    AND NOT EXISTS (SELECT 1 FROM pawl.leases l WHERE l.item_id = f.item_id AND l.attempt = f.attempt)
UNION ALL
SELECT @item_text(l.item_id), l.task_id, 'its lease counts ' || l.effects || ' open effects'
FROM pawl.leases l
WHERE l.effects <> (SELECT COUNT(*) FROM pawl.effects f WHERE f.item_id = l.item_id AND f.attempt = l.attempt AND f.sender = 'attempt' AND f.state = 'open')

-- name: input hash
SELECT @task_text(t.id), t.id, 'it is ' || COALESCE(r.state, 'nowhere') || ' with input hash ' || COALESCE(t.input_hash, 'none')
FROM pawl.tasks t
JOIN pawl.task_rows r ON r.id = t.id
WHERE t.dedupes = 1 AND (t.input_hash IS NULL OR r.state IS NULL OR r.state IN @tasks(freed))
  AND NOT EXISTS (SELECT 1 FROM pawl.task_counters k WHERE k.task_id = t.id AND k.state = 'dead_lettered' AND k.todo = 1)

-- name: gate
SELECT 'retention_gate', NULL, 'the record can be deleted from: ' || reason
FROM pawl.retention_gate

-- name: file
PRAGMA quick_check(20)
