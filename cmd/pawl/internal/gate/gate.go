// Package gate has the commands of `pawl gate`.
package gate

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-work/pawl/internal/gate"
	"github.com/pawl-work/pawl/internal/mcpgate"
)

// Command returns the command and its subcommands.
func Command(a *cli.App) *cobra.Command {
	return cli.Noun("gate", "What stands between agents and the tools that they call", mcpCommand(a))
}

// mcpFlags are the flags of `pawl gate mcp`.
type mcpFlags struct {
	url, name string
	headers   []string
	sent      http.Header // headers, read
	fence     pawl.Fence
}

func mcpCommand(a *cli.App) *cobra.Command {
	var f mcpFlags
	cmd := a.Verb("mcp [-- SERVER ARG…]", "Stand between an MCP client on stdin and stdout and an MCP server", cobra.ArbitraryArgs,
		func(cmd *cobra.Command, args []string) error {
			if (f.url == "") == (len(args) == 0) {
				return cli.Invalid("gate mcp needs a server: a program behind --, or --url")
			}
			if err := f.read(a); err != nil { // before a database is made
				return err
			}
			return cli.WithCreate(a, func(ctx context.Context, s pawl.Service, args []string) error {
				return cli.WithSweeps(ctx, s, func(ctx context.Context) error { return serveMCP(ctx, a, s, &f, args) })
			})(cmd, args)
		})
	cmd.Flags().StringVar(&f.url, "url", "", "the URL of a server over streamable HTTP, in place of a program")
	cmd.Flags().StringArrayVar(&f.headers, "header", nil,
		"NAME=VALUE, sent with each request to --url; env:NAME and file:PATH are read; may be repeated")
	cmd.Flags().StringVar(&f.name, "name", "", "the name of the server in names of effects (default: the program's, or the host of the URL)")
	cmd.Flags().StringVar(&f.fence.ItemID, "item", "",
		"the item that the calls belong to (default $PAWL_ITEM_ID); without one, a task gate.NAME is made")
	cmd.Flags().StringVar(&f.fence.WorkerID, "worker", "", "the claim's worker (default $PAWL_WORKER_ID)")
	cmd.Flags().IntVar(&f.fence.Attempt, "attempt", 0, "the claim's attempt (default $PAWL_ATTEMPT)")
	cmd.Long = "Passes all messages on as they are, of both revisions. A call of a tool that is not marked\n" +
		"read-only is an effect: it is recorded before it is sent, and its answer before it is returned.\n" +
		"The settings gate.tools deny tools, or have a person approve their calls."
	cmd.Example = "  pawl gate mcp --db sqlite:work.db -- npx some-mcp-server\n" +
		"  pawl gate mcp --server http://127.0.0.1:7033 --url https://mcp.example.com/mcp --header Authorization=env:MCP_AUTH"
	return cmd
}

// read checks the URL, and reads the headers.
func (f *mcpFlags) read(a *cli.App) error {
	if u, err := url.Parse(f.url); f.url != "" && (err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https") {
		return cli.Invalid("--url must be an http or https URL")
	}
	f.sent = http.Header{}
	for _, h := range f.headers {
		name, value, two := strings.Cut(h, "=")
		secret, err := gate.Resolve(value, a.Getenv)
		if !two || err != nil {
			return cli.Invalid("--header must be NAME=VALUE, where env:NAME and file:PATH are there")
		}
		f.sent.Set(name, secret)
	}
	return nil
}

func serveMCP(ctx context.Context, a *cli.App, s pawl.Service, f *mcpFlags, args []string) error {
	if f.name == "" {
		f.name = nameOf(f.url, args)
	}
	rules, err := a.Config.Gate.Rules()
	if err != nil {
		return err
	}
	o := mcpgate.Options{Name: f.name, Ledger: s, Fence: f.claim(a), Tools: rules, Log: a.Log()}
	if o.Fence.ItemID == "" {
		if _, err := mcpgate.New(o); err != nil { // before a task is made
			return err
		}
		held, session, err := mcpgate.Begin(ctx, s, o)
		if err != nil {
			return err
		}
		o.Fence, o.Own = session.Fence, true
		err = run(held, a, o, f, args)
		return errors.Join(err, session.End(ctx, err))
	}
	return run(ctx, a, o, f, args)
}

// claim is the claim of the flags, or else of the environment of a worker's program.
func (f *mcpFlags) claim(a *cli.App) pawl.Fence {
	out := f.fence
	if out.ItemID == "" {
		out.ItemID = a.Getenv("PAWL_ITEM_ID")
	}
	if out.WorkerID == "" {
		out.WorkerID = a.Getenv("PAWL_WORKER_ID")
	}
	if out.Attempt == 0 {
		out.Attempt, _ = strconv.Atoi(a.Getenv("PAWL_ATTEMPT")) // 0 is refused by the first call
	}
	return out
}

// nameOf is the name of a server: of its program, or the host of its URL.
func nameOf(address string, args []string) string {
	if u, err := url.Parse(address); err == nil && u.Hostname() != "" {
		return u.Hostname()
	}
	name := strings.TrimSuffix(filepath.Base(args[0]), filepath.Ext(args[0]))
	if name == "" {
		name = filepath.Base(args[0])
	}
	return name
}

func run(ctx context.Context, a *cli.App, o mcpgate.Options, f *mcpFlags, args []string) error {
	p, err := mcpgate.New(o)
	if err != nil {
		return err
	}
	server, err := connect(ctx, a, f, args)
	if err != nil {
		return err
	}
	return p.Run(ctx, mcpgate.Lines(a.Stdin, a.Stdout, nil), server)
}

func connect(ctx context.Context, a *cli.App, f *mcpFlags, args []string) (mcpgate.Conn, error) {
	if f.url == "" {
		return start(a, args)
	}
	return mcpgate.Remote(ctx, f.url, f.sent), nil
}

// endTime is how long a server has to end after its stdin was closed.
const endTime = 5 * time.Second

// start runs a server as a program. Its environment has none of Pawl's settings, which may have keys in them.
func start(a *cli.App, args []string) (mcpgate.Conn, error) {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = cli.ProgramEnv(a.Env, nil)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout = write
	err = cmd.Start()
	write.Close()
	if err != nil {
		out.Close()
		return nil, cli.Invalid("the server cannot be started: %v", err)
	}
	return mcpgate.Lines(out, in, func() error {
		in.Close()
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		select {
		case <-ended: // its exit code is its own
		case <-time.After(endTime):
			_ = cmd.Process.Kill()
			<-ended
		}
		return out.Close()
	}), nil
}
