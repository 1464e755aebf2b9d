package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl"
)

// app is one run of the program: its streams, its environment and, once the
// command is known, its configuration.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	args, env      []string
	cfg            config
	creates        bool // the command may create the database
	running        bool // the command line was understood: errors from here on are the command's own
}

func (a *app) root() *cobra.Command {
	root := noun("pawl", "A durable engine for long, expensive, failure-prone work")
	root.Long = "Pawl leases work, checkpoints progress and keeps every step on the record.\n\nSettings come from flags, then PAWL_* variables, then pawl.yaml, then defaults."
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usage(cmd, err)
	})
	globalFlags(root.PersistentFlags())
	_ = root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "json"}, cobra.ShellCompDirectiveNoFileComp))
	root.AddCommand(
		a.taskCmd(), a.itemCmd(), a.messageCmd(), a.eventCmd(), a.checkpointCmd(), a.signalCmd(), a.idempotencyCmd(), a.keyCmd(), a.typeCmd(),
		a.workerCmd(), a.serveCmd(), a.mcpCmd(), a.relayCmd(), a.sweepCmd(), a.pruneCmd(), a.archiveCmd(), a.backupCmd(), a.migrateCmd(),
		a.statsCmd(), a.provenanceCmd(), a.verifyCmd(), a.doctorCmd(), a.benchCmd(), a.demoCmd(), a.demoWorkerCmd(), a.demoAgentCmd(), a.versionCmd(),
	)
	return root
}

// noun is a command that only holds others.
func noun(name, short string, verbs ...*cobra.Command) *cobra.Command {
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

// verb is a command that does something: it reads the configuration first.
func (a *app) verb(use, short string, args cobra.PositionalArgs, run func(cmd *cobra.Command, args []string) error) *cobra.Command {
	return &cobra.Command{
		Use:   use,
		Short: short,
		Args: func(cmd *cobra.Command, given []string) error {
			if args(cmd, given) == nil {
				return nil
			}
			return usage(cmd, fmt.Errorf("%d arguments do not make a `%s`", len(given), cmd.UseLine()))
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.configure(cmd); err != nil {
				return err
			}
			a.running = true
			return run(cmd, args)
		},
	}
}

// with opens Pawl and hands a command the one role it needs.
func with[R any](a *app, run func(ctx context.Context, s R, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		svc, done, err := a.open(cmd.Context())
		if err != nil {
			return err
		}
		defer done()
		return run(a.as(cmd.Context()), any(svc).(R), args)
	}
}

// creating is with for the few commands that may create the database: to all
// others one that is missing is an error, so that a mistyped name is found.
func creating[R any](a *app, run func(ctx context.Context, s R, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		a.creates = true
		return with(a, run)(cmd, args)
	}
}

// as names the caller on the record, and what he says of himself.
func (a *app) as(ctx context.Context) context.Context {
	p, _ := a.cfg.provenance() // checked by configure
	return pawl.As(pawl.WithProvenance(ctx, p), pawl.Caller{Namespace: a.cfg.Namespace, ActorID: a.cfg.Actor})
}

// byUser names whoever is logged in, for what an operator decides, unless
// --actor names somebody.
func (a *app) byUser(ctx context.Context) context.Context {
	c := pawl.CallerOf(ctx)
	c.ActorID = cmp.Or(c.ActorID, a.getenv("USER"))
	return pawl.As(ctx, c)
}

// log writes to stderr, from the level asked for on.
func (a *app) log() *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(a.cfg.Log)) // checked by configure
	return slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: level}))
}
