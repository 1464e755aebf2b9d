-- name: trace of task
SELECT trace_parent
FROM pawl.tasks
WHERE id = $1

-- name: results
SELECT w.key, t.solo, e.result
FROM pawl.all_items w
JOIN pawl.tasks t ON t.id = w.task_id
JOIN pawl.finished_items e ON e.item_id = w.id
WHERE w.task_id = $1 AND w.kind = 'work' AND e.state = @state(completed)
ORDER BY w.position, w.id

-- name: size of results
SELECT COALESCE(SUM(octet_length(e.result)), 0)
FROM pawl.finished_items e
WHERE e.task_id = $1 AND e.state = @state(completed)

-- name: applied result
SELECT r.payload
FROM pawl.task_results r
WHERE r.task_id = $1

-- name: count checkpoints
SELECT c.type, COUNT(*)
FROM pawl.checkpoints c
WHERE c.task_id = $1
GROUP BY c.type

-- name: pick item
SELECT w.type, r.rank, r.item_id
FROM pawl.item_ranks w
JOIN pawl.ready r ON r.queue_id = w.queue_id AND r.rank = w.rank AND r.item_id = w.id
WHERE @claimable(r.queue_id) IS NOT NULL AND w.id = $2 AND w.namespace = $1 AND ($3 = '[]' OR w.type IN @list($3)) AND ($3 <> '[]' OR w.kind = 'work') AND ($4 OR w.task_id = $5)

-- name: pick task
SELECT w.type, r.rank, r.item_id
FROM pawl.item_ranks w
JOIN pawl.ready r ON r.queue_id = w.queue_id AND r.rank = w.rank AND r.item_id = w.id
WHERE @claimable(r.queue_id) IS NOT NULL AND w.task_id = $2 AND w.namespace = $1 AND ($3 = '[]' OR w.type IN @list($3)) AND ($3 <> '[]' OR w.kind = 'work')
ORDER BY r.rank, r.item_id
LIMIT $4

-- name: holder of hash
SELECT t.id, COALESCE(k.state, 'open')
FROM pawl.tasks t
LEFT JOIN pawl.task_counters k ON k.task_id = t.id
WHERE t.namespace = $1 AND t.type = $2 AND t.input_hash = $3 AND t.dedupes = 1

-- name: keys of task
SELECT w.key, w.id
FROM pawl.items w
WHERE w.task_id = $1 AND w.key IS NOT NULL

-- The event of a worker's call, among the newest of its task.
-- name: event of request
SELECT e.move, e.key_id, e.data
FROM (SELECT x.item_id, x.attempt, x.move, x.key_id, x.data, x.request FROM pawl.task_events x WHERE x.task_id = $1 ORDER BY x.id DESC LIMIT $5) e
WHERE e.item_id = $2 AND e.attempt = $3 AND e.request = $4
LIMIT 1
