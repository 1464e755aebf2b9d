-- The checkpoints that a task has itself: appends on condition, reads by name, rules that prune.

-- The task's row is kept until the transaction ends, so that a deletion comes before or after.
-- name: take numbers
INSERT INTO pawl.task_counters (task_id, namespace, checkpoints, updated_at)
SELECT t.id, t.namespace, CAST($3 AS BIGINT), CAST($4 AS BIGINT)
FROM pawl.tasks t
WHERE t.id = $1 AND t.namespace = $2
@kept
ON CONFLICT (task_id) DO UPDATE SET checkpoints = pawl.task_counters.checkpoints + excluded.checkpoints, updated_at = excluded.updated_at
RETURNING checkpoints

-- name: give numbers back
UPDATE pawl.task_counters
SET checkpoints = checkpoints - $2
WHERE task_id = $1

-- The newest checkpoint of each of some names, and how many there are. CROSS JOIN keeps SQLite from walking over all
-- checkpoints of the task.
-- name: names taken
SELECT c.id, c.name, c.seq, x.n
FROM (
  SELECT y.name, MAX(y.seq) AS seq, COUNT(*) AS n
  FROM pawl.checkpoints y
  WHERE y.task_id = $1 AND y.item_id IS NULL AND y.name @among($2)
  GROUP BY y.name) x
CROSS JOIN pawl.checkpoints c
WHERE c.task_id = $1 AND c.seq = x.seq

-- name: remove replaced
DELETE FROM pawl.checkpoints
WHERE task_id = $1 AND item_id IS NULL AND name @among($2) AND seq < $3

-- name: count removed
UPDATE pawl.task_counters
SET pruned = pruned + $2, updated_at = $3
WHERE task_id = $1

-- The checkpoints after the newest $4 of those whose names are in a range, but never the newest
-- of the task.
-- name: beyond rule
SELECT x.id
FROM (
  SELECT c.id, c.seq
  FROM pawl.checkpoints c
  WHERE c.task_id = $1 AND c.item_id IS NULL AND c.name >= $2 AND c.name < $3
  ORDER BY c.seq DESC
  LIMIT $5 OFFSET $4) x
WHERE x.seq < (SELECT k.checkpoints FROM pawl.task_counters k WHERE k.task_id = $1)

-- name: kept task
SELECT t.id
FROM pawl.tasks t
WHERE t.id = $1 AND t.namespace = $2
@kept

-- What follows the columns of checkpoints: the newest that a task itself has of each of some names,
-- or of each name of a range.
-- name: newest of names
WHERE c.task_id = $1 AND c.seq @among_rows
  SELECT MAX(y.seq)
  FROM pawl.checkpoints y
  WHERE y.task_id = $1 AND y.item_id IS NULL AND y.name @among($2)
  GROUP BY y.name @end_rows
ORDER BY c.seq
LIMIT $3

-- name: newest of range
WHERE c.task_id = $1 AND c.seq @among_rows
  SELECT MAX(y.seq)
  FROM pawl.checkpoints y
  WHERE y.task_id = $1 AND y.item_id IS NULL AND y.name >= $2 AND y.name < $3
  GROUP BY y.name @end_rows
ORDER BY c.seq
LIMIT $4

-- An item that has not ended and is not scheduled at $2, which is pawl.Never.
-- name: holds work
SELECT i.id
FROM pawl.all_items i
WHERE i.task_id = $1
  AND NOT EXISTS (SELECT 1 FROM pawl.finished_items e WHERE e.item_id = i.id)
  AND NOT EXISTS (SELECT 1 FROM pawl.scheduled s WHERE s.item_id = i.id AND s.run_at = $2)
LIMIT 1
