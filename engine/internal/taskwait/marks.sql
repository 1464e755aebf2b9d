-- name: task marks
SELECT t.id, t.state, t.version,
  COALESCE((SELECT CAST(SUM(x.id) AS bigint)
    FROM (SELECT e.id FROM pawl.task_events e WHERE e.task_id = t.id ORDER BY e.id DESC LIMIT $2) x), 0)
FROM pawl.task_rows t
WHERE t.id @among_ids($1)
