package db

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-work/pawl/cmd/pawl/internal/task"
	"github.com/pawl-work/pawl/internal/terminal"
)

// ArchiveCommand returns the command `pawl archive`.
func ArchiveCommand(a *cli.App) *cobra.Command {
	return cli.Noun("archive", "Tasks that were archived and removed", archiveList(a), archiveRestore(a))
}

func archiveList(a *cli.App) *cobra.Command {
	var p cli.Pages
	cmd := a.Verb("ls", "List archives", cobra.NoArgs, cli.With(a, func(ctx context.Context, s pawl.Sweeper, _ []string) error {
		line := func(x pawl.Archive) string { return terminal.Row(x.TaskID, x.Bytes, x.CreatedAt, x.RestoredAt, x.Path) }
		return cli.List(ctx, a, p, "TASK\tBYTES\tARCHIVED\tRESTORED\tPATH", line, s.ListArchives)
	}))
	p.Flags(cmd)
	cmd.Aliases = []string{"list"}
	return cmd
}

func archiveRestore(a *cli.App) *cobra.Command {
	return a.Verb(
		"restore TASK",
		"Restore an archived task",
		cobra.ExactArgs(1),
		cli.With(a, func(ctx context.Context, s pawl.Sweeper, args []string) error {
			t, err := s.RestoreArchive(ctx, args[0])
			if err != nil {
				return err
			}
			return a.Show(t, func(w io.Writer) { task.ShowTask(w, t) })
		}),
	)
}
