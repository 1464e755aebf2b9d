-- oldest: 1
-- +goose Up
-- A task has one row in the view of results: what applying it returned, or else the result of its only item. The item that
-- applied it has another id than the task.

DROP VIEW pawl.v_task_results;
CREATE VIEW pawl.v_task_results AS
SELECT @task_text(e.task_id) AS task_id, t.namespace, e.result AS payload, (strftime('%Y-%m-%dT%H:%M:%S', e.ended_at / 1000000, 'unixepoch') || printf('.%06dZ', e.ended_at % 1000000)) AS created_at, e.task_id AS task_uuid
FROM pawl.finished_items e JOIN pawl.tasks t ON t.id = e.task_id AND t.solo = 1
WHERE e.state = @state(completed) AND e.item_id = t.id AND NOT EXISTS (SELECT 1 FROM pawl.task_results r WHERE r.task_id = t.id)
UNION ALL
SELECT @task_text(r.task_id) AS task_id, r.namespace, r.payload, (strftime('%Y-%m-%dT%H:%M:%S', r.created_at / 1000000, 'unixepoch') || printf('.%06dZ', r.created_at % 1000000)), r.task_id
FROM pawl.task_results r;
