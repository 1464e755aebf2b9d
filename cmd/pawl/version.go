package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
)

func versionCmd(a *cli.App) *cobra.Command {
	return a.Verb("version", "What this program is", cobra.NoArgs, func(*cobra.Command, []string) error {
		v := cli.ReadVersion()
		return a.Show(v, func(w io.Writer) { fmt.Fprintf(w, "pawl %s %s (%s)\n", v.Version, v.Commit, v.Go) })
	})
}
