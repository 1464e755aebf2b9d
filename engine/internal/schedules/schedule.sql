-- Schedules and what became of their ticks. A call that changes a schedule or its firings
-- locks the row of the schedule first.

-- name: schedules
SELECT s.id, s.namespace, s.name, s.definition, s.typed, s.version, s.next_tick, s.next_at, s.queued, s.last_tick, s.last_task_id, s.error, s.error_at, s.paused_at, s.created_at, s.updated_at
FROM pawl.schedules s

-- name: due schedules
SELECT s.id, LENGTH(s.definition)
FROM pawl.schedules s
WHERE s.next_at <= $1 AND s.id NOT IN @list($2)
ORDER BY s.next_at, s.id
LIMIT $3

-- name: late schedules
SELECT s.namespace, s.name, s.next_at
FROM pawl.schedules s
WHERE s.next_at < $1
ORDER BY s.next_at
LIMIT $2

-- name: create schedule
INSERT INTO pawl.schedules (id, namespace, name, definition, typed, version, next_tick, next_at, created_at, updated_at, paused_at)
VALUES ($1, $2, $3, $4, $5, 1, $6, $7, $8, $8, $9)
ON CONFLICT (namespace, name) DO NOTHING

-- name: write schedule
UPDATE pawl.schedules AS s
SET version = s.version + 1, next_tick = CAST(x.value ->> 1 AS BIGINT), next_at = CAST(x.value ->> 2 AS BIGINT), queued = CAST(x.value ->> 3 AS INTEGER),
  last_tick = CAST(x.value ->> 4 AS BIGINT), last_task_id = @id(x.value ->> 5), error = x.value ->> 6, error_at = CAST(x.value ->> 7 AS BIGINT),
  paused_at = CAST(x.value ->> 8 AS BIGINT), updated_at = $2
FROM @each($1) AS x
WHERE s.id = x.value ->> 0

-- name: define schedule
UPDATE pawl.schedules
SET definition = $2, typed = $3
WHERE id = $1

-- name: delete schedule
DELETE FROM pawl.schedules
WHERE namespace = $1 AND name = $2

-- name: drop queued firings
DELETE FROM pawl.firings
WHERE schedule_id = $1 AND outcome = 'queued'

-- name: close firings
UPDATE pawl.firings
SET open = 0
WHERE schedule_id = $1 AND open = 1

-- Firings are not kept open while ticks pay no regard to earlier tasks. Then there may be very many.
-- name: open firings again
UPDATE pawl.firings
SET open = 1
WHERE schedule_id = $1 AND tick IN (
  SELECT f.tick
  FROM pawl.firings f
  JOIN pawl.task_rows t ON t.id = f.task_id
  WHERE f.schedule_id = $1 AND f.outcome = 'created' AND f.open = 0 AND t.completed_at IS NULL
  ORDER BY f.tick DESC
  LIMIT $2)

-- The oldest queued tick of each schedule.
-- name: queued firings
SELECT f.schedule_id, MIN(f.tick)
FROM pawl.firings f
WHERE f.schedule_id @among($1) AND f.outcome = 'queued'
GROUP BY f.schedule_id

-- name: open firings
SELECT f.schedule_id, f.tick, f.task_id, (SELECT t.state FROM pawl.task_rows t WHERE t.id = f.task_id), f.outcome
FROM pawl.firings f
WHERE f.schedule_id @among($1) AND f.open = 1
ORDER BY f.schedule_id, f.tick

-- name: close firing
UPDATE pawl.firings
SET open = 0
WHERE schedule_id = $1 AND tick = $2

-- name: add firing
INSERT INTO pawl.firings (schedule_id, tick, namespace, outcome, manual, open, task_id, until, error, fired_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)

-- name: fire queued
UPDATE pawl.firings
SET outcome = $3, open = $4, task_id = $5, error = $6, fired_at = $7
WHERE schedule_id = $1 AND tick = $2 AND outcome = 'queued'

-- name: firing at
SELECT 1
FROM pawl.firings
WHERE schedule_id = $1 AND tick = $2

-- name: firings
SELECT f.tick, f.until, f.outcome, f.manual, f.task_id, f.error, f.fired_at
FROM pawl.firings f
WHERE f.schedule_id = $1
ORDER BY f.tick DESC
LIMIT $2

-- name: firings before
SELECT f.tick, f.until, f.outcome, f.manual, f.task_id, f.error, f.fired_at
FROM pawl.firings f
WHERE f.schedule_id = $1 AND f.tick < $2
ORDER BY f.tick DESC
LIMIT $3

-- A firing is open for the sake of the next tick. A schedule that has none does not close it.
-- name: remove old firings
DELETE FROM pawl.firings
WHERE (schedule_id, tick) IN (
  SELECT f.schedule_id, f.tick
  FROM pawl.firings f
  WHERE f.fired_at < $1 AND f.outcome <> 'queued'
    AND (f.open = 0 OR NOT EXISTS (SELECT 1 FROM pawl.schedules s WHERE s.id = f.schedule_id AND s.next_tick IS NOT NULL))
  ORDER BY f.fired_at
  LIMIT $2
  @skip)

-- name: count schedules
SELECT COUNT(*)
FROM (SELECT s.id FROM pawl.schedules s WHERE s.namespace = $1 LIMIT $2) x

-- name: all schedules
WHERE s.id > $1
ORDER BY s.id
LIMIT $2
@lock

-- name: failing schedules
SELECT namespace, name, error
FROM pawl.schedules
WHERE error IS NOT NULL
ORDER BY namespace, name
LIMIT $1

-- What follows searches for breaches of the rules of the doctor.
-- name: wrong schedules
SELECT x.name, NULL, 'it counts ' || x.queued || ' queued ticks, of which there are ' || x.waiting || '; its next tick is ' || COALESCE(CAST(x.next_tick AS TEXT), 'none') || ', the last one that was fired ' || COALESCE(CAST(x.last_fired AS TEXT), 'none')
FROM (
  SELECT s.name, s.queued, s.next_tick,
    (SELECT COUNT(*) FROM pawl.firings f WHERE f.schedule_id = s.id AND f.outcome = 'queued') AS waiting,
    (SELECT MAX(f.tick) FROM pawl.firings f WHERE f.schedule_id = s.id AND f.manual = 0) AS last_fired
  FROM pawl.schedules s
) x
WHERE x.queued <> x.waiting OR x.next_tick <= x.last_fired

-- A removed task leaves its firing.
-- name: wrong firings
SELECT f.schedule_id || ' at ' || f.tick, f.task_id, 'outcome ' || f.outcome || ', task ' || COALESCE(@task_text(f.task_id), 'none') || CASE WHEN s.id IS NULL THEN ', without its schedule' ELSE ', of schedule ' || s.name END
FROM pawl.firings f
LEFT JOIN pawl.schedules s ON s.id = f.schedule_id
LEFT JOIN pawl.tasks t ON t.id = f.task_id
WHERE (f.outcome IN ('created', 'deduplicated')) <> (f.task_id IS NOT NULL)
  OR s.id IS NULL AND (f.open = 1 OR f.outcome = 'queued')
  OR s.namespace <> f.namespace OR t.namespace <> f.namespace
  OR f.outcome = 'created' AND s.id IS NOT NULL AND t.id IS NOT NULL AND COALESCE(t.schedule, '') <> s.name
  OR EXISTS (SELECT 1 FROM pawl.firings o WHERE o.schedule_id = f.schedule_id AND o.tick > f.tick AND o.tick < f.until AND f.manual = 0 AND o.manual = 0)
