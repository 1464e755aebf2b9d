-- The first items of gates, in claim order; with $4, the oldest of each. Each gate's own are
-- read from the index of gates, as far as the limit goes. Items that other transactions lock are
-- skipped.
SELECT g.gate, h.rank, h.item_id
FROM unnest($2::int[], $3::int[]) AS g(gate, most),
  LATERAL (
    SELECT r.rank, r.item_id
    FROM pawl.ready r
    WHERE NOT $4::boolean AND r.queue_id = $1::int AND r.gate = g.gate
    ORDER BY r.rank, r.item_id
    LIMIT g.most
    FOR UPDATE SKIP LOCKED) h
UNION ALL
SELECT g.gate, h.rank, h.item_id
FROM unnest($2::int[]) AS g(gate),
  LATERAL (
    WITH RECURSIVE k (rank) AS (
      SELECT (SELECT r.rank FROM pawl.ready r WHERE r.queue_id = $1::int AND r.gate = g.gate ORDER BY r.rank LIMIT 1)
      UNION ALL
      SELECT (SELECT r.rank FROM pawl.ready r WHERE r.queue_id = $1::int AND r.gate = g.gate AND r.rank > k.rank ORDER BY r.rank LIMIT 1)
      FROM k
      WHERE k.rank IS NOT NULL)
    SELECT k.rank, (SELECT r.item_id FROM pawl.ready r WHERE r.queue_id = $1::int AND r.gate = g.gate AND r.rank = k.rank ORDER BY r.item_id LIMIT 1) AS item_id
    FROM k
    WHERE k.rank IS NOT NULL
    ORDER BY 2
    LIMIT 1) o,
  LATERAL (
    SELECT r.rank, r.item_id
    FROM pawl.ready r
    WHERE r.queue_id = $1::int AND r.rank = o.rank AND r.item_id = o.item_id
    FOR UPDATE SKIP LOCKED) h
WHERE $4::boolean
