// Package worker has the commands of `pawl worker`, which runs a program for each item.
package worker

import (
	"context"
	"errors"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-work/pawl/internal/childproc"
	"github.com/pawl-work/pawl/internal/terminal"
	"github.com/pawl-work/pawl/worker"
)

// Command returns the command and its subcommands.
func Command(a *cli.App) *cobra.Command {
	var o worker.Options
	var types []string
	var run bool
	work := func(cmd *cobra.Command, args []string) error {
		switch {
		case !run || len(args) == 0:
			return cli.Usage(cmd, errors.New("the command is missing: --exec -- COMMAND…"))
		case len(types) == 0:
			return cli.Usage(cmd, errors.New("--type is missing"))
		}
		if _, err := exec.LookPath(args[0]); err != nil {
			return cli.Invalid("%v", err)
		}
		return cli.Traced(a, cli.With(a, func(ctx context.Context, s pawl.Claimer, args []string) error {
			p := program{args: args, stderr: a.Stderr, env: cli.ProgramEnv(a.Env, a.Config.Worker.PassEnv), grace: stopGrace, log: a.Log()}
			p.types, _ = s.(typeReader)
			if err := childproc.KillChildrenAtEnd(); err != nil {
				return err
			}
			if runtime.GOOS != "windows" {
				var err error
				if p.watch, err = startWatcher(); err != nil {
					return err
				}
				defer p.watch.close()
			}
			handlers := make([]worker.Handler, len(types))
			for i, t := range types {
				handlers[i] = worker.Handler{Type: t, Do: p.do}
			}
			o.Logger, o.TracerProvider = a.Log(), a.Traces
			c := a.Config.Worker
			o.Name, o.Concurrency, o.LeaseSeconds, o.StopGrace = c.Name, c.Concurrency, c.LeaseSeconds, c.Grace
			o.CancelGrace = stopGrace + time.Second // a program ends, or is killed, before its item is given back
			if c.Grace == 0 {
				o.StopGrace = -1
			}
			a.Notices().Info("working", "types", strings.Join(types, ","), "version", cli.ReadVersion().Version)
			err := cli.WithSweeps(ctx, s, func(ctx context.Context) error {
				return a.UntilStopped(ctx, func() error { return worker.RunWith(ctx, s, o, handlers...) })
			})
			if errors.Is(err, worker.ErrGivenBack) {
				return cli.ErrCheck // UntilStopped has said it
			}
			return err
		}))(cmd, args)
	}
	cmd := a.Verb("worker --type TYPE --exec -- COMMAND…", "Run a program for every item of a type", cobra.ArbitraryArgs, work)
	cmd.Long = workerHelp
	cmd.Example = "  pawl worker --type pdf.parse --concurrency 4 --exec -- ./parse.py --fast"
	f := cmd.Flags()
	f.StringSliceVarP(&types, "type", "t", nil, "items of these types")
	f.BoolVar(&run, "exec", false, "run the command after --")
	f.StringVar(&o.ID, "id", "", "one per process (default host name, process and a random part)")
	f.StringVar(&o.TaskID, "task", "", "only this task's items")
	cli.SettingFlags(f, "worker.", "trace.")
	cmd.AddCommand(workerList(a))
	return cmd
}

const workerHelp = `Claims items and runs COMMAND for each. The program gets the item as JSON on stdin
(id, task_id, type, attempt, input, resume …) and hands its result in as JSON on
stdout; nothing is null. On descriptor 3 it may write lines of JSON:
  {"progress":40,"stage":"reading"}
  {"checkpoint":{"type":"custom","name":"page","snapshot":{"page":7}}}
Its type's schemas are in the environment (PAWL_RESULT_SCHEMA, PAWL_PARTS …), and
what went wrong before (PAWL_ERROR, PAWL_REASONS). A program that hands in by
itself ("pawl item submit", "pawl item part") gets exit code 2 if a result is refused.
Exit code 64 or 65 fails the item for good, any other but 0 is retried (75 says so);
the end of stderr becomes the error. When the lease is lost or the item cancelled,
its process group gets SIGTERM, and SIGKILL after 5 s. When the worker itself is
killed, its programs' process groups get SIGKILL at once.`

func workerList(a *cli.App) *cobra.Command {
	var f pawl.WorkerFilter
	var p cli.Pages
	var since string
	read := func(ctx context.Context, s pawl.StatsReader, _ []string) (err error) {
		if f.SeenSince, err = cli.TimeArg("since", since, -1); err != nil {
			return err
		}
		line := func(w pawl.WorkerInfo) string {
			return terminal.Row(w.WorkerID, w.Name, w.Version, w.InFlight, w.StartedAt, w.LastSeenAt, w.Types)
		}
		fetch := func(ctx context.Context, page pawl.Page) (pawl.List[pawl.WorkerInfo], error) {
			f.Page = page
			return s.ListWorkers(ctx, f)
		}
		return cli.List(ctx, a, p, "WORKER\tNAME\tVERSION\tIN FLIGHT\tSTARTED\tLAST SEEN\tTYPES", line, fetch)
	}
	cmd := a.Verb("list", "List the workers of the registry, last seen first", cobra.NoArgs, cli.With(a, read))
	p.Flags(cmd)
	cmd.Flags().StringVar(&since, "since", "", "seen at or after this time; a duration counts back from now")
	return cmd
}
