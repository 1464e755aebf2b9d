package db

import (
	"cmp"
	"fmt"
	"io"
	"maps"

	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/internal/terminal"
	"github.com/pawl-work/pawl/store/relocate"
)

// MoveCommand returns the command `pawl move`.
func MoveCommand(a *cli.App) *cobra.Command {
	var from, to, told string
	var cancel bool
	cmd := a.Verb("move", "Move a database, or one namespace, into another database while both are used", cobra.NoArgs,
		func(cmd *cobra.Command, _ []string) (err error) {
			if from == "" || to == "" && !cancel {
				return cli.Invalid("--from and --to name the two databases")
			}
			m := engine.Move{URL: told}
			if a.Config.NamespaceGiven {
				if m.Namespace = a.Config.Namespace; m.Namespace == "" { // a whole database is moved without a namespace alone
					return cli.Invalid("the namespace is empty")
				}
			}
			o := a.EngineOptions()
			o.Existing = true
			source, err := engine.OpenWith(cmd.Context(), from, o)
			if err != nil {
				return fmt.Errorf("--from: %w", err)
			}
			defer func() { err = cmp.Or(err, source.Close()) }()
			var target *engine.Engine
			if to != "" {
				o.Existing = cancel
				if target, err = engine.OpenWith(cmd.Context(), to, o); err != nil {
					return fmt.Errorf("--to: %w", err)
				}
				defer func() { err = cmp.Or(err, target.Close()) }()
			}
			if cancel {
				out, err := source.CancelMove(cmd.Context(), target, m)
				if err != nil {
					return err
				}
				return a.Show(out, func(w io.Writer) { cancelLines(w, out) })
			}
			out, err := source.Relocate(cmd.Context(), target, m)
			if err != nil {
				return err
			}
			return a.Show(out, func(w io.Writer) { moveLines(w, out, cli.ShownURL(to, "")) })
		})
	cmd.Flags().StringVar(&from, "from", "", "URL of the database that has the work")
	cmd.Flags().StringVar(&to, "to", "", "URL of the database that gets it; it is made if it is missing")
	cmd.Flags().StringVar(&told, "to-url", "", "URL that callers of the source are told, for example that of the other server")
	cmd.Flags().BoolVar(&cancel, "cancel", false, "give up a move that is not over; without --to if the target is lost")
	cmd.Long = "Rows are copied while both databases are used. Then the source refuses changes for some seconds: what has changed is\n" +
		"copied again, counted and checked, and the target has it. Callers of the source are refused with the code moved.\n" +
		"The same command goes on with a move that was interrupted. With a namespace (-n, PAWL_NAMESPACE or the settings file) it\n" +
		"moves that one, without it everything.\n" +
		"With --cancel the source is used as before, if it was not given away yet."
	cmd.Example = "  pawl move --from sqlite:work.db --to postgres://db.example.com/work --to-url https://pawl.example.com\n" +
		"  pawl move --from postgres://db.example.com/work --to sqlite:team.db -n team"
	return cmd
}

func cancelLines(w io.Writer, out relocate.Cancelled) {
	what := "everything"
	if out.Namespace != "" {
		what = "the namespace " + out.Namespace
	}
	fmt.Fprintf(w, "Cancelled the move of %s: the source is used as before.\n", what)
	switch {
	case out.Cleared:
	case out.Namespace != "":
		fmt.Fprintln(w, "The target has a part of it. If others use the target, run the command again with --to; else throw it away.")
	default:
		fmt.Fprintln(w, "The target has a part of it: throw it away.")
	}
	terminal.Fields(w, "move", out.ID, "target", out.Peer)
}

func moveLines(w io.Writer, out relocate.Result, to string) {
	what := "everything"
	if out.Namespace != "" {
		what = "the namespace " + out.Namespace
	}
	fmt.Fprintf(w, "Moved %s to %s.\n", what, to)
	var rows int64
	for n := range maps.Values(out.Rows) {
		rows += n
	}
	tasks := out.Rows["tasks"]
	terminal.Fields(w, "move", out.ID, "tasks", fmt.Sprint(tasks), "rows", fmt.Sprint(rows),
		"writers waited", fmt.Sprintf("%d ms", out.PausedMS))
}
