// Package namespace has the commands of `pawl namespace`.
package namespace

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-work/pawl/internal/terminal"
)

// Command returns the command and its subcommands.
func Command(a *cli.App) *cobra.Command {
	return cli.Noun("namespace", "Namespaces, the walls between tenants", list(a))
}

func list(a *cli.App) *cobra.Command {
	var pages cli.Pages
	row := func(n pawl.NamespaceInfo) string {
		return terminal.Row(n.Namespace, n.OpenTasks, n.Queued, n.OldestQueuedAt, n.Workers)
	}
	const short = "List the namespaces that had work, with their open tasks, queued items and live workers"
	cmd := a.Verb("ls", short, cobra.NoArgs, cli.With(a, func(ctx context.Context, s pawl.StatsReader, _ []string) error {
		return cli.List(ctx, a, pages, "NAMESPACE\tOPEN TASKS\tQUEUED\tOLDEST QUEUED\tWORKERS", row, s.ListNamespaces)
	}))
	pages.Flags(cmd)
	return cmd
}
