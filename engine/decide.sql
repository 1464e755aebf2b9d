-- name: to do
SELECT k.task_id, k.namespace, k.state
FROM pawl.task_counters k
WHERE k.todo = 1 AND k.task_id > $1
ORDER BY k.task_id
LIMIT $2

-- name: undecided for too long
SELECT k.task_id, k.namespace, k.decide_by
FROM pawl.task_counters k
WHERE k.decide_by <= $1 AND (k.decide_by, k.task_id) > ($2, $3)
ORDER BY k.decide_by, k.task_id
LIMIT $4

-- Not before the results were submitted: an escalation ends with a rework.
-- name: escalated
SELECT 1
FROM pawl.task_events e
WHERE e.task_id = $1 AND e.move IN @events(task 'escalated')
  AND NOT EXISTS (SELECT 1 FROM pawl.task_events s WHERE s.task_id = $1 AND s.id > e.id AND s.move IN @events(item submit))
LIMIT 1

-- The first that an actor did of what is looked for.
-- name: took part
SELECT 'asked for this task'
FROM pawl.tasks t
WHERE t.id = $1 AND t.requested_by_id = $2 AND $5 = 1
UNION ALL
SELECT 'asked for this task'
FROM pawl.task_events e
WHERE e.task_id = $1 AND $5 = 1 AND (e.move IN @events(item 'proposed', 'planned') OR e.move IN @events(task 'updated') AND e.diff LIKE '%"payload":{"from":"sha256:%')
  AND (@name_of(e.actor) = $2 OR e.key_id = $3 OR @kind_of(e.actor) = $4 AND e.key_id IS NULL)
UNION ALL
SELECT 'worked on this task'
FROM pawl.all_items w
JOIN pawl.parked_items r ON r.item_id = w.id
WHERE w.task_id = $1 AND $6 = 1 AND r.worker = @worker($2)
UNION ALL
SELECT 'worked on this task'
FROM pawl.task_events e
WHERE e.task_id = $1 AND $6 = 1 AND e.move IN @events(item claim, start, 'part_submitted', submit, complete, fail, release, suspend)
  AND (@name_of(e.actor) = $2 OR e.key_id = $3 OR @kind_of(e.actor) = $4 AND e.key_id IS NULL)
UNION ALL
SELECT 'asks for the budget'
FROM pawl.budget_questions q
JOIN pawl.all_items w ON w.id = q.item_id
JOIN pawl.task_events e ON e.task_id = w.task_id AND e.item_id = w.id
WHERE q.task_id = $1 AND $7 = 1 AND e.move IN @events(item claim)
  AND (@name_of(e.actor) = $2 OR e.key_id = $3 OR @kind_of(e.actor) = $4 AND e.key_id IS NULL)
ORDER BY 1
LIMIT 1

-- name: reworked too often
SELECT r.item_id
FROM pawl.parked_items r
WHERE r.item_id IN @ids($1) AND r.rework >= $2
ORDER BY r.item_id
LIMIT 1
