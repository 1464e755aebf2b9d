// Command pawl is Pawl on the command line: it wires the packages below it
// together and prints. Every noun has its file; docs/cli.md is its page.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// run carries one command line out and answers with its exit code.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) == 1 && args[0] == watchCommand {
		return watchGroups(stdin)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr, args: args, env: os.Environ()}
	root := a.root()
	root.SetArgs(args)
	return a.exit(root.ExecuteContext(ctx))
}
