package db

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/internal/terminal"
)

// checker checks the invariants of a database; the engine implements it.
type checker interface {
	Check(ctx context.Context) ([]engine.Breach, error)
	Warnings(ctx context.Context) ([]engine.Warning, error)
	CheckLog(ctx context.Context, limit int) ([]engine.Breach, int, error)
}

// checkResult is the result of doctor.
type checkResult struct {
	Clean    bool             `json:"clean"`
	Breaches []engine.Breach  `json:"breaches"`
	Warnings []engine.Warning `json:"warnings"` // they do not change the exit code
	Logged   int              `json:"logged"`   // events that were compared with the log
}

// DoctorCommand returns the command `pawl doctor`.
func DoctorCommand(a *cli.App) *cobra.Command {
	var events string
	cmd := a.Verb(
		"doctor",
		"Check the invariants of the database; exit 1 if one is violated",
		cobra.NoArgs,
		func(cmd *cobra.Command, _ []string) error {
			a.Config.Migrate = "off" // it looks, and changes nothing
			limit, err := strconv.Atoi(events)
			if events == "all" {
				limit, err = -1, nil
			} else if err != nil || limit < 0 {
				return cli.Invalid("--events must be a number or all")
			}
			if _, err := a.Config.Serve.SignIn(true, []string{"any"}); err != nil { // callers' keys and hosts depend on the server's flags
				return err
			}
			return cli.With(a, func(ctx context.Context, s any, _ []string) error { return doctor(ctx, a, s, limit) })(cmd, nil)
		},
	)
	cli.SettingFlags(cmd.Flags(), "blobs.")
	cmd.Flags().StringVar(&events, "events", "100000", "compare so many newest events with the transparency log; all: every one")
	cmd.Long = "Checks the whole database, all its namespaces, and changes nothing.\n" +
		"Each violation is a line: the invariant, the row, what was found, how to repair it.\n" +
		"Warnings are lines that begin with \"warning\"; they do not change the exit code."
	return cmd
}

func doctor(ctx context.Context, a *cli.App, s any, events int) error {
	c, ok := s.(checker)
	if !ok {
		return cli.Invalid("doctor needs the database: use --db instead of --server")
	}
	breaches, err := c.Check(ctx)
	if err != nil {
		return err
	}
	broken, looked, err := c.CheckLog(ctx, events)
	if err != nil {
		return err
	}
	breaches = append(breaches, broken...)
	if breaches == nil {
		breaches = []engine.Breach{}
	}
	warnings, err := c.Warnings(ctx)
	if err != nil {
		return err
	}
	if warnings == nil {
		warnings = []engine.Warning{}
	}
	err = a.Show(checkResult{len(breaches) == 0, breaches, warnings, looked}, func(w io.Writer) {
		for _, m := range warnings {
			fmt.Fprintf(w, "warning: %s: %s; run: %s\n", m.Code, terminal.Printable(m.Detail), terminal.Printable(m.Command))
		}
		for _, b := range breaches {
			fmt.Fprintf(
				w,
				"%s: %s: %s; repair: %s\n",
				terminal.Printable(b.Rule),
				terminal.Printable(b.Subject),
				terminal.Printable(b.Found),
				terminal.Printable(b.Repair),
			)
		}
		if len(breaches) == 0 {
			fmt.Fprintln(w, "clean")
		}
	})
	if err == nil && len(breaches) > 0 {
		return cli.ErrCheck
	}
	return err
}
