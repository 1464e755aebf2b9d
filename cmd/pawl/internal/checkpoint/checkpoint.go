// Package checkpoint has the commands of `pawl checkpoint`.
package checkpoint

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-work/pawl/internal/terminal"
)

// Command returns the command and its subcommands.
func Command(a *cli.App) *cobra.Command {
	return cli.Noun("checkpoint", "Snapshots from which work continues", checkpointList(a),
		checkpointCount(a), checkpointAppend(a), checkpointPrune(a))
}

func checkpointList(a *cli.App) *cobra.Command {
	var f pawl.CheckpointFilter
	var p cli.Pages
	var kind *cli.Choice[string]
	cmd := a.Verb(
		"list",
		"List checkpoints in their order",
		cobra.NoArgs,
		cli.With(a, func(ctx context.Context, s pawl.RecordReader, _ []string) (err error) {
			if f.Types, err = kind.Read(); err != nil {
				return err
			}
			line := func(c pawl.Checkpoint) string {
				return terminal.Row(c.Sequence, c.Type, c.Name, c.TaskID, c.ItemID, c.Attempt, c.CreatedAt, string(c.Snapshot))
			}
			return cli.List(
				ctx,
				a,
				p,
				"SEQUENCE\tTYPE\tNAME\tTASK\tITEM\tATTEMPT\tCREATED\tSNAPSHOT",
				line,
				func(ctx context.Context, page pawl.Page) (pawl.List[pawl.Checkpoint], error) {
					f.Page = page
					return s.ListCheckpoints(ctx, f)
				},
			)
		}),
	)
	p.Flags(cmd)
	cmd.Flags().StringVar(&f.TaskID, "task", "", "of this task")
	cmd.Flags().StringVar(&f.TaskType, "task-type", "", "with --task-key, in place of --task: the type of the task")
	cmd.Flags().StringVar(&f.TaskKey, "task-key", "", "the key that the task has by unique")
	cmd.Flags().StringVar(&f.ItemID, "item", "", "of this item")
	cmd.Flags().BoolVar(&f.Own, "own", false, "of the task itself, not of its items")
	cmd.Flags().StringSliceVar(&f.IDs, "id", nil, "with these ids")
	cmd.Flags().Int64SliceVar(&f.Sequences, "sequence", nil, "with these numbers")
	cmd.Flags().BoolVar(&f.Brief, "brief", false, "without snapshots")
	cmd.Flags().BoolVar(&f.Refs, "refs", false, "with -o json: with the checkpoints that the metadata of each names in refs")
	kind = cli.Choose[string](cmd, "type", "of these types", pawl.CheckpointTypes)
	cmd.Flags().StringSliceVar(&f.Names, "name", nil, "of these names")
	cmd.Flags().StringVar(&f.NamePrefix, "name-prefix", "", "with names that begin with this")
	cmd.Flags().StringToStringVar(&f.Metadata, "metadata", nil, "with these members in their metadata: repo=x")
	cmd.Flags().BoolVar(&f.Desc, "desc", false, "newest first: with --limit 1, the latest")
	return cmd
}

func checkpointCount(a *cli.App) *cobra.Command {
	return a.Verb(
		"count TASK",
		"Count a task's checkpoints by type",
		cobra.ExactArgs(1),
		cli.With(a, func(ctx context.Context, s pawl.RecordReader, args []string) error {
			counts, err := s.CountCheckpoints(ctx, args[0])
			if err != nil {
				return err
			}
			return a.Show(counts, func(w io.Writer) {
				var rows []string
				for _, kind := range slices.Sorted(maps.Keys(counts)) {
					rows = append(rows, terminal.Row(kind, counts[kind]))
				}
				terminal.Table(w, "TYPE\tCHECKPOINTS", rows)
			})
		}),
	)
}

// ShowRefs prints references to checkpoints.
func ShowRefs(w io.Writer, refs []pawl.CheckpointRef) {
	for _, r := range refs {
		terminal.Fields(w, "checkpoint", r.ID, "sequence", fmt.Sprint(r.Sequence))
	}
}

// NewCheckpoint are the flags of a checkpoint.
type NewCheckpoint struct {
	pawl.NewCheckpoint
	snapshot, metadata string
}

// Flags adds the flags.
func (n *NewCheckpoint) Flags(f *pflag.FlagSet) {
	f.StringVarP(&n.Type, "type", "t", pawl.ManualCheckpoint, "its type")
	f.StringVar(&n.Name, "name", "", "its name; a resume returns the newest checkpoint of each name")
	f.StringVar(&n.snapshot, "snapshot", "null", "JSON, @FILE or - for stdin")
	f.StringVar(&n.metadata, "metadata", "", "JSON, @FILE or -")
}

// Read reads the value from the flags and files.
func (n *NewCheckpoint) Read(a *cli.App) (_ pawl.NewCheckpoint, err error) {
	c := n.NewCheckpoint
	if c.Snapshot, err = a.JsonArg("snapshot", n.snapshot); err != nil {
		return c, err
	}
	var metadata json.RawMessage
	metadata, err = a.JsonArg("metadata", n.metadata)
	c.Metadata = metadata
	return c, err
}
