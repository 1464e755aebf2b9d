package serve

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/client"
	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-work/pawl/mcp"
)

// MCPCommand returns the command `pawl mcp`.
func MCPCommand(a *cli.App) *cobra.Command {
	var tools string
	cmd := a.Verb(
		"mcp",
		"Serve one agent by the Model Context Protocol on stdin and stdout",
		cobra.NoArgs,
		cli.Traced(a, cli.WithCreate(a, func(ctx context.Context, s pawl.Service, _ []string) error {
			if !slices.Contains(mcp.ToolSets, tools) {
				return cli.Invalid("--tools must be one of %s, not %q", strings.Join(mcp.ToolSets, ", "), tools)
			}
			return cli.WithSweeps(ctx, s, func(ctx context.Context) error {
				o := mcpOptions(ctx, a)
				o.Tools = tools
				return mcp.New(s, o).Stdio(ctx, a.Stdin, a.Stdout)
			})
		})),
	)
	cmd.Long = `Gives one agent the tools work_propose, work_checkout, work_submit and so on, until
stdin ends. Over HTTP, for many agents, "pawl serve" has the same at /mcp.`
	cmd.Example = "  pawl mcp --db sqlite:work.db --tools approver\n  pawl mcp --db sqlite:work.db\n  pawl mcp --server " +
		"http://127.0.0.1:7033 --key KEY"
	cli.SettingFlags(cmd.Flags(), "trace.")
	cmd.Flags().StringVar(&tools, "tools", mcp.ToolsWorker, "worker: ask for work, do it and read; approver: approve, reject and read; all")
	return cmd
}

func mcpOptions(stopping context.Context, a *cli.App) mcp.Options {
	o := mcp.Options{Stopping: stopping, Log: a.Log(), Version: cli.ReadVersion().Version, TracerProvider: a.Traces}
	if a.Config.Server != "" {
		o.WithKey, o.Named = client.WithKey, a.Config.Key != ""
	}
	return o
}
