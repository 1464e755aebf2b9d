-- name: heads
SELECT m.id, m.state, m.chunks, m.step_number, m.cuts
FROM pawl.messages m
WHERE m.id IN @list($1)
