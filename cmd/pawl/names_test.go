package main

import (
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
)

// A command that lists is called list or ls, whatever it lists.
func TestWhatListsHasBothNames(t *testing.T) {
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
		name := cmd.Name()
		if other := map[string]string{"list": "ls", "ls": "list"}[name]; other != "" && !cmd.HasAlias(other) {
			t.Errorf("%s is not called %s too", cmd.CommandPath(), other)
		}
	}
	walk(root(&cli.App{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard}))
}
