-- Events as the transparency log hashes them, in their public form: text ids, and names in
-- place of the code; see docs/provenance.md. These are the only statements that read events for
-- the log.

-- name: events for leaves
SELECT e.id, COALESCE(e.attempt, 0), e.created_at, e.move, e.namespace, e.task_id, e.item_id,
  a.kind, NULLIF(a.name, ''), e.key_id, e.message, e.data, e.diff, e.trace_parent,
  COALESCE(e.queue_id, 0), COALESCE(e.since, 0), CASE WHEN e.queue_id IS NULL THEN COALESCE((SELECT w.type FROM pawl.all_items w WHERE w.id = e.item_id), (SELECT t.type FROM pawl.tasks t WHERE t.id = e.task_id)) END, e.digest
FROM pawl.task_events e
LEFT JOIN pawl.actors a ON a.id = e.actor
WHERE e.id >= $1 AND e.id <= $2
ORDER BY e.id

-- name: provenances for leaves
SELECT p.event_id, COALESCE(p.attempt, 0), p.id, p.item_id, p.verb, p.scope, p.idempotency_key, p.agent_id, p.agent_name, p.agent_version,
  p.model, p.request_fingerprint, p.extra
FROM pawl.provenances p
WHERE p.event_id >= $1 AND p.event_id <= $2
ORDER BY p.event_id, p.id

-- The inputs and results that leaves have digests of, for checks and for events that have no stored digest: the payload of a task of many, the
-- input of an item, the result of an item that completed, and that of a task that was applied.
-- None of them changes from its event on, except for the payload of a task of one that is
-- replaced: the event `updated` then says which digest it had and stands for the new one. The third
-- column is the diff of the next replacement, with that earlier digest. A value that is gone, with its task, is NULL.
-- name: values for leaves
SELECT e.id,
  CASE
    WHEN e.move IN @events(item 'completed') THEN (SELECT f.result FROM pawl.finished_items f WHERE f.item_id = e.item_id AND f.state = @state(completed))
    WHEN e.move IN @events(task 'applied') THEN (SELECT r.payload FROM pawl.task_results r WHERE r.task_id = e.task_id)
    WHEN e.move IN @events(task 'updated') THEN (SELECT w.input FROM pawl.all_items w WHERE w.id = e.task_id)
    WHEN e.item_id IS NULL THEN (SELECT t.payload FROM pawl.tasks t WHERE t.id = e.task_id)
    ELSE (SELECT w.input FROM pawl.all_items w WHERE w.id = e.item_id)
  END,
  CASE WHEN e.item_id = e.task_id AND e.move IN @events(item 'proposed') OR e.move IN @events(task 'updated') THEN (
    SELECT u.diff
    FROM pawl.task_events u
    WHERE u.task_id = e.task_id AND u.id > e.id AND u.move IN @events(task 'updated') AND u.item_id IS NULL AND u.diff LIKE '{"payload":{"from":"sha256:%'
    ORDER BY u.id
    LIMIT 1)
  END
FROM pawl.task_events e
WHERE e.id >= $1 AND e.id <= $2 AND (e.move IN @events(item 'proposed', 'planned', 'completed', 'applied')
  OR e.move IN @events(task 'updated') AND e.item_id IS NULL AND e.diff LIKE '{"payload":{"from":"sha256:%')
ORDER BY e.id

-- The diffs of the replacements of the payloads of the tasks that events of a span began.
-- name: replacements after
SELECT e.id, u.diff
FROM pawl.task_events e
JOIN pawl.task_events u ON u.task_id = e.task_id AND u.id > e.id
WHERE e.id >= $1 AND e.id <= $2 AND e.item_id = e.task_id AND e.move IN @events(item 'proposed')
  AND u.move IN @events(task 'updated') AND u.item_id IS NULL AND u.diff LIKE '{"payload":{"from":"sha256:%'
ORDER BY e.id, u.id

-- Their task is being deleted, or their namespace has moved and its rows are being removed.
-- name: values being deleted
SELECT e.id
FROM pawl.task_events e
WHERE e.id >= $1 AND e.id <= $2 AND (e.move IN @events(item 'proposed', 'planned', 'completed', 'applied')
    OR e.move IN @events(task 'updated') AND e.item_id IS NULL AND e.diff LIKE '{"payload":{"from":"sha256:%')
  AND (EXISTS (
    SELECT 1
    FROM pawl.task_events d
    WHERE d.task_id = e.task_id AND d.move IN @events(task 'deleted') AND EXISTS (SELECT 1 FROM pawl.tasks t WHERE t.id = d.task_id)
      AND NOT EXISTS (SELECT 1 FROM pawl.tombstones b WHERE b.task_id = d.task_id AND b.event_id = d.id AND b.restored_at IS NOT NULL))
    OR EXISTS (SELECT 1 FROM pawl.relocations r WHERE r.side = 'source' AND r.step = 'flipped' AND r.namespace = e.namespace))
