// Package cli is shared by the commands: settings, flags, connecting, printing and
// errors.
package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel/trace"

	"github.com/pawl-work/pawl"
)

// App is one run of the program: its streams, its environment and its configuration,
// once the command is known.
type App struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Args, Env      []string
	Config         Config
	Traces         trace.TracerProvider // of commands that Traced runs; nil = no spans
	Clock          func() time.Time     // of the database; nil = its own
	forMany        bool                 // the command works for many callers
	creates        bool                 // the command may create the database
	Serves         bool                 // the command is `pawl serve`
	everywhere     bool                 // the command takes pawl.AnyNamespace
	Running        bool                 // the command line was understood: errors from here on are the command's own
}

// Noun returns a command that only has subcommands.
func Noun(name, short string, verbs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use:   name,
		Short: short,
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownVerb(cmd, args[0])
			}
			return cmd.Help()
		},
	}
	cmd.AddCommand(verbs...)
	return cmd
}

// otherName has the two names of the commands that list. Each has the other one as an alias.
var otherName = map[string][]string{"list": {"ls"}, "ls": {"list"}}

// Verb returns a command that does something. It reads the configuration first.
func (a *App) Verb(use, short string, args cobra.PositionalArgs, run func(cmd *cobra.Command, args []string) error) *cobra.Command {
	return &cobra.Command{
		Use:     use,
		Aliases: otherName[use],
		Short:   short,
		Args: func(cmd *cobra.Command, given []string) error {
			if args(cmd, given) == nil {
				return nil
			}
			return Usage(cmd, fmt.Errorf("wrong number of arguments (%d); usage: %s", len(given), cmd.UseLine()))
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.Configure(cmd); err != nil {
				return err
			}
			a.Running = true
			return run(cmd, args)
		},
	}
}

// With opens Pawl and passes a command the one role that it needs.
func With[R any](a *App, run func(ctx context.Context, s R, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if a.Config.Namespace == pawl.AnyNamespace && !a.everywhere {
			return pawl.NoNamespace()
		}
		svc, done, err := a.open(cmd.Context())
		if err != nil {
			return err
		}
		defer done()
		return run(a.as(cmd.Context()), any(svc).(R), args)
	}
}

// WithCreate is With for commands that may create the database. For all others a missing
// database is an error, so that a mistyped name is noticed.
func WithCreate[R any](a *App, run func(ctx context.Context, s R, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		a.creates = true
		return With(a, run)(cmd, args)
	}
}

// WithAny is With for commands that take pawl.AnyNamespace as their namespace, because they are about API keys.
func WithAny[R any](a *App, run func(ctx context.Context, s R, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		a.everywhere = true
		return With(a, run)(cmd, args)
	}
}

// as adds the caller and its provenance to the context.
func (a *App) as(ctx context.Context) context.Context {
	p, _ := a.Config.provenance() // checked by configure
	c := pawl.Caller{Namespace: a.Config.Namespace}
	c.ActorType, c.ActorID, _ = pawl.ParseActor(a.Config.Actor) // checked by configure
	return pawl.As(pawl.WithProvenance(a.fromCaller(ctx), p), c)
}

// ByUser names the logged-in user as the actor of an operator's decision, unless
// --actor is given.
func (a *App) ByUser(ctx context.Context) context.Context {
	c := pawl.CallerOf(ctx)
	c.ActorID = cmp.Or(c.ActorID, a.Getenv("USER"))
	return pawl.As(ctx, c)
}
