package item

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-work/pawl/internal/terminal"
)

// WhyCommand returns the command `pawl why`.
func WhyCommand(a *cli.App) *cobra.Command {
	cmd := a.Verb("why ITEM", "Say what an item waits for, and the command that changes it", cobra.ExactArgs(1),
		func(cmd *cobra.Command, args []string) error {
			return cli.With(a, func(ctx context.Context, s pawl.Explainer, args []string) error {
				why, err := s.Why(ctx, args[0])
				if err != nil {
					return err
				}
				why.Command = a.Complete(cmd, why.Command)
				return a.Show(why, func(w io.Writer) { fmt.Fprintln(w, paragraph(why)) })
			})(cmd, args)
		})
	cmd.Long = "Says what an item waits for, since when, who held it last, what failed, what happens next and when,\n" +
		"and the command that changes it. Of a task, it explains the item that tells most about it."
	return cmd
}

func paragraph(why pawl.Why) string {
	text := []string{why.ItemID + " (" + why.Reason + "): " + terminal.Printable(why.Detail),
		"This began at " + terminal.Time(why.Since) + ", " + terminal.Age(why.Since) + " ago."}
	if why.NextAt != nil {
		text = append(text, "The next change is at "+terminal.Time(*why.NextAt)+".")
	}
	return strings.Join(append(text, "To change it: "+why.Command), " ")
}
