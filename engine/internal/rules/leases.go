package rules

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
)

// CheckClaim checks a claim, and sets its limit to 1 if it
// names none.
func CheckClaim(req *pawl.ClaimRequest) error {
	if req.Limit == 0 {
		req.Limit = 1
	}
	var f Fields
	f.Text("/worker_id", req.WorkerID, 1, pawl.MaxIDLen)
	f.Number("/limit", req.Limit, 1, pawl.MaxClaim)
	f.Number("/lease_seconds", req.LeaseSeconds, 0, pawl.MaxLeaseSeconds)
	f.Number("/wait_seconds", req.WaitSeconds, 0, pawl.MaxWaitSeconds)
	f.Text("/task_id", req.TaskID, 0, pawl.MaxIDLen)
	f.Text("/item_id", req.ItemID, 0, pawl.MaxIDLen)
	if len(req.Types) > 1000 {
		f.Add("/types", "has %d types; at most 1000 are allowed", len(req.Types))
	}
	for i, t := range req.Types {
		f.Text(fmt.Sprintf("/types/%d", i), t, 1, pawl.MaxTypeLen)
	}
	return f.Err("claim")
}

// Heartbeat checks what a heartbeat names besides its fence.
func (f *Fields) Heartbeat(c *pawl.HeartbeatCall) {
	f.Number("/lease_seconds", c.LeaseSeconds, 0, pawl.MaxLeaseSeconds)
}

// Progress checks what a report of progress names besides its fence.
func (f *Fields) Progress(c *pawl.ProgressCall) {
	if c.Progress != nil {
		f.Number("/progress", *c.Progress, 0, 100)
	}
	if c.Stage != nil {
		f.Text("/stage", *c.Stage, 0, pawl.MaxStageLen)
	}
}

// Fail checks what a failure names besides its fence.
func (f *Fields) Fail(c *pawl.FailCall) {
	f.Text("/error/message", c.Error.Message, 0, pawl.MaxErrorBytes)
	f.Text("/error/code", c.Error.Code, 0, pawl.MaxTypeLen)
	f.JSON("/error/detail", c.Error.Detail, pawl.MaxErrorBytes)
	if ms := c.RetryAfterMS; ms != nil && (*ms < 0 || *ms > pawl.MaxDelay.Milliseconds()) {
		f.Add("/retry_after_ms", "must lie between 0 and %d", pawl.MaxDelay.Milliseconds())
	}
}

// Suspend checks what a suspension names besides its fence.
func (f *Fields) Suspend(c *pawl.SuspendCall, now time.Time) {
	f.Text("/signal", c.Signal, 0, pawl.MaxKeyLen)
	f.Text("/key", c.Key, 0, pawl.MaxKeyLen)
	f.Ahead("/until", c.Until, now)
	if c.Since != "" && c.Since != pawl.SinceEver {
		f.Add("/since", `must be "ever", or be left out`)
	}
	switch {
	case c.Children == nil && c.Until == nil && c.Signal == "":
		f.Add("/until", "is required, or a signal, or children")
	case c.Children != nil && (c.Until != nil || c.Signal != "" || c.Key != "" || c.Since != ""):
		f.Add("/children", "does not go with until, signal, key and since")
	}
}

// Release checks what a release names besides its fence.
func (f *Fields) Release(c *pawl.ReleaseCall) {
	f.Number("/delay_seconds", c.DelaySeconds, 0, maxDelaySeconds)
}

// Checkpoint checks the checkpoint of an item.
func (f *Fields) Checkpoint(c *pawl.CheckpointCall) {
	f.checkpoint(&c.NewCheckpoint, pawl.CheckpointTypes)
}

// CheckTaskCheckpoint checks the checkpoint of a task.
func CheckTaskCheckpoint(c *pawl.TaskCheckpoint) error {
	var f Fields
	f.checkpoint(&c.NewCheckpoint, pawl.TaskCheckpointTypes)
	return f.Err("checkpoint")
}

// checkpoint checks a checkpoint; types are those that may be written.
func (f *Fields) checkpoint(p *pawl.NewCheckpoint, types []string) { f.checkpointAt("", p, types) }

func (f *Fields) checkpointAt(at string, p *pawl.NewCheckpoint, types []string) {
	if !slices.Contains(types, p.Type) {
		f.Add(at+"/type", "is %q; it must be one of %s", p.Type, strings.Join(types, ", "))
	}
	f.Name(at+"/name", p.Name)
	f.Text(at+"/args_hash", p.ArgsHash, 0, pawl.MaxKeyLen)
	f.JSON(at+"/snapshot", p.Snapshot, pawl.MaxPayloadBytes)
	f.Object(at+"/metadata", &p.Metadata, pawl.MaxMetadataBytes)
	if len(p.Snapshot) == 0 {
		f.Add(at+"/snapshot", "is required")
	}
}

// CheckRevoke checks the call that revokes a lease.
func CheckRevoke(c *pawl.RevokeCall) error {
	var f Fields
	f.Text("/id", c.ItemID, 1, pawl.MaxIDLen)
	f.Text("/reason", c.Reason, 0, pawl.MaxReasonLen)
	if c.Attempt < 0 {
		f.Add("/attempt", "must not be below 0")
	}
	return f.Err("revoke_lease")
}

// CheckQueue checks the type that a queue is of.
func CheckQueue(op, typ string) error {
	var f Fields
	f.Text("/type", typ, 1, pawl.MaxTypeLen)
	if op == "set_queue" {
		f.reserved("/type", typ)
	}
	return f.Err(op)
}

// CheckWorker checks the registration of a worker.
func CheckWorker(w *pawl.WorkerInfo) error {
	var f Fields
	f.Text("/worker_id", w.WorkerID, 1, pawl.MaxIDLen)
	f.Text("/name", w.Name, 0, pawl.MaxIDLen)
	f.Text("/version", w.Version, 0, pawl.MaxIDLen)
	for i, t := range w.Types {
		f.Text(fmt.Sprintf("/types/%d", i), t, 1, pawl.MaxTypeLen)
	}
	return f.Err("register")
}
