// Package demo has the command `pawl demo` and the hidden commands of its processes.
package demo

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-work/pawl/internal/demo"
)

const help = `Splits a tree of files into items, with a step for each file, and works on them with
several processes. One process is killed in the middle of an item, and one is frozen past the
end of its lease and thawed. At the end the expected result is computed directly; the result
must be the same. Exit 0 only if all checks passed; slowness is only a warning. The database
is kept, for pawl doctor.

With --agents two scripted agents work through MCP on an order over copies of a dozen of those
files, and submit it in parts. One agent is killed half-way, and the other continues with its
parts. An item is rejected with reasons and corrected. After the approval the order changes
the files, and the diff on the event is compared with the files.`

// Command returns the command and its subcommands.
func Command(a *cli.App) *cobra.Command {
	var o demo.Options
	agents := false
	cmd := a.Verb(
		"demo",
		"Run real work with a killed and a frozen worker, and check the result",
		cobra.NoArgs,
		func(cmd *cobra.Command, _ []string) error {
			if o.Workers < 3 {
				return cli.Invalid("--workers must be at least 3: one is killed, one is frozen, one finishes")
			}
			if a.Config.Server != "" {
				return cli.Invalid("the demo needs a database: give --db instead of --server")
			}
			if !a.Config.DBGiven {
				dir, err := os.MkdirTemp("", "pawl-demo-")
				if err != nil {
					return err
				}
				a.Config.DB = "sqlite:" + filepath.Join(dir, "demo.db")
			}
			return cli.WithCreate(a, func(ctx context.Context, s pawl.Service, _ []string) error {
				o.Service, o.DB, o.ShownDB, o.Schema, o.Namespace, o.Env = s, a.Config.DB, cli.ShownURL(
					a.Config.DB,
					a.Config.Schema,
				), a.Config.Schema, a.Config.Namespace, a.Env
				o.Actor, o.JSON, o.Stdout, o.Stderr = cmp.Or(a.Config.Actor, a.Getenv("USER")), a.Config.Output == "json", a.Stdout, a.Stderr
				o.Sweeping = func(ctx context.Context, run func(context.Context) error) error { return cli.WithSweeps(ctx, s, run) }
				run := demo.Run
				if agents {
					run = demo.RunAgents
				}
				if err := run(ctx, o); !errors.Is(err, demo.ErrFailed) {
					return err
				}
				return cli.ErrCheck
			})(cmd, nil)
		},
	)
	cmd.Long = help
	cmd.Flags().StringVar(&o.Input, "input", "", "folder of files to process (default: the source of the Go on PATH)")
	cmd.Flags().BoolVar(&agents, "agents", false, "a work order, done by agents through MCP")
	cmd.Flags().IntVar(&o.Workers, "workers", 4, "worker processes, 3 or more")
	cmd.Flags().DurationVar(&o.Timeout, "timeout", 5*time.Minute, "give up after this")
	cmd.Flags().DurationVar(
		&o.MostRecovery,
		"most-recovery",
		1500*time.Millisecond,
		"warn when the next claim comes later than this after the end of a lease",
	)
	return cmd
}

// WorkerCommand returns the hidden command of the demo's worker processes.
func WorkerCommand(a *cli.App) *cobra.Command {
	var o demo.WorkerOptions
	cmd := a.Verb(
		"demo-worker",
		"A worker of the demo",
		cobra.NoArgs,
		cli.With(a, func(ctx context.Context, s pawl.Claimer, _ []string) error {
			o.Stdin, o.Stdout, o.Log = a.Stdin, a.Stdout, a.Log()
			return demo.Work(ctx, s, o)
		}),
	)
	cmd.Hidden = true
	f := cmd.Flags()
	f.StringVar(&o.ID, "id", "", "its name")
	f.StringVar(&o.TaskID, "task", "", "the task")
	f.IntVar(&o.LeaseSeconds, "lease", 3, "seconds of a lease")
	f.StringVar(&o.Type, "type", "", "the task's type")
	f.StringVar(&o.Input, "input", "", "the tree")
	f.StringVar(&o.Pause, "gate", "", "kill or freeze")
	return cmd
}

// AgentCommand returns the hidden command of the demo's agents.
func AgentCommand(a *cli.App) *cobra.Command {
	var o demo.AgentOptions
	cmd := a.Verb("demo-agent", "An agent of the demo", cobra.NoArgs, func(cmd *cobra.Command, _ []string) error {
		o.Namespace, o.Schema, o.Env = a.Config.Namespace, a.Config.Schema, a.Env
		o.Stdin, o.Stdout, o.Stderr = a.Stdin, a.Stdout, a.Stderr
		return demo.Act(cmd.Context(), o)
	})
	cmd.Hidden = true
	f := cmd.Flags()
	f.StringVar(&o.Name, "id", "", "its name")
	f.StringVar(&o.Type, "type", "", "the type of its work")
	f.BoolVar(&o.Killed, "dies", false, "stop half-way")
	return cmd
}
