-- name: epochs
SELECT epoch, origin, size, lost, checkpoint, created_at
FROM pawl.log_epochs
ORDER BY epoch

-- name: put epoch
INSERT INTO pawl.log_epochs (epoch, origin, size, lost, checkpoint, created_at)
VALUES ($1, $2, $3, $4, $5, $6)

-- name: checkpoints
SELECT signer, epoch, size, note, created_at
FROM pawl.log_checkpoints
ORDER BY epoch DESC, size DESC

-- name: put checkpoint
INSERT INTO pawl.log_checkpoints (signer, epoch, size, note, created_at)
VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (signer) DO UPDATE
SET epoch = excluded.epoch, size = excluded.size, note = excluded.note, created_at = excluded.created_at
WHERE (pawl.log_checkpoints.epoch, pawl.log_checkpoints.size) < (excluded.epoch, excluded.size)

-- Why a witness does not cosign the log, until it does.
-- name: put trouble
INSERT INTO pawl.relay_cursors (sink, position, detail, updated_at)
VALUES ($1, 0, $2, $3)
ON CONFLICT (sink) DO UPDATE
SET detail = excluded.detail, updated_at = excluded.updated_at

-- name: troubles
SELECT sink, detail, updated_at
FROM pawl.relay_cursors
WHERE sink >= 'witness.' AND sink < 'witness/'
ORDER BY sink

-- name: numbers of removals
SELECT id
FROM pawl.log_removals
WHERE id > $1 AND leaf >= $2
ORDER BY id
LIMIT $3
