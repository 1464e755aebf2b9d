package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl/engine"
)

// checker holds a database against the rules that always hold: the engine.
type checker interface {
	Check(ctx context.Context) ([]engine.Breach, error)
}

// checkup is what doctor found.
type checkup struct {
	Clean    bool            `json:"clean"`
	Breaches []engine.Breach `json:"breaches"`
}

func (a *app) doctorCmd() *cobra.Command {
	cmd := a.verb("doctor", "Check every rule that always holds; exit 1 with a line per breach", cobra.NoArgs, func(cmd *cobra.Command, _ []string) error {
		if err := a.exists(); err != nil {
			return err
		}
		a.cfg.Migrate = "off" // it looks, and changes nothing
		return with(a, a.doctor)(cmd, nil)
	})
	cmd.Long = "Checks the whole database, all its namespaces, and changes nothing.\nEach breach is a line: the rule, what breaks it, what was found, how to mend it."
	return cmd
}

func (a *app) doctor(ctx context.Context, s any, _ []string) error {
	c, ok := s.(checker)
	if !ok {
		return invalid("the doctor looks at a --db, not through a --server")
	}
	breaches, err := c.Check(ctx)
	if err != nil {
		return err
	}
	if breaches == nil {
		breaches = []engine.Breach{}
	}
	err = a.show(checkup{len(breaches) == 0, breaches}, func(w io.Writer) {
		for _, b := range breaches {
			fmt.Fprintf(w, "%s: %s: %s; mend: %s\n", printable(b.Rule), printable(b.Subject), printable(b.Found), printable(b.Mend))
		}
		if len(breaches) == 0 {
			fmt.Fprintln(w, "clean")
		}
	})
	if err == nil && len(breaches) > 0 {
		return errCheck
	}
	return err
}
