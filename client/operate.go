package client

import (
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
)

// RetryTasks queues failed items again; see pawl.TaskOperator.
func (c *Client) RetryTasks(ctx context.Context, calls []pawl.TaskCall) ([]pawl.Result[pawl.Task], error) {
	return batch(ctx, c, api.RetryTasks, calls)
}

// BuryTasks dead-letters failed items; see pawl.TaskOperator.
func (c *Client) BuryTasks(ctx context.Context, calls []pawl.TaskCall) ([]pawl.Result[pawl.Task], error) {
	return batch(ctx, c, api.BuryTasks, calls)
}

// DeleteTasks removes tasks; see pawl.TaskOperator.
func (c *Client) DeleteTasks(ctx context.Context, calls []pawl.TaskCall) ([]pawl.Result[string], error) {
	return batch(ctx, c, api.DeleteTasks, calls)
}

// RevokeLeases ends leases; see pawl.LeaseKeeper.
func (c *Client) RevokeLeases(ctx context.Context, calls []pawl.RevokeCall) ([]pawl.Result[pawl.Moved], error) {
	return batch(ctx, c, api.RevokeLeases, calls)
}

// PutTypes registers types; see pawl.TypeKeeper.
func (c *Client) PutTypes(ctx context.Context, types []pawl.Type) ([]pawl.Result[pawl.TypeRef], error) {
	return batch(ctx, c, api.PutTypes, types)
}

// RemoveTypes removes types from the registry; see pawl.TypeKeeper.
func (c *Client) RemoveTypes(ctx context.Context, names []string) ([]pawl.Result[string], error) {
	return batch(ctx, c, api.RemoveTypes, names)
}

// Sweep runs one pass on the server; see pawl.Sweeper.
func (c *Client) Sweep(ctx context.Context) (pawl.SweepStats, error) {
	return read[pawl.SweepStats](ctx, c, "sweep", "", nil)
}

// Tick lets the server do once what is due; see pawl.Sweeper.
func (c *Client) Tick(ctx context.Context) (pawl.Ticked, error) {
	return read[pawl.Ticked](ctx, c, "tick", "", nil)
}

// Prunable counts what a pass would remove now; see pawl.Sweeper.
func (c *Client) Prunable(ctx context.Context) (pawl.Prunable, error) {
	return read[pawl.Prunable](ctx, c, "prunable", "", nil)
}

// Doctor has the server check the whole database; see pawl.Sweeper.
func (c *Client) Doctor(ctx context.Context, call pawl.DoctorCall) (pawl.DoctorReport, error) {
	return write[pawl.DoctorReport](ctx, c, "doctor", "", call)
}

// ListArchives lists archived tasks; see pawl.ArchiveKeeper.
func (c *Client) ListArchives(ctx context.Context, page pawl.Page) (pawl.List[pawl.Archive], error) {
	return read[pawl.List[pawl.Archive]](ctx, c, "list_archives", "", api.PagingOf(page))
}

// RestoreArchive brings an archived task back; see pawl.ArchiveKeeper.
func (c *Client) RestoreArchive(ctx context.Context, taskID string) (pawl.Task, error) {
	return read[pawl.Task](ctx, c, "restore_archive", taskID, nil)
}

// DeleteArchive removes what is archived of a task; see pawl.ArchiveKeeper.
func (c *Client) DeleteArchive(ctx context.Context, taskID string) error {
	_, err := read[struct{}](ctx, c, "delete_archive", taskID, nil)
	return err
}

// ListRelays lists the relays with their positions; see pawl.RelayKeeper.
func (c *Client) ListRelays(ctx context.Context) (pawl.List[pawl.Relay], error) {
	return read[pawl.List[pawl.Relay]](ctx, c, "list_relays", "", nil)
}

// ResumeRelay enables a disabled relay again; see pawl.RelayKeeper.
func (c *Client) ResumeRelay(ctx context.Context, sink, from string) (pawl.Relay, error) {
	if from == pawl.RelayFromStored {
		from = "" // a server of before knows no member
	}
	return write[pawl.Relay](ctx, c, "resume_relay", sink, api.RelayBody{From: from})
}

// ForgetRelay removes what is stored about a relay; see pawl.RelayKeeper.
func (c *Client) ForgetRelay(ctx context.Context, sink string) error {
	_, err := read[struct{}](ctx, c, "forget_relay", sink, nil)
	return err
}

// PauseQueue stops claims from a queue; see pawl.QueueKeeper.
func (c *Client) PauseQueue(ctx context.Context, typ string) (pawl.Queue, error) {
	return read[pawl.Queue](ctx, c, "pause_queue", typ, nil)
}

// SetQueue changes the limits of a queue; see pawl.QueueKeeper.
func (c *Client) SetQueue(ctx context.Context, typ string, patch pawl.QueuePatch) (pawl.Queue, error) {
	body, err := encode(patch)
	if err != nil {
		return pawl.Queue{}, err
	}
	r := request{route: api.RouteOf("put_queue"), id: typ, body: body}
	c.keyed(ctx, &r, 0)
	var out pawl.Queue
	err = c.do(ctx, r, &out)
	return out, err
}

// ResumeQueue allows claims from a queue; see pawl.QueueKeeper.
func (c *Client) ResumeQueue(ctx context.Context, typ string) (pawl.Queue, error) {
	return read[pawl.Queue](ctx, c, "resume_queue", typ, nil)
}

// PauseNamespace stops claims in the namespace; see pawl.QueueKeeper.
func (c *Client) PauseNamespace(ctx context.Context) error {
	return c.call(ctx, "pause_namespace")
}

// ResumeNamespace allows claims in the namespace; see pawl.QueueKeeper.
func (c *Client) ResumeNamespace(ctx context.Context) error {
	return c.call(ctx, "resume_namespace")
}

// call makes a call without a body, whose answer has none.
func (c *Client) call(ctx context.Context, name string) error {
	r := request{route: api.RouteOf(name)}
	c.keyed(ctx, &r, 0)
	return c.do(ctx, r, nil)
}

// GetQueue reads a queue; see pawl.QueueReader.
func (c *Client) GetQueue(ctx context.Context, typ string) (pawl.Queue, error) {
	return read[pawl.Queue](ctx, c, "get_queue", typ, nil)
}

// ListQueues lists queues; see pawl.QueueReader.
func (c *Client) ListQueues(ctx context.Context, page pawl.Page) (pawl.List[pawl.Queue], error) {
	return read[pawl.List[pawl.Queue]](ctx, c, "list_queues", "", api.PagingOf(page))
}
