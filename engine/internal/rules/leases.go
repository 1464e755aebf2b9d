package rules

import (
	"slices"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
)

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
	f.Number("/delay_seconds", c.DelaySeconds, 0, MaxDelaySeconds)
}

// Checkpoint checks the checkpoint of an item.
func (f *Fields) Checkpoint(c *pawl.CheckpointCall) {
	f.CheckpointAt("", &c.NewCheckpoint, pawl.CheckpointTypes)
}

// checkpoint checks a checkpoint; types are those that may be written.
func (f *Fields) CheckpointAt(at string, p *pawl.NewCheckpoint, types []string) {
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
