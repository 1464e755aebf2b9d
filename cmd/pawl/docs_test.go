package main

import (
	"io"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
)

// docs/cli.md names every command and setting. A test of the documents runs its examples.
func TestPageNamesEveryCommandAndSetting(t *testing.T) {
	raw, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(raw)
	a := &cli.App{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard}
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		if !cmd.Hidden && !strings.Contains(page, cmd.Name()) {
			t.Errorf("it does not name %s", cmd.CommandPath())
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(root(a))
	for _, key := range cli.KeysOf(reflect.TypeFor[cli.Config](), "") {
		if !strings.Contains(page, "`"+key+"`") {
			t.Errorf("it does not name the setting %s", key)
		}
	}
}

// Every command and every flag has a help text.
func TestCommandsSpeak(t *testing.T) {
	a := &cli.App{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard}
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%s: %q", cmd.CommandPath(), cmd.Short)
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(root(a))
}
