-- The hints of keys that can be claimed: see store/limits.sql.

-- The gates after $1 with a pointer, at most $2; whether something refers to them, or their rate was
-- not at rest at $3.
-- name: uses of gates
SELECT x.id, x.idle_since, CASE WHEN x.next_start > $3
    OR EXISTS (SELECT 1 FROM pawl.ready r WHERE r.queue_id = x.queue_id AND r.gate = x.id)
    OR EXISTS (SELECT 1 FROM pawl.leases l WHERE l.queue_id = x.queue_id AND l.gate = x.id)
    OR EXISTS (SELECT 1 FROM pawl.scheduled s WHERE s.gate = x.id)
    OR EXISTS (SELECT 1 FROM pawl.waiting w WHERE w.gate = x.id)
    OR EXISTS (SELECT 1 FROM pawl.parked_items p WHERE p.gate = x.id) THEN 1 ELSE 0 END
FROM pawl.gates x
WHERE x.id > $1 AND x.pointer <> ''
ORDER BY x.id
LIMIT $2

-- name: queues with hints
SELECT l.queue_id
FROM pawl.queue_limits l
WHERE EXISTS (SELECT 1 FROM pawl.gate_hints h WHERE h.queue_id = l.queue_id AND h.at = 0)
