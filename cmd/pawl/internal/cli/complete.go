package cli

import (
	"strings"

	"github.com/spf13/cobra"
)

// Complete adds to a command line of pawl the flags of cmd that say which database it is about,
// so that it can be copied. Passwords are replaced.
func (a *App) Complete(cmd *cobra.Command, line string) string {
	var flags string
	for _, name := range []string{"db", "schema", "server"} {
		if f := cmd.Flags().Lookup(name); f != nil && f.Changed {
			value := f.Value.String()
			if name == "db" {
				value = ShownURL(value, "")
			}
			flags += " --" + name + " '" + strings.ReplaceAll(value, "'", `'\''`) + "'"
		}
	}
	at, inside := len(line), false
	for i := range line {
		if line[i] == '\'' {
			inside = !inside
		}
		if !inside && strings.HasPrefix(line[i:], " -- ") {
			at = i
			break
		}
	}
	return line[:at] + flags + line[at:]
}
