-- The counters of queues, a row for each minute in which something happened in a queue or
-- was in it. minute is the number of the minute since 1970. Only a transaction that has
-- locked the feed adds to the counters: each event once.

-- name: add
INSERT INTO pawl.queue_minutes (queue_id, minute, namespace, @columns(minute))
VALUES ($1, $2, $3, @values(minute, $4))
ON CONFLICT (queue_id, minute) DO UPDATE
SET @added(minute)

-- name: put backlog
INSERT INTO pawl.queue_minutes (queue_id, minute, namespace, queued, leased, waiting, scheduled)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (queue_id, minute) DO UPDATE
SET queued = $4, leased = $5, waiting = $6, scheduled = $7

-- name: last backlog
SELECT COALESCE(MAX(minute), 0)
FROM pawl.queue_minutes
WHERE minute >= $1 AND queued IS NOT NULL

-- A queue that is empty now, and was not when the backlog was counted last, since the minute $1, has zeros.
-- name: backlog
SELECT queue_id, CAST(SUM(queued) AS bigint), CAST(SUM(leased) AS bigint), CAST(SUM(waiting) AS bigint), CAST(SUM(scheduled) AS bigint)
FROM (
  SELECT queue_id, COUNT(*) AS queued, 0 AS leased, 0 AS waiting, 0 AS scheduled FROM pawl.ready GROUP BY queue_id
  UNION ALL SELECT queue_id, 0, COUNT(*), 0, 0 FROM pawl.leases GROUP BY queue_id
  UNION ALL SELECT queue_id, 0, 0, COUNT(*), 0 FROM pawl.waiting GROUP BY queue_id
  UNION ALL SELECT queue_id, 0, 0, 0, COUNT(*) FROM pawl.scheduled GROUP BY queue_id
  UNION ALL SELECT m.queue_id, 0, 0, 0, 0
  FROM pawl.queue_minutes m
  WHERE m.minute = (
    SELECT l.minute
    FROM pawl.queue_minutes l
    WHERE l.minute >= $1 AND l.queued IS NOT NULL
    ORDER BY l.minute DESC
    LIMIT 1)
    AND m.queued + m.leased + m.waiting + m.scheduled > 0
) b
GROUP BY queue_id
ORDER BY queue_id
