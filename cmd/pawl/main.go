// Command pawl is the command-line program. Each noun of the command line has a package
// under internal; docs/cli.md describes the commands.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-work/pawl/cmd/pawl/internal/worker"
)

func main() { os.Exit(run(os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr)) }

// run executes one command line, with an environment, and returns its exit code.
func run(args, env []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) == 1 && args[0] == worker.WatchCommand {
		return worker.WatchGroups(stdin)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	a := &cli.App{Stdin: stdin, Stdout: stdout, Stderr: stderr, Args: args, Env: env}
	root := root(a)
	root.SetArgs(args)
	return a.Exit(root.ExecuteContext(ctx))
}
