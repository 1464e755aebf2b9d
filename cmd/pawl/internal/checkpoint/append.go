package checkpoint

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-work/pawl/internal/terminal"
)

func checkpointAppend(a *cli.App) *cobra.Command {
	var checkpoints string
	var expected int64
	var rules []string
	var cmd *cobra.Command
	run := cli.With(a, func(ctx context.Context, s pawl.CheckpointKeeper, args []string) error {
		call := pawl.CheckpointAppend{TaskID: args[0]}
		if cmd.Flags().Changed("expected") {
			call.Expected = &expected
		}
		text, err := a.JsonArg("checkpoints", checkpoints)
		if err == nil {
			err = cli.ReadJSON("--checkpoints is no list of checkpoints", text, &call.Checkpoints)
		}
		if err != nil {
			return err
		}
		if call.Prune, err = pruneRules(rules); err != nil {
			return err
		}
		rs, err := s.AppendCheckpoints(ctx, []pawl.CheckpointAppend{call})
		return cli.ShowEach(a, rs, err, func(w io.Writer, all []pawl.CheckpointsAppended) {
			for _, out := range all {
				for _, r := range out.Checkpoints {
					terminal.Fields(w, "checkpoint", r.ID, "sequence", fmt.Sprint(r.Sequence), "kept", fmt.Sprint(r.Kept))
				}
			}
		})
	})
	cmd = a.Verb("append TASK", "Append checkpoints to a task, all or none, on condition", cobra.ExactArgs(1), run)
	cmd.Flags().StringVar(&checkpoints, "checkpoints", "",
		"a list of {type, name, snapshot, metadata, on_conflict}: JSON, @FILE or - for stdin")
	cmd.Flags().Int64Var(&expected, "expected", 0, "the number that the newest checkpoint of the task must have; 0 = it must have none")
	cmd.Flags().StringArrayVar(&rules, "prune", nil, "afterwards keep the newest of a prefix: PREFIX=N")
	_ = cmd.MarkFlagRequired("checkpoints")
	return cmd
}

func checkpointPrune(a *cli.App) *cobra.Command {
	var rules []string
	cmd := a.Verb("prune TASK", "Remove checkpoints of a task itself by rules", cobra.ExactArgs(1),
		cli.With(a, func(ctx context.Context, s pawl.CheckpointKeeper, args []string) error {
			call := pawl.CheckpointPrune{TaskID: args[0]}
			var err error
			if call.Rules, err = pruneRules(rules); err != nil {
				return err
			}
			rs, err := s.PruneCheckpoints(ctx, []pawl.CheckpointPrune{call})
			return cli.ShowEach(a, rs, err, func(w io.Writer, all []pawl.CheckpointsPruned) {
				for _, out := range all {
					terminal.Fields(w, "pruned", fmt.Sprint(out.Pruned), "more", fmt.Sprint(out.More))
				}
			})
		}))
	cmd.Flags().StringArrayVar(&rules, "keep", nil, "keep the newest of a prefix: PREFIX=N")
	_ = cmd.MarkFlagRequired("keep")
	return cmd
}

// pruneRules reads rules of the form PREFIX=N. The prefix may have a "=".
func pruneRules(texts []string) ([]pawl.PruneRule, error) {
	var out []pawl.PruneRule
	for _, text := range texts {
		at := strings.LastIndexByte(text, '=')
		if at < 0 {
			return nil, pawl.Invalid("/rules", "%q is not of the form PREFIX=N", text)
		}
		n, err := strconv.Atoi(text[at+1:])
		if err != nil {
			return nil, pawl.Invalid("/rules", "%q is not of the form PREFIX=N", text)
		}
		out = append(out, pawl.PruneRule{Prefix: text[:at], Keep: n})
	}
	return out, nil
}
