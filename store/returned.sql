-- The columns of an item that a statement returns besides the row that it moves: see
-- ReturnItem.

-- name: item
(SELECT CAST(@object('type', w.type, 'kind', w.kind, 'position', w.position, 'key', w.key, 'priority', w.priority, 'after', w.after,
    'parts_required', w.parts_required, 'max_attempts', w.max_attempts, 'created_at', w.created_at, 'deadline', w.deadline@more) AS TEXT)
  FROM pawl.all_items w
  WHERE w.id = @id), (SELECT w.input FROM pawl.all_items w WHERE w.id = @id)

-- name: parts
(SELECT @group(@array(p.part_key, p.status))
  FROM pawl.item_parts p
  WHERE p.item_id = @id AND p.superseded_at IS NULL)
