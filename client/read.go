package client

import (
	"context"
	"strings"
	"time"
	"unicode"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
)

// read makes a call without a body. query is one of the query types of api; nil = none.
func read[V any](ctx context.Context, c *Client, name, id string, query any) (V, error) {
	r := request{route: api.RouteOf(name), id: id}
	if query != nil {
		r.query = api.Values(query)
	}
	c.keyed(ctx, &r, 0)
	var out V
	err := c.do(ctx, r, &out)
	return out, err
}

// GetTask reads one task.
func (c *Client) GetTask(ctx context.Context, id string) (pawl.Task, error) {
	return read[pawl.Task](ctx, c, "get_task", id, nil)
}

// WaitTask reads a task once it has ended or failed, or after so many seconds as it is then:
// 0 to pawl.MaxWaitSeconds. pawl.Await waits for longer.
func (c *Client) WaitTask(ctx context.Context, id string, seconds int) (pawl.Task, error) {
	r := request{route: api.RouteOf("get_task"), id: id, query: api.Values(api.EndQuery{Wait: seconds}),
		wait: time.Duration(min(max(seconds, 0), pawl.MaxWaitSeconds)) * time.Second}
	var out pawl.Task
	err := c.do(ctx, r, &out)
	return out, err
}

// ListTasks lists tasks; see pawl.TaskReader.
func (c *Client) ListTasks(ctx context.Context, f pawl.TaskFilter) (pawl.List[pawl.Task], error) {
	return read[pawl.List[pawl.Task]](ctx, c, "list_tasks", "", struct {
		api.TaskQuery
		api.TaskShape
	}{api.TaskQueryOf(f), api.TaskShape{Fields: f.Fields}})
}

// TaskResult reads the result of a completed task; see pawl.TaskReader.
func (c *Client) TaskResult(ctx context.Context, id string) (pawl.TaskResult, error) {
	return read[pawl.TaskResult](ctx, c, "task_result", id, nil)
}

// PartialResult is TaskResult that also accepts a task that did not complete: then it reads
// the results of its completed items; see pawl.TaskReader.
func (c *Client) PartialResult(ctx context.Context, id string) (pawl.TaskResult, error) {
	return read[pawl.TaskResult](ctx, c, "task_result", id, api.ResultQuery{Partial: true})
}

// GetType reads a version of a type; see pawl.TypeReader.
func (c *Client) GetType(ctx context.Context, name string, version int) (pawl.Type, error) {
	return read[pawl.Type](ctx, c, "get_type", name, api.TypeVersion{Version: version})
}

// ListTypes lists registered types; see pawl.TypeReader.
func (c *Client) ListTypes(ctx context.Context, f pawl.TypeFilter) (pawl.List[pawl.Type], error) {
	return read[pawl.List[pawl.Type]](ctx, c, "list_types", "", api.TypeQueryOf(f))
}

// GetItem reads one item.
func (c *Client) GetItem(ctx context.Context, id string) (pawl.Item, error) {
	return read[pawl.Item](ctx, c, "get_item", id, nil)
}

// CheckToken reads what a task token stands for; see pawl.TokenReader.
func (c *Client) CheckToken(ctx context.Context, token string) (pawl.TaskToken, error) {
	var out pawl.TaskToken
	if strings.ContainsFunc(token, unicode.IsControl) {
		return out, &pawl.Error{Code: pawl.CodeInvalid, Op: "check_token", Message: "the task token holds a control character"}
	}
	err := c.do(ctx, request{route: api.RouteOf("check_token"), token: token}, &out)
	return out, err
}

// Why explains the state of an item or task; see pawl.Explainer.
func (c *Client) Why(ctx context.Context, id string) (pawl.Why, error) {
	return read[pawl.Why](ctx, c, "why_item", id, nil)
}

// ListItems lists items; see pawl.ItemReader.
func (c *Client) ListItems(ctx context.Context, f pawl.ItemFilter) (pawl.List[pawl.Item], error) {
	return read[pawl.List[pawl.Item]](ctx, c, "list_items", "", struct {
		api.ItemsQuery
		api.ItemShape
	}{api.ItemsQueryOf(f), api.ItemShape{Fields: f.Fields}})
}

// ListEvents lists events; see pawl.RecordReader.
func (c *Client) ListEvents(ctx context.Context, f pawl.EventFilter) (pawl.List[pawl.Event], error) {
	return read[pawl.List[pawl.Event]](ctx, c, "list_events", "", api.EventsQueryOf(f))
}

// ListProvenance lists provenance records; see pawl.RecordReader.
func (c *Client) ListProvenance(ctx context.Context, f pawl.ProvenanceFilter) (pawl.List[pawl.ProvenanceRecord], error) {
	name, id := "task_provenance", f.TaskID
	switch {
	case f.TaskID != "" && f.ItemID != "":
		return pawl.List[pawl.ProvenanceRecord]{}, pawl.Invalid("/item_id", "does not go with task_id")
	case f.ItemID != "":
		name, id = "item_provenance", f.ItemID
	}
	return read[pawl.List[pawl.ProvenanceRecord]](ctx, c, name, id, api.PagingOf(f.Page))
}

// ListCheckpoints lists checkpoints; see pawl.RecordReader.
func (c *Client) ListCheckpoints(ctx context.Context, f pawl.CheckpointFilter) (pawl.List[pawl.Checkpoint], error) {
	return read[pawl.List[pawl.Checkpoint]](ctx, c, "list_checkpoints", "", api.CheckpointsQueryOf(f))
}

// CountCheckpoints counts a task's checkpoints by type.
func (c *Client) CountCheckpoints(ctx context.Context, taskID string) (map[string]int64, error) {
	out, err := read[api.Counts](ctx, c, "count_checkpoints", taskID, nil)
	return out.Counts, err
}

// ListFailures groups failed items; see pawl.FailureReader.
func (c *Client) ListFailures(ctx context.Context, f pawl.FailureFilter) (pawl.List[pawl.FailureGroup], error) {
	return read[pawl.List[pawl.FailureGroup]](ctx, c, "list_failures", "", api.FailureQueryOf(f))
}

// ListWorkers lists workers; see pawl.StatsReader.
func (c *Client) ListWorkers(ctx context.Context, f pawl.WorkerFilter) (pawl.List[pawl.WorkerInfo], error) {
	return read[pawl.List[pawl.WorkerInfo]](ctx, c, "list_workers", "", api.WorkerQueryOf(f))
}

// ListKeys lists idempotency keys; see pawl.StatsReader.
func (c *Client) ListKeys(ctx context.Context, f pawl.KeyFilter) (pawl.List[pawl.Key], error) {
	return read[pawl.List[pawl.Key]](ctx, c, "list_keys", "", api.KeyQueryOf(f))
}

// LogCheckpoint returns the newest checkpoint; see pawl.LogReader.
func (c *Client) LogCheckpoint(ctx context.Context) (pawl.LogCheckpoint, error) {
	return read[pawl.LogCheckpoint](ctx, c, "log_checkpoint", "", nil)
}

// ProveTask proves a task's events; see pawl.LogReader.
func (c *Client) ProveTask(ctx context.Context, taskID string, page pawl.Page) (pawl.TaskProof, error) {
	return read[pawl.TaskProof](ctx, c, "log_task", taskID, api.PagingOf(page))
}

// ProveLog proves that the log has only grown; see pawl.LogReader.
func (c *Client) ProveLog(ctx context.Context, from, to int64) (pawl.LogConsistency, error) {
	return read[pawl.LogConsistency](ctx, c, "log_consistency", "", api.LogSizes{From: from, To: to})
}

// ListSweeps lists sweeps; see pawl.StatsReader.
func (c *Client) ListSweeps(ctx context.Context, page pawl.Page) (pawl.List[pawl.SweepStats], error) {
	return read[pawl.List[pawl.SweepStats]](ctx, c, "list_sweeps", "", api.PagingOf(page))
}

// ListNamespaces lists namespaces; see pawl.StatsReader.
func (c *Client) ListNamespaces(ctx context.Context, page pawl.Page) (pawl.List[pawl.NamespaceInfo], error) {
	return read[pawl.List[pawl.NamespaceInfo]](ctx, c, "list_namespaces", "", api.PagingOf(page))
}

// SuggestLeases compares the leases of types with their attempts; see pawl.LeaseAdviser.
func (c *Client) SuggestLeases(ctx context.Context, types ...string) ([]pawl.LeaseAdvice, error) {
	out, err := read[pawl.List[pawl.LeaseAdvice]](ctx, c, "suggest_leases", "", api.TypesQuery{Type: types})
	return out.Items, err
}

// Series reads counters of queues; see pawl.SeriesReader.
func (c *Client) Series(ctx context.Context, q pawl.SeriesQuery) ([]pawl.QueueSeries, error) {
	out, err := read[pawl.List[pawl.QueueSeries]](ctx, c, "series", "", api.SeriesQueryOf(q))
	return out.Items, err
}

// Stats reads the current statistics.
func (c *Client) Stats(ctx context.Context) (pawl.Stats, error) {
	return read[pawl.Stats](ctx, c, "stats", "", nil)
}
