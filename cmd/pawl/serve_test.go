package main

import (
	"context"
	"errors"
	"testing"

	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
)

// failing is a service whose Run fails at once.
type failing struct{ err error }

func (f failing) Run(context.Context) error { return f.err }

// When the sweeps fail permanently, as in a program that a migration has excluded, the server ends
// too, with their error.
func TestServingEndsWithTheSweeps(t *testing.T) {
	want := errors.New("the schema is too new")
	err := cli.WithSweeps(t.Context(), failing{want}, func(ctx context.Context) error {
		<-ctx.Done()
		return nil
	})
	if !errors.Is(err, want) {
		t.Errorf("it ended with %v", err)
	}
}
