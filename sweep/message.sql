-- name: own strays
SELECT m.id, m.namespace, ''
FROM pawl.messages m

-- name: strays
SELECT m.id, m.namespace, COALESCE(@state_name(r.state), @state_name(e.state))
FROM pawl.messages m
LEFT JOIN pawl.parked_items r ON r.item_id = m.item_id
LEFT JOIN pawl.finished_items e ON e.item_id = m.item_id
