package pawl_test

import (
	"os"
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
)

// Every state, status, event, actor type and role has its entry in docs/glossary.md.
func TestGlossaryIsComplete(t *testing.T) {
	raw, err := os.ReadFile("docs/glossary.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows, text strings.Builder // first cells of tables; everything
	for line := range strings.Lines(string(raw)) {
		if cells := strings.SplitN(line, "|", 3); len(cells) == 3 && cells[0] == "" {
			rows.WriteString(cells[1])
		}
		text.WriteString(line)
	}
	entry := func(what, name, in string) {
		if !strings.Contains(in, "`"+name+"`") {
			t.Errorf("docs/glossary.md has no %s %q", what, name)
		}
	}
	for _, l := range lifecycles {
		for _, s := range l.states {
			entry("state", s.Name, rows.String())
			entry("status", string(s.Status), text.String())
		}
	}
	for _, e := range pawl.Events {
		entry("event", e.Name, rows.String())
	}
	for _, a := range pawl.ActorTypes {
		entry("actor type", a, text.String())
	}
}
