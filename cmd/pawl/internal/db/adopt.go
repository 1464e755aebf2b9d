package db

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/internal/terminal"
)

// StatusCommand returns the command `pawl status`.
func StatusCommand(a *cli.App) *cobra.Command {
	const short = "Say whether the database may act, or is quarantined because it is a copy or was moved"
	return a.Verb("status", short, cobra.NoArgs, withEngine(a, func(ctx context.Context, e *engine.Engine) error {
		s, err := e.Identity(ctx)
		if err != nil {
			return err
		}
		return a.Show(s, func(w io.Writer) {
			why := "-"
			if s.Why != nil {
				why = *s.Why
			}
			terminal.Fields(w, "quarantined", fmt.Sprint(s.Quarantined), "why", why, "place", cmp.Or(s.Place, "-"),
				"known places", cmp.Or(strings.Join(s.KnownPlaces, "; "), "-"))
			if s.Quarantined {
				fmt.Fprintln(w, "`pawl adopt` makes it the one that acts, `pawl adopt --as-copy` a copy for tests.")
			}
		})
	}))
}

// AdoptCommand returns the command `pawl adopt`.
func AdoptCommand(a *cli.App) *cobra.Command {
	var asCopy bool
	var expect, relays string
	cmd := a.Verb("adopt", "End the quarantine of a database: it acts from now on, or is a copy for tests", cobra.NoArgs,
		withEngine(a, func(ctx context.Context, e *engine.Engine) error {
			switch {
			case expect != "" && asCopy:
				return cli.Invalid("--expect and --as-copy are two things: expect a place here, or adopt a copy there")
			case relays != "" && (asCopy || expect != ""):
				return cli.Invalid("--relays is for a database that acts, not with --as-copy or --expect")
			case expect != "":
				if err := e.ExpectPlace(ctx, expect); err != nil {
					return err
				}
				shown := cli.ShownURL(expect, "")
				return a.Show(map[string]string{"expected": shown}, func(w io.Writer) {
					fmt.Fprintf(w, "The database is admitted once at %s.\n", shown)
				})
			}
			adopt := func() (engine.Adoption, error) { return e.Adopt(ctx, asCopy) }
			if relays != "" {
				adopt = func() (engine.Adoption, error) { return e.AdoptFrom(ctx, relays) }
			}
			out, err := adopt()
			if err != nil && out.Adopted == nil {
				return err
			}
			// After an adoption, a relay that cannot go on is the error.
			return errors.Join(a.Show(out, func(w io.Writer) { adoptionLines(w, out, relays) }), err)
		}))
	cmd.Flags().BoolVar(&asCopy, "as-copy", false, "make it a copy for tests: its schedules and relays are off for good")
	cmd.Flags().StringVar(&expect, "expect", "", "before a move or an upgrade, run this on the original: admit the database once at this URL")
	cmd.Flags().StringVar(&relays, "relays", "",
		"where relays go on at once: stored (also what the original has sent since) or now (default: they wait for `pawl relay resume`)")
	cmd.Long = "A database that was copied or moved is quarantined: it can be read, and nothing acts. `pawl adopt` makes it the one\n" +
		"that acts; the original must not act any more then. Leases end, schedules begin from now, a new epoch of the feed and\n" +
		"of the log begins, and relays wait for `pawl relay resume`."
	cmd.Example = "  pawl adopt --db sqlite:restored.db\n  pawl adopt --db postgres://db.example.com/work_test --as-copy\n" +
		"  pawl adopt --db postgres://old.example.com/work --expect postgres://new.example.com/work"
	return cmd
}

func adoptionLines(w io.Writer, out engine.Adoption, relays string) {
	switch {
	case out.Adopted == nil:
		fmt.Fprintln(w, "The database is not quarantined: nothing was changed.")
		return
	case *out.Adopted == "copy":
		fmt.Fprintln(w, "The database is a copy for tests now: its schedules and relays are off for good.")
	case relays != "":
		fmt.Fprintf(w, "The database acts from now on: schedules begin from now, and relays go on from %s.\n", relays)
	default:
		fmt.Fprintln(w, "The database acts from now on: schedules begin from now, and relays wait for `pawl relay resume`.")
	}
	terminal.Fields(w, "epoch", fmt.Sprint(out.Epoch), "leases ended", fmt.Sprint(out.LeasesEnded), "schedules", fmt.Sprint(out.Schedules))
}

// withEngine opens the database in this process.
func withEngine(a *cli.App, run func(ctx context.Context, e *engine.Engine) error) func(*cobra.Command, []string) error {
	return cli.With(a, func(ctx context.Context, s any, _ []string) error {
		e, own := s.(*engine.Engine)
		if !own {
			return cli.Invalid("this command needs the database: use --db instead of --server")
		}
		return run(ctx, e)
	})
}
