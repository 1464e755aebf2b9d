package mcp

import (
	"context"
	"encoding/json"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/api"
)

// itemTools are the tools with which a worker works on items.
func itemTools() map[string]verb {
	return map[string]verb{
		"work_checkout":   of(checkout),
		"work_heartbeat":  of(heartbeat),
		"work_progress":   of(progress),
		"work_checkpoint": of(checkpoint),
		"work_resume":     of(resume),
		"work_complete":   of(complete),
		"work_fail":       of(fail),
		"work_release":    of(release),
	}
}

type checkoutIn struct {
	WorkerID     string   `json:"worker_id" jsonschema:"your own name, the same in all calls"`
	TaskID       string   `json:"task_id,omitempty" jsonschema:"only items of this task"`
	ItemID       string   `json:"item_id,omitempty" jsonschema:"only this item"`
	Types        []string `json:"types,omitempty" jsonschema:"only items of these types; none = any"`
	Limit        int      `json:"limit,omitempty" jsonschema:"at most so many; 1 by default; more than 32 count as 32"`
	LeaseSeconds int      `json:"lease_seconds,omitempty" jsonschema:"how long they are yours without a heartbeat; the type's, else 300"`
	WaitSeconds  int      `json:"wait_seconds,omitempty" jsonschema:"0 to 50: wait so long for work; 0 by default; more counts as 50"`
}

type checkoutOut struct {
	Items []leaseOut `json:"items" jsonschema:"yours until lease_expires_at"`
}

// leaseOut is a lease with the tool that hands in its result.
type leaseOut struct {
	pawl.Lease
	Tool string `json:"hand_in,omitempty" jsonschema:"the tool that hands in its result"`
}

// checkout claims. If the caller gives up before it has the answer, what was claimed is
// released, because the caller would never learn of it.
func checkout(ctx context.Context, s *Server, in checkoutIn) (checkoutOut, error) {
	if _, err := waitOf(&in.WaitSeconds); err != nil {
		return checkoutOut{}, err
	}
	in.WaitSeconds, in.Limit = min(in.WaitSeconds, pawl.MaxMCPWait), min(in.Limit, pawl.MaxMCPClaim)
	waiting := ctx
	if in.WaitSeconds > 0 && !deliveryOf(ctx).waits {
		var over func()
		var err error
		if waiting, over, err = s.longCall(ctx); err != nil {
			return checkoutOut{}, err
		}
		defer over()
	}
	leases, err := s.svc.Claim(waiting, pawl.ClaimRequest{
		WorkerID: in.WorkerID, TaskID: in.TaskID, ItemID: in.ItemID, Types: in.Types,
		Limit: in.Limit, LeaseSeconds: in.LeaseSeconds, WaitSeconds: in.WaitSeconds,
	})
	why := access.Ended(waiting)
	if in.WaitSeconds > 0 && len(leases) > 0 && why == nil {
		why = s.opts.Gate.CheckAgain(waiting, access.Of(ctx))
	}
	if len(leases) > 0 {
		deliveryOf(ctx).orElse(func() { s.giveBack(ctx, leases) })
	}
	if gone := ctx.Err(); why == nil && gone != nil {
		why = &pawl.Error{Code: pawl.CodeUnavailable, Message: "the caller has given up", Err: gone}
	}
	if why != nil {
		deliveryOf(ctx).end(false)
		return checkoutOut{}, why
	}
	if err != nil && waiting.Err() != nil && ctx.Err() == nil {
		leases, err = nil, nil // the server stops
	}
	out := checkoutOut{make([]leaseOut, len(leases))}
	for i, tool := range s.handIns(ctx, leases) {
		out.Items[i] = leaseOut{leases[i], tool}
	}
	return out, err
}

// longCall returns a context that ends when the server stops or when the caller's key ends.
func (s *Server) longCall(ctx context.Context) (context.Context, func(), error) {
	ctx, cancel := context.WithCancel(ctx)
	unhook := context.AfterFunc(s.opts.Stopping, cancel)
	waiting, over, err := s.opts.Gate.BeginLongCall(ctx)
	end := func() { over(); unhook(); cancel() }
	if err != nil {
		end()
	}
	return waiting, end, err
}

const giveBackTime = 5 * time.Second

func (s *Server) giveBack(ctx context.Context, leases []pawl.Lease) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackTime)
	defer cancel()
	calls := make([]pawl.ReleaseCall, len(leases))
	for i, l := range leases {
		calls[i].Fence = l.Fence()
	}
	if _, err := s.svc.Release(ctx, calls); err != nil {
		s.opts.Log.WarnContext(ctx, "items of a disconnected client could not be released; their leases will expire", "error", err)
	}
}

// holding is the claim that a worker's call names.
type holding struct {
	ItemID   string `json:"item_id" jsonschema:"the id that work_checkout answered with"`
	WorkerID string `json:"worker_id" jsonschema:"the name you checked it out by"`
	Attempt  int    `json:"attempt" jsonschema:"the attempt that work_checkout answered with"`
}

func (h holding) fence() pawl.Fence {
	return pawl.Fence{ItemID: h.ItemID, WorkerID: h.WorkerID, Attempt: h.Attempt}
}

// itemOut returns an item as it is after a verb.
type itemOut struct {
	Item pawl.Item `json:"item"`
}

// move makes one call of a verb that changes an item.
func move[C any](ctx context.Context, s *Server, v api.Verb[C, pawl.Moved], call C) (itemOut, error) {
	m, err := one(v.Do(s.svc, pawl.WithItem(ctx), []C{call}))
	if err != nil {
		return itemOut{}, err
	}
	item, err := api.ItemOf(ctx, s.svc, m)
	return itemOut{item}, err
}

type heartbeatIn struct {
	holding
	LeaseSeconds int `json:"lease_seconds,omitempty" jsonschema:"as long as before by default"`
}

func heartbeat(ctx context.Context, s *Server, in heartbeatIn) (pawl.Beat, error) {
	b, err := one(s.svc.Heartbeat(ctx, []pawl.HeartbeatCall{{Fence: in.fence(), LeaseSeconds: in.LeaseSeconds}}))
	if b.Stopped == nil {
		b.Stopped = []string{}
	}
	return b, err
}

type progressIn struct {
	holding
	Progress *int    `json:"progress,omitempty" jsonschema:"0 to 99 percent"`
	Stage    *string `json:"stage,omitempty" jsonschema:"where you are, in a few words"`
}

func progress(ctx context.Context, s *Server, in progressIn) (itemOut, error) {
	return move(ctx, s, api.Progress, pawl.ProgressCall{Fence: in.fence(), Progress: in.Progress, Stage: in.Stage})
}

type checkpointIn struct {
	holding
	Type     string          `json:"type,omitempty" jsonschema:"custom by default; or iteration_start, iteration_end, tool_executed, llm_response, approval_point, state_transition, manual_checkpoint, error_boundary"`
	Name     string          `json:"name,omitempty" jsonschema:"names a step: work_resume answers with the newest of each name"`
	Snapshot json.RawMessage `json:"snapshot" jsonschema:"any JSON, at most 1 MiB"`
	Metadata json.RawMessage `json:"metadata,omitempty" jsonschema:"a JSON object"`
}

func checkpoint(ctx context.Context, s *Server, in checkpointIn) (pawl.CheckpointRef, error) {
	if in.Type == "" {
		in.Type = pawl.CustomCheckpoint
	}
	return pawl.SaveCheckpoint(ctx, s.svc, in.fence(), pawl.NewCheckpoint{Type: in.Type, Name: in.Name, Snapshot: in.Snapshot,
		Metadata: in.Metadata})
}

type completeIn struct {
	holding
	Result json.RawMessage `json:"result,omitempty" jsonschema:"any JSON that fits the type's result_schema"`
}

func complete(ctx context.Context, s *Server, in completeIn) (itemOut, error) {
	return move(ctx, s, api.Complete, pawl.CompleteCall{Fence: in.fence(), Result: in.Result})
}

type failIn struct {
	holding
	Error        pawl.Failure `json:"error" jsonschema:"why: a text, or an object of code, message and detail"`
	Retryable    *bool        `json:"retryable,omitempty" jsonschema:"false: it will never work, do not try again; true by default"`
	RetryAfterMS *int64       `json:"retry_after_ms,omitempty" jsonschema:"when to try again, instead of the type's back-off"`
}

func fail(ctx context.Context, s *Server, in failIn) (itemOut, error) {
	return move(ctx, s, api.Fail, pawl.FailCall{Fence: in.fence(), Error: in.Error, Retryable: in.Retryable, RetryAfterMS: in.RetryAfterMS})
}

type releaseIn struct {
	holding
	DelaySeconds int `json:"delay_seconds,omitempty" jsonschema:"how long no one is to take it"`
}

func release(ctx context.Context, s *Server, in releaseIn) (itemOut, error) {
	return move(ctx, s, api.Release, pawl.ReleaseCall{Fence: in.fence(), DelaySeconds: in.DelaySeconds})
}
