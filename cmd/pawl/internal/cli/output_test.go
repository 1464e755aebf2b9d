package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
)

// A page of a search that ended at a bound says so.
func TestAListSaysThatItIsIncomplete(t *testing.T) {
	var out bytes.Buffer
	a := &App{Stdout: &out, Stderr: &out, Config: Config{Output: "json"}}
	err := List(t.Context(), a, Pages{}, "", func(string) string { return "" },
		func(context.Context, pawl.Page) (pawl.List[string], error) {
			return pawl.List[string]{Next: "c", Incomplete: true}, nil
		})
	if err != nil || !strings.Contains(out.String(), `"incomplete":true`) {
		t.Error(out.String(), err)
	}
}
