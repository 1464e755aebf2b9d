package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl/internal/nearest"
)

// unknownVerb is the error for a word that is not a subcommand of cmd. It suggests the
// nearest ones and those that begin with the word.
func unknownVerb(cmd *cobra.Command, word string) error {
	best := nearest.Allowed(word)
	var near, begun []string
	for _, c := range cmd.Commands() {
		if !c.IsAvailableCommand() {
			continue
		}
		if d := nearest.Edits(word, c.Name()); d < best {
			best, near = d, []string{c.Name()}
		} else if d == best && d > 0 {
			near = append(near, c.Name())
		}
		if len(word) > 1 && strings.HasPrefix(c.Name(), word) {
			begun = append(begun, c.Name())
		}
	}
	meant := slices.Compact(slices.Sorted(slices.Values(append(near, begun...))))
	text := fmt.Sprintf("there is no command %q here", cmd.CommandPath()+" "+word)
	if len(meant) > 0 {
		text += "; did you mean " + strings.Join(meant, " or ") + "?"
	}
	return Usage(cmd, fmt.Errorf("%s", text))
}
