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

-- name: hold counters
SELECT checkpoints
FROM pawl.task_counters
WHERE task_id = $1
@lock

-- name: counters over
SELECT task_id, checkpoints
FROM pawl.task_counters
WHERE task_id > $1 AND task_id <= $2 AND checkpoints - pruned > $3
ORDER BY task_id

-- name: counters until
SELECT task_id
FROM pawl.task_counters
WHERE task_id > $1
ORDER BY task_id
LIMIT 1 OFFSET $2

-- The checkpoints that a resume needs are kept: of each item the newest one, the newest of
-- each name, the newest of the types iteration_start, iteration_end and error_boundary, and
-- the newest step of each message. Older steps that refer to their message are not needed.
-- name: prunable
SELECT x.id
FROM (
  SELECT c.id, c.seq, c.type, c.name, c.message_id, c.message_id IS NOT NULL AND c.snapshot IS NULL AND c.blob IS NULL AS refers,
    ROW_NUMBER() OVER (ORDER BY c.seq DESC) AS newest,
    ROW_NUMBER() OVER (PARTITION BY c.item_id ORDER BY c.seq DESC) AS of_item,
    ROW_NUMBER() OVER (PARTITION BY c.item_id, c.name ORDER BY c.seq DESC) AS of_name,
    ROW_NUMBER() OVER (PARTITION BY c.item_id, c.type ORDER BY c.seq DESC) AS of_type,
    ROW_NUMBER() OVER (PARTITION BY c.message_id ORDER BY c.seq DESC) AS of_message
  FROM pawl.checkpoints c
  WHERE c.task_id = $1
) x
WHERE x.newest > $2 AND x.of_item > 1
  AND (x.name IS NULL OR x.of_name > 1 OR x.refers)
  AND (x.type NOT IN ('iteration_start', 'iteration_end', 'error_boundary') OR x.of_type > 1)
  AND (x.message_id IS NULL OR x.of_message > 1)
ORDER BY x.seq
LIMIT $3

-- name: remove
DELETE FROM pawl.checkpoints
WHERE id IN @list($1)

-- name: count pruned
UPDATE pawl.task_counters
SET pruned = pruned + $2
WHERE task_id = $1

-- The rule of the doctor.
-- name: checkpoints
SELECT @task_text(x.task_id), x.task_id, 'counter ' || x.counter || ', newest ' || x.newest || ', kept ' || x.kept || ', pruned ' || x.pruned
FROM (
  SELECT y.task_id, SUM(y.counter) AS counter, MAX(y.newest) AS newest, SUM(y.kept) AS kept, SUM(y.pruned) AS pruned
  FROM (
    SELECT k.task_id, k.checkpoints AS counter, 0 AS newest, 0 AS kept, k.pruned
    FROM pawl.task_counters k
    WHERE k.task_id > $1 AND k.task_id <= $2
    UNION ALL
    SELECT c.task_id, 0, c.seq, 1, 0
    FROM pawl.checkpoints c
    WHERE c.task_id > $1 AND c.task_id <= $2
  ) y
  GROUP BY y.task_id
) x
WHERE x.newest <> x.counter OR x.kept + x.pruned <> x.counter

-- name: blobs of item
SELECT COALESCE(c.name, ''), b.address, b.depth, b.chain, b.size
FROM pawl.checkpoints c
JOIN pawl.blobs b ON b.namespace = c.namespace AND b.address = c.blob
WHERE c.item_id = $1 AND c.namespace = $2 AND c.blob IS NOT NULL
ORDER BY c.seq DESC
LIMIT $3

-- name: blobs of task
SELECT COALESCE(c.name, ''), b.address, b.depth, b.chain, b.size
FROM pawl.checkpoints c
JOIN pawl.blobs b ON b.namespace = c.namespace AND b.address = c.blob
WHERE c.task_id = $1 AND c.namespace = $2 AND c.item_id IS NULL AND c.blob IS NOT NULL
ORDER BY c.seq DESC
LIMIT $3
