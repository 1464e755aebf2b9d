package task

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-work/pawl/internal/terminal"
)

const failureHead = "FAILURE\tITEMS\tFAILED\tDEAD\tLAST\tCODE\tERROR"

func failureRow(g pawl.FailureGroup) string {
	return terminal.Row(g.Failure, g.Count, g.Failed, g.DeadLettered, terminal.Time(g.LastAt), g.Code, terminal.Clip(g.Error, 100))
}

// FailuresCommand returns the command that lists groups of failures.
func FailuresCommand(a *cli.App) *cobra.Command {
	var p cli.Pages
	var f pawl.FailureFilter
	var state *cli.Choice[pawl.ItemState]
	cmd := a.Verb("failures", "Group failed and dead-lettered items by type and error", cobra.NoArgs,
		cli.With(a, func(ctx context.Context, s pawl.FailureReader, _ []string) error {
			states, err := state.Read()
			if err != nil {
				return err
			}
			if len(states) == 1 {
				f.State = states[0]
			}
			return cli.List(ctx, a, p, failureHead, failureRow, func(ctx context.Context, page pawl.Page) (pawl.List[pawl.FailureGroup], error) {
				f.Page = page
				return s.ListFailures(ctx, f)
			})
		}))
	p.Flags(cmd)
	cmd.Flags().StringSliceVarP(&f.Types, "type", "t", nil, "of these types")
	state = cli.Choose[pawl.ItemState](cmd, "state", "only items in this state",
		[]string{string(pawl.ItemFailed), string(pawl.ItemDeadLettered)})
	return cmd
}
