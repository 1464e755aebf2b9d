-- Tasks of a page that have ended or failed, whose newest event is at most $3, and that were not restored.
-- $4: the states.
-- name: at rest before
SELECT x.id, x.namespace, x.type, x.type_version, x.state, x.last
FROM (
  SELECT t.id, t.namespace, t.type, t.type_version, (SELECT r.state FROM pawl.task_rows r WHERE r.id = t.id) AS state,
    (SELECT MAX(e.id) FROM pawl.task_events e WHERE e.task_id = t.id) AS last
  FROM pawl.tasks t
  WHERE t.id > $1
  ORDER BY t.id
  LIMIT $2
) x
WHERE x.last <= $3 AND x.state @among($4) AND NOT EXISTS (SELECT 1 FROM pawl.archives a WHERE a.task_id = x.id AND a.restored_at IS NOT NULL)
ORDER BY x.id

-- The last task of that page.
-- name: end of page
SELECT COALESCE((SELECT t.id FROM pawl.tasks t WHERE t.id > $1 ORDER BY t.id LIMIT 1 OFFSET $2), $3)

-- Those of the tasks that are in a state and have no event after a time, and whether their newest
-- checkpoint and chunks are no younger either; and those that have one, but with a number of at most $4.
-- name: resting since
SELECT r.id,
  CASE WHEN (SELECT e.created_at FROM pawl.task_events e WHERE e.task_id = r.id ORDER BY e.id DESC LIMIT 1) <= $3
    AND COALESCE((SELECT c.created_at FROM pawl.checkpoints c WHERE c.task_id = r.id ORDER BY c.seq DESC LIMIT 1), 0) <= $3
    AND NOT EXISTS (
      SELECT 1
      FROM pawl.messages m
      WHERE m.task_id = r.id AND (SELECT x.created_at FROM pawl.message_chunks x WHERE x.message_id = m.id ORDER BY x.seq DESC LIMIT 1) > $3)
    THEN 1 ELSE 0 END
FROM pawl.task_rows r
WHERE r.id @among_ids($1) AND r.state = $2
  AND ((SELECT e.created_at FROM pawl.task_events e WHERE e.task_id = r.id ORDER BY e.id DESC LIMIT 1) <= $3
    OR (SELECT MAX(e.id) FROM pawl.task_events e WHERE e.task_id = r.id) <= $4)
