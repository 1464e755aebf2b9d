-- What is new of messages that are read here: one look for all of them. Each is
-- looked up by its key, whatever the planner thinks of their number.
SELECT x.message_id, c.seq, c.count, c.attempt, c.body
FROM unnest($1::text[], $2::bigint[]) AS x(message_id, place),
  LATERAL (
    SELECT c.seq, c.count, c.attempt, c.body
    FROM pawl.message_chunks c
    WHERE c.message_id = x.message_id AND c.seq >= x.place
    ORDER BY c.seq
    LIMIT $3::bigint) c
