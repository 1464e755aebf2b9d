-- The tables that an item moves to when its lease ends.

-- name: PutReady
INSERT INTO pawl.ready (queue_id, rank, item_id, task_id, left_by, worker, started_at, since, error, @columns(carried))
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, @values(carried, $10))

-- name: PutScheduled
INSERT INTO pawl.scheduled (item_id, queue_id, task_id, priority, run_at, left_by, worker, started_at, since, error, claimed_at, @columns(carried))
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, @values(carried, $12))

-- name: PutWaiting
INSERT INTO pawl.waiting (item_id, queue_id, task_id, priority, until, signal, signal_key, needs, left_by, worker, started_at, since, error, claimed_at, @columns(carried))
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, @values(carried, $15))

-- name: PutFailed
INSERT INTO pawl.parked_items (item_id, queue_id, task_id, priority, state, left_by, worker, started_at, since, completed_at, progress, stage, error, failure, claimed_at, @columns(carried))
VALUES ($1, $2, $3, $4, @state(failed), $5, $6, $7, $8, $8, $9, $10, $11, $12, $13, @values(carried, $14))

-- name: BreakDependents
UPDATE pawl.waiting
SET broken = broken + 1
WHERE item_id IN (SELECT item_id FROM pawl.item_deps WHERE needs_id = $1)
