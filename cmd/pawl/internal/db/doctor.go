package db

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-work/pawl/internal/terminal"
)

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
			return cli.With(a, func(ctx context.Context, s pawl.Sweeper, _ []string) error { return doctor(ctx, a, s, limit) })(cmd, nil)
		},
	)
	cli.SettingFlags(cmd.Flags(), "blobs.")
	cmd.Flags().StringVar(&events, "events", "100000", "compare so many newest events with the transparency log; all: every one")
	cmd.Long = "Checks the whole database, all its namespaces, and changes nothing.\n" +
		"Each violation is a line: the invariant, the row, what was found, how to repair it.\n" +
		"With --server the server checks its database, with its own signing key; the key needs the operator's role in all namespaces.\n" +
		"Warnings are lines that begin with \"warning\"; they do not change the exit code."
	return cmd
}

func doctor(ctx context.Context, a *cli.App, s pawl.Sweeper, events int) error {
	found, err := s.Doctor(ctx, pawl.DoctorCall{Events: &events})
	if err != nil {
		return err
	}
	err = a.Show(found, func(w io.Writer) {
		for _, m := range found.Warnings {
			fmt.Fprintf(w, "warning: %s: %s; run: %s\n", m.Code, terminal.Printable(m.Detail), terminal.Printable(m.Command))
		}
		for _, b := range found.Breaches {
			fmt.Fprintf(
				w,
				"%s: %s: %s; repair: %s\n",
				terminal.Printable(b.Rule),
				terminal.Printable(b.Subject),
				terminal.Printable(b.Found),
				terminal.Printable(b.Repair),
			)
		}
		if found.Clean {
			fmt.Fprintln(w, "clean")
		}
	})
	if err == nil && !found.Clean {
		return cli.ErrCheck
	}
	return err
}
