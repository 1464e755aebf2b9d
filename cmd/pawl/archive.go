package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl"
)

func (a *app) archiveCmd() *cobra.Command {
	return noun("archive", "Tasks that were archived and removed", a.archiveList(), a.archiveRestore())
}

func (a *app) archiveList() *cobra.Command {
	var p pages
	cmd := a.verb("ls", "List archives", cobra.NoArgs, with(a, func(ctx context.Context, s pawl.Sweeper, _ []string) error {
		line := func(x pawl.Archive) string { return row(x.TaskID, x.Bytes, x.CreatedAt, x.RestoredAt, x.Path) }
		return list(ctx, a, p, "TASK\tBYTES\tARCHIVED\tRESTORED\tPATH", line, s.ListArchives)
	}))
	p.flags(cmd)
	cmd.Aliases = []string{"list"}
	return cmd
}

func (a *app) archiveRestore() *cobra.Command {
	return a.verb("restore TASK", "Bring an archived task back", cobra.ExactArgs(1), with(a, func(ctx context.Context, s pawl.Sweeper, args []string) error {
		t, err := s.RestoreArchive(ctx, args[0])
		if err != nil {
			return err
		}
		return a.show(t, func(w io.Writer) { taskFields(w, t) })
	}))
}
