package task

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
)

func taskApprove(a *cli.App) *cobra.Command {
	var comment string
	var version int
	var limit int64
	var cmd *cobra.Command
	cmd = a.Verb(
		"approve TASK…",
		"Approve submitted tasks; each takes effect once",
		cobra.MinimumNArgs(1),
		cli.With(a, func(ctx context.Context, s pawl.Decider, args []string) error {
			calls := make([]pawl.ApproveCall, len(args))
			for i, id := range args {
				calls[i] = pawl.ApproveCall{TaskID: id, Comment: comment}
				if cmd.Flags().Changed("version") {
					calls[i].Version = &version
				}
				if cmd.Flags().Changed("limit") {
					calls[i].Limit = &limit
				}
			}
			rs, err := s.ApproveTasks(a.ByUser(ctx), calls)
			return cli.ShowEach(a, rs, err, showTasks)
		}),
	)
	cmd.Flags().StringVar(&comment, "comment", "", "comment, stored in the event")
	cmd.Flags().IntVar(&version, "version", 0, "only if the task still has this version")
	cmd.Flags().Int64Var(&limit, "limit", 0, "of a task that asks for more of a budget: the budget's new limit (default: as much as it needs)")
	return cmd
}

func taskReject(a *cli.App) *cobra.Command {
	var call pawl.RejectCall
	var errors []string
	var version int
	var cmd *cobra.Command
	cmd = a.Verb(
		"reject TASK --error CODE=MESSAGE",
		"Reject a submitted task, permanently or for rework",
		cobra.ExactArgs(1),
		cli.With(a, func(ctx context.Context, s pawl.Decider, args []string) error {
			call.TaskID, call.Errors = args[0], make([]pawl.Complaint, len(errors))
			for i, e := range errors {
				c := &call.Errors[i]
				code, message, _ := strings.Cut(e, "=")
				c.Code, c.Field, _ = strings.Cut(code, "@")
				c.Message = message
			}
			if cmd.Flags().Changed("version") {
				call.Version = &version
			}
			rs, err := s.RejectTasks(a.ByUser(ctx), []pawl.RejectCall{call})
			return cli.ShowEach(a, rs, err, showTasks)
		}),
	)
	f := cmd.Flags()
	f.StringArrayVar(
		&errors,
		"error",
		nil,
		"a reason, may be repeated: thin=\"one page is too few\", or with a JSON Pointer into the result: thin@/pages=\"…\"",
	)
	f.BoolVar(&call.AllowRework, "rework", false, "send its items back for rework, with the reasons")
	f.StringSliceVar(&call.ItemIDs, "item", nil, "with --rework: only these items")
	f.StringVar(&call.Comment, "comment", "", "comment, stored in the event")
	f.IntVar(&version, "version", 0, "only if the task still has this version")
	return cmd
}
