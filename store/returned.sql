-- What a statement answers of an item beside the row that it moves: see ReturnItem.

-- name: item
(SELECT CAST(@object('type', w.type, 'kind', w.kind, 'position', w.position, 'key', w.key, 'priority', w.priority, 'after', w.after, 'input', w.input,
    'parts_required', w.parts_required, 'max_attempts', w.max_attempts, 'created_at', w.created_at@more) AS TEXT)
  FROM pawl.work_items w
  WHERE w.id = @id)

-- name: live workers
(SELECT @group(DISTINCT k.types)
  FROM pawl.workers k
  WHERE k.namespace = @namespace AND (k.last_seen_at >= @now - @recent
    OR k.worker_id IN (SELECT l.worker_id FROM pawl.leases l WHERE l.namespace = @namespace AND l.lease_expires_at > @now AND l.item_id <> @id)))

-- name: parts
(SELECT @group(@array(p.part_key, p.status))
  FROM pawl.work_item_parts p
  WHERE p.item_id = @id AND p.superseded_at IS NULL)
