-- The new chunks of all messages that this process reads, in one query. Each message is
-- looked up by its key, whatever number of rows the planner expects.
SELECT x.message_id, c.seq, c.count, c.attempt, c.body
FROM unnest($1::text[], $2::bigint[]) AS x(message_id, place),
  LATERAL (
    SELECT c.seq, c.count, c.attempt, c.body
    FROM pawl.message_chunks c
    WHERE c.message_id = x.message_id AND c.seq >= x.place
    ORDER BY c.seq
    LIMIT $3::bigint) c
