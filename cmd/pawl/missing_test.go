package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
)

// Commands that may create the database, and those that do not open the one of --db.
var (
	creators = []string{"pawl serve", "pawl demo", "pawl mcp", "pawl migrate up", "pawl task create", "pawl gate mcp"}
	openNone = []string{"pawl version", "pawl migrate sql", "pawl completion", "pawl help", "pawl demo-agent", "pawl archive verify",
		"pawl effect verify", "pawl move"} // testdata/script/move.txtar has a mistyped --from
)

// flagsFor are the flags and arguments without which a command is refused before it
// opens the database.
var flagsFor = map[string][]string{
	"pawl worker":               {"--type", "a", "--exec", "--", "true"},
	"pawl item claim":           {"--worker", "w"},
	"pawl item fail":            {"--error", "e"},
	"pawl item suspend":         {"--signal", "s"},
	"pawl item spawn":           {"--child-key", "k", "--task", `{"type":"t"}`},
	"pawl item progress":        {"--percent", "1"},
	"pawl item part":            {"--part", "k", "--payload", "1"},
	"pawl task update":          {"--title", "t"},
	"pawl task reject":          {"--error", "a=b"},
	"pawl idempotency begin":    {"--request", "1"},
	"pawl idempotency complete": {"--token", "t"},
	"pawl idempotency renew":    {"--token", "t"},
	"pawl idempotency fail":     {"--token", "t", "--response", "1"},
	"pawl key create":           {"--role", "reader"},
	"pawl demo-worker":          {"--type", "t"},
	"pawl checkpoint append":    {"--checkpoints", `[{"type":"custom","snapshot":1}]`},
	"pawl checkpoint prune":     {"--keep", "a=1"},
	"pawl task fork":            {"--checkpoint", "1"},
	"pawl type set":             {"--lease", "10m"},
	"pawl bench":                {"--budget", "1ms"},
}

// A mistyped --db is an error: only a few commands create a database.
func TestMissingDatabaseIsNotCreated(t *testing.T) {
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
		path := cmd.CommandPath()
		if slices.ContainsFunc(slices.Concat(creators, openNone), func(p string) bool { return p == path || strings.HasPrefix(path, p+" ") }) ||
			cmd.HasSubCommands() && flagsFor[path] == nil || !cmd.Runnable() {
			return
		}
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "mistyped.db")
			args := strings.Fields(path)[1:]
			for _, word := range strings.Fields(cmd.Use)[1:] {
				if strings.HasPrefix(word, "-") {
					break
				}
				if strings.Trim(word, "…") == strings.ToUpper(strings.Trim(word, "…")) && path != "pawl worker" {
					args = append(args, "x")
				}
			}
			args = append(append(args, "--db", "sqlite:"+file), flagsFor[path]...)
			a := &cli.App{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard, Args: args}
			root := root(a)
			root.SetArgs(args)
			err := root.ExecuteContext(t.Context())
			if pawl.CodeOf(err) != pawl.CodeNotFound || !strings.Contains(err.Error(), "mistyped.db") {
				t.Errorf("%v: %v", args, err)
			}
			if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%v left a file: %v", args, err)
			}
		})
	}
	walk(root((&cli.App{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard})))
}
