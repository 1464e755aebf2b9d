-- oldest: 12
-- +goose Up
-- A plan item is set aside (solo = 2) as an apply item is: its moves are neither
-- its task's nor counted. What becomes of a task that is being planned the engine
-- sees to (todo = 1), as it does of one that is being applied.
UPDATE ready SET solo = 2 WHERE task_id IN (SELECT task_id FROM task_live WHERE planning = 1);
UPDATE scheduled SET solo = 2 WHERE task_id IN (SELECT task_id FROM task_live WHERE planning = 1);
UPDATE leases SET solo = 2 WHERE task_id IN (SELECT task_id FROM task_live WHERE planning = 1);
UPDATE rests SET solo = 2 WHERE task_id IN (SELECT task_id FROM task_live WHERE planning = 1);
UPDATE task_live
SET items = 0, open = 0, failed = 0, dead = 0, cancelled = 0, todo = CASE WHEN state = 'open' THEN 1 ELSE 0 END,
  failed_in = CASE WHEN state IN ('failed', 'dead_lettered') THEN 'plan' END
WHERE planning = 1;
