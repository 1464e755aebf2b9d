package item

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
	"github.com/pawl-work/pawl/cmd/pawl/internal/checkpoint"
	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-work/pawl/internal/terminal"
)

func itemClaim(a *cli.App) *cobra.Command {
	var req pawl.ClaimRequest
	cmd := a.Verb(
		"claim --worker ID",
		"Claim items to execute by hand",
		cobra.NoArgs,
		cli.With(a, func(ctx context.Context, s pawl.Leaser, _ []string) error {
			if req.WorkerID == "" {
				req.WorkerID = a.Getenv("PAWL_WORKER_ID")
			}
			var next time.Time
			leases, err := s.Claim(pawl.WithNextAt(ctx, &next), req)
			if err != nil {
				return err
			}
			if leases == nil {
				leases = []pawl.Lease{}
			}
			out := api.Leases{Items: leases}
			if !next.IsZero() {
				out.NextAt = &next
			}
			return a.Show(out, func(w io.Writer) {
				rows := make([]string, len(leases))
				for i, l := range leases {
					rows[i] = terminal.Row(l.ID, l.Attempt, l.WorkerID, l.Type, l.LeaseExpiresAt, l.TaskID, string(l.Input))
				}
				terminal.Table(w, "ITEM\tATTEMPT\tWORKER\tTYPE\tLEASE UNTIL\tTASK\tINPUT", rows)
				if out.NextAt != nil {
					fmt.Fprintln(w, "a rate lets the next one start at", terminal.Time(next))
				}
			})
		}),
	)
	f := cmd.Flags()
	f.StringVarP(&req.WorkerID, "worker", "w", "", "worker id (default $PAWL_WORKER_ID)")
	f.StringSliceVarP(&req.Types, "type", "t", nil, "of these types (default any work)")
	f.StringVar(&req.TaskID, "task", "", "of this task")
	f.StringVar(&req.ItemID, "item", "", "this item")
	f.IntVar(&req.Limit, "limit", 1, "maximum number of items, up to 1000")
	f.IntVar(&req.LeaseSeconds, "lease", 0, "seconds the lease lasts, up to 86400 (default the lease of the type, or 300)")
	f.IntVar(&req.WaitSeconds, "wait", 0, "seconds to wait for work, up to 60")
	return cmd
}

// fenced returns a verb of the item's holder. Its flags name the claim; in a program of
// `pawl worker --exec` they are read from the environment.
func fenced[R any](a *cli.App, use, short string, run func(ctx context.Context, s R, f pawl.Fence) error) *cobra.Command {
	var fence pawl.Fence
	cmd := a.Verb(use, short, cobra.MaximumNArgs(1), cli.With(a, func(ctx context.Context, s R, args []string) error {
		fence.ItemID = a.Getenv("PAWL_ITEM_ID")
		if len(args) == 1 {
			fence.ItemID = args[0]
		}
		if fence.WorkerID == "" {
			fence.WorkerID = a.Getenv("PAWL_WORKER_ID")
		}
		if fence.Attempt == 0 {
			fence.Attempt, _ = strconv.Atoi(a.Getenv("PAWL_ATTEMPT"))
		}
		if fence.ItemID == "" || fence.WorkerID == "" || fence.Attempt == 0 {
			return cli.Invalid("the claim is missing: give ITEM --worker ID --attempt N, as printed by `pawl item claim`")
		}
		return run(ctx, s, fence)
	}))
	cmd.Flags().StringVarP(&fence.WorkerID, "worker", "w", "", "worker that holds the lease (default $PAWL_WORKER_ID)")
	cmd.Flags().IntVar(&fence.Attempt, "attempt", 0, "the claim's attempt (default $PAWL_ATTEMPT)")
	return cmd
}

func itemHeartbeat(a *cli.App) *cobra.Command {
	var seconds int
	cmd := fenced(a, "heartbeat ITEM", "Extend a lease", func(ctx context.Context, s pawl.Leaser, f pawl.Fence) error {
		rs, err := s.Heartbeat(ctx, []pawl.HeartbeatCall{{Fence: f, LeaseSeconds: seconds}})
		return cli.ShowEach(a, rs, err, func(w io.Writer, bs []pawl.Beat) {
			for _, b := range bs {
				if b.Cancelled {
					fmt.Fprintln(w, "cancelled: stop working on it")
					continue
				}
				terminal.Fields(w, "lease until", terminal.Time(b.LeaseExpiresAt), "lease", fmt.Sprintf("%ds", b.LeaseSeconds))
			}
		})
	})
	cmd.Flags().IntVar(&seconds, "lease", 0, "seconds the lease lasts from now on (default the claim's)")
	return cmd
}

func itemProgress(a *cli.App) *cobra.Command {
	var percent int
	var stage string
	var cmd *cobra.Command
	cmd = fenced(a, "progress ITEM", "Report the progress of an item", func(ctx context.Context, s pawl.Recorder, f pawl.Fence) error {
		call := pawl.ProgressCall{Fence: f}
		if cmd.Flags().Changed("percent") {
			call.Progress = &percent
		}
		if cmd.Flags().Changed("stage") {
			call.Stage = &stage
		}
		rs, err := s.Progress(ctx, []pawl.ProgressCall{call})
		return cli.ShowEach(a, rs, err, showMoved)
	})
	cmd.Flags().IntVar(&percent, "percent", 0, "0…99")
	cmd.Flags().StringVar(&stage, "stage", "", "a short text that describes the current stage")
	return cmd
}

func itemCheckpoint(a *cli.App) *cobra.Command {
	var n checkpoint.NewCheckpoint
	cmd := fenced(a, "checkpoint ITEM", "Save a checkpoint under the lease", func(ctx context.Context, s pawl.Recorder, f pawl.Fence) error {
		c, err := n.Read(a)
		if err != nil {
			return err
		}
		rs, err := s.Checkpoint(ctx, []pawl.CheckpointCall{{Fence: f, NewCheckpoint: c}})
		return cli.ShowEach(a, rs, err, checkpoint.ShowRefs)
	})
	n.Flags(cmd.Flags())
	return cmd
}

func itemComplete(a *cli.App) *cobra.Command {
	var result string
	cmd := fenced(a, "complete ITEM", "Complete an item with its result", func(ctx context.Context, s pawl.Finisher, f pawl.Fence) error {
		raw, err := a.JsonArg("result", result)
		if err != nil {
			return err
		}
		rs, err := s.Complete(ctx, []pawl.CompleteCall{{Fence: f, Result: raw}})
		return cli.ShowEach(a, rs, err, showMoved)
	})
	cmd.Flags().StringVar(&result, "result", "", "JSON, @FILE or - for stdin (default null)")
	return cmd
}

func itemFail(a *cli.App) *cobra.Command {
	var why pawl.Failure
	var detail string
	var permanent bool
	var after int64
	var cmd *cobra.Command
	cmd = fenced(
		a,
		"fail ITEM --error TEXT",
		"Report that the attempt failed",
		func(ctx context.Context, s pawl.Finisher, f pawl.Fence) (err error) {
			if why.Detail, err = a.JsonArg("detail", detail); err != nil {
				return err
			}
			retryable := !permanent
			call := pawl.FailCall{Fence: f, Error: why, Retryable: &retryable}
			if cmd.Flags().Changed("retry-after-ms") {
				call.RetryAfterMS = &after
			}
			rs, err := s.Fail(ctx, []pawl.FailCall{call})
			return cli.ShowEach(a, rs, err, showMoved)
		},
	)
	cmd.Flags().StringVar(&why.Message, "error", "", "what went wrong")
	cmd.Flags().StringVar(&why.Code, "code", "", "a code for programs")
	cmd.Flags().StringVar(&detail, "detail", "", "details: JSON, @FILE or -")
	cmd.Flags().BoolVar(&permanent, "permanent", false, "do not retry")
	cmd.Flags().Int64Var(&after, "retry-after-ms", 0, "retry after this time (default: the back-off)")
	_ = cmd.MarkFlagRequired("error")
	return cmd
}

func itemRelease(a *cli.App) *cobra.Command {
	var delay time.Duration
	cmd := fenced(a, "release ITEM", "Give an item back, without a failure", func(ctx context.Context, s pawl.Leaser, f pawl.Fence) error {
		rs, err := s.Release(ctx, []pawl.ReleaseCall{{Fence: f, DelaySeconds: cli.Seconds(delay)}})
		return cli.ShowEach(a, rs, err, showMoved)
	})
	cmd.Flags().DurationVar(&delay, "delay", 0, "time after which it can be claimed again, in whole seconds (10m)")
	return cmd
}

func itemRevoke(a *cli.App) *cobra.Command {
	var like pawl.RevokeCall
	cmd := a.Verb(
		"revoke-lease ITEM…",
		"End the leases of items, whichever worker holds them; not counted as failures",
		cobra.MinimumNArgs(1),
		cli.With(a, func(ctx context.Context, s pawl.LeaseKeeper, args []string) error {
			calls := make([]pawl.RevokeCall, len(args))
			for i, id := range args {
				calls[i] = like
				calls[i].ItemID = id
			}
			rs, err := s.RevokeLeases(a.ByUser(ctx), calls)
			return cli.ShowEach(a, rs, err, showMoved)
		}),
	)
	cmd.Flags().IntVar(&like.Attempt, "attempt", 0, "only the lease of this attempt (default: the current lease)")
	cmd.Flags().StringVar(&like.Reason, "reason", "", "reason, stored in the event")
	return cmd
}

func itemResume(a *cli.App) *cobra.Command {
	return a.Verb(
		"resume ITEM",
		"Show the state from which the next attempt continues",
		cobra.ExactArgs(1),
		cli.With(a, func(ctx context.Context, s pawl.Recorder, args []string) error {
			r, err := s.Resume(ctx, args[0])
			if err != nil {
				return err
			}
			return a.Show(r, func(w io.Writer) {
				terminal.Fields(
					w,
					"item",
					r.ItemID,
					"task",
					r.TaskID,
					"attempt",
					fmt.Sprint(r.Attempt),
					"newest",
					describeCheckpoint(r.Newest),
					"iteration start",
					describeCheckpoint(r.IterationStart),
					"iteration end",
					describeCheckpoint(r.IterationEnd),
					"error boundary",
					describeCheckpoint(r.ErrorBoundary),
				)
				var rows []string
				for _, name := range slices.Sorted(maps.Keys(r.Steps)) {
					rows = append(rows, terminal.Row(name, r.Steps[name].Sequence, r.Steps[name].Attempt, string(r.Steps[name].Snapshot)))
				}
				if len(rows) > 0 {
					terminal.Table(w, "STEP\tSEQUENCE\tATTEMPT\tSNAPSHOT", rows)
				}
				rows = nil
				for _, name := range slices.Sorted(maps.Keys(r.Signals)) {
					s := r.Signals[name]
					rows = append(rows, terminal.Row(name, s.Name, s.Key, s.SentAt, string(s.Payload)))
				}
				if len(rows) > 0 {
					terminal.Table(w, "WAITED FOR BY\tSIGNAL\tKEY\tSENT\tPAYLOAD", rows)
				}
			})
		}),
	)
}

func describeCheckpoint(c *pawl.Checkpoint) string {
	if c == nil {
		return ""
	}
	return terminal.Clip(terminal.Printable(fmt.Sprintf("%d %s %s", c.Sequence, c.Type, c.Snapshot)), 200)
}

func showMoved(w io.Writer, ms []pawl.Moved) {
	for _, m := range ms {
		repeated := ""
		if m.Repeated {
			repeated = "an earlier call did it; this one changed nothing"
		}
		terminal.Fields(
			w,
			"item",
			m.ID,
			"state",
			string(m.State),
			"attempt",
			fmt.Sprint(m.Attempt),
			"failures",
			fmt.Sprint(m.Failures),
			"goes on",
			terminal.OptionalTime(m.RunAt),
			"repeated",
			repeated,
		)
	}
}
