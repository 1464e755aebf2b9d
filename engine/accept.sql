-- name: parts
SELECT p.id, p.item_id, p.part_key, p.seq, p.status, p.payload, p.evidence, p.notes, p.errors, p.checksum, p.worker_id, p.attempt, p.created_at, p.superseded_at
FROM pawl.item_parts p
