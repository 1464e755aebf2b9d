-- The positions of the relays: rows of relay_cursors whose names begin with "relay.", one
-- for each sink.

-- name: relay
SELECT sink, position, detail, updated_at
FROM pawl.relay_cursors
WHERE sink = $1

-- name: hold relay
SELECT sink, position, detail, updated_at
FROM pawl.relay_cursors
WHERE sink = $1
@lock

-- name: relays
SELECT sink, position, detail, updated_at
FROM pawl.relay_cursors
WHERE sink >= 'relay.' AND sink < 'relay/'
ORDER BY sink
LIMIT $1

-- name: write relay
UPDATE pawl.relay_cursors
SET position = $2, detail = $3, updated_at = $4
WHERE sink = $1
