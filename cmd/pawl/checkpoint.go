package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl"
)

func (a *app) checkpointCmd() *cobra.Command {
	return noun("checkpoint", "Snapshots that work goes on from", a.checkpointList(), a.checkpointCount())
}

func (a *app) checkpointList() *cobra.Command {
	var f pawl.CheckpointFilter
	var p pages
	var kind *choice[string]
	cmd := a.verb("list", "List checkpoints in their order", cobra.NoArgs, with(a, func(ctx context.Context, s pawl.RecordReader, _ []string) (err error) {
		if f.Types, err = kind.read(); err != nil {
			return err
		}
		line := func(c pawl.Checkpoint) string {
			return row(c.Sequence, c.Type, c.Name, c.TaskID, c.ItemID, c.Attempt, c.CreatedAt, string(c.Snapshot))
		}
		return list(ctx, a, p, "SEQUENCE\tTYPE\tNAME\tTASK\tITEM\tATTEMPT\tCREATED\tSNAPSHOT", line, func(ctx context.Context, page pawl.Page) (pawl.List[pawl.Checkpoint], error) {
			f.Page = page
			return s.ListCheckpoints(ctx, f)
		})
	}))
	p.flags(cmd)
	cmd.Flags().StringVar(&f.TaskID, "task", "", "of this task")
	cmd.Flags().StringVar(&f.ItemID, "item", "", "of this item")
	kind = choose[string](cmd, "type", "of these types", pawl.CheckpointTypes)
	cmd.Flags().StringSliceVar(&f.Names, "name", nil, "of these names")
	cmd.Flags().StringVar(&f.NamePrefix, "name-prefix", "", "of names that begin so")
	cmd.Flags().StringToStringVar(&f.Metadata, "metadata", nil, "with these members in their metadata: repo=x")
	cmd.Flags().BoolVar(&f.Desc, "desc", false, "newest first: with --limit 1, the latest")
	return cmd
}

func (a *app) checkpointCount() *cobra.Command {
	return a.verb("count TASK", "Count a task's checkpoints by type", cobra.ExactArgs(1), with(a, func(ctx context.Context, s pawl.RecordReader, args []string) error {
		counts, err := s.CountCheckpoints(ctx, args[0])
		if err != nil {
			return err
		}
		return a.show(counts, func(w io.Writer) {
			var rows []string
			for _, kind := range slices.Sorted(maps.Keys(counts)) {
				rows = append(rows, row(kind, counts[kind]))
			}
			table(w, "TYPE\tCHECKPOINTS", rows)
		})
	}))
}

func showRefs(w io.Writer, refs []pawl.CheckpointRef) {
	for _, r := range refs {
		fields(w, "checkpoint", r.ID, "sequence", fmt.Sprint(r.Sequence))
	}
}
