package pawl_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
)

var update = flag.Bool("update", false, "write the generated documents anew")

const generated = "<!-- Generated from %s by `go test . -update`; not for editing. -->\n\n"

// The documents of the tables are written from the tables; git holds what was
// written last, and this says whether it still is what would be.
func TestGeneratedDocsAreFresh(t *testing.T) {
	for name, want := range map[string]string{
		"lifecycle.md": lifecycleDoc(),
		"errors.md":    errorsDoc(),
		"limits.md":    limitsDoc(),
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join("docs", name)
			if *update {
				if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			got, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != want {
				t.Errorf("%s is not what the table says: run `go test . -update` and read the difference", path)
			}
		})
	}
}

func lifecycleDoc() string {
	var b strings.Builder
	fmt.Fprintf(&b, generated, "lifecycle.go and event.go")
	b.WriteString("# Lifecycles\n\nThe states of items, tasks and messages, and every move between them. A move that is not here is refused, by the code and by the CHECK constraints of both databases.\n")
	for _, l := range lifecycles {
		fmt.Fprintf(&b, "\n## %s\n\n", l.title)
		writeStates(&b, l)
		writeMoves(&b, l)
		writeDiagram(&b, l)
	}
	b.WriteString("\n## Events\n\nEvery change of state leaves one event in its own transaction; so do the other changes named here. The message is what an event says when its writer gives none.\n\n| event | changes a state | message |\n|---|---|---|\n")
	for _, e := range pawl.Events {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", e.Name, yes(e.State), e.Means)
	}
	return b.String()
}

func writeStates(b *strings.Builder, l lifecycle) {
	b.WriteString("| state | status | end | holds a lease | moved by time alone | verbs a caller may ask for |\n|---|---|---|---|---|---|\n")
	for _, s := range l.states {
		name := "`" + s.Name + "`"
		stored := s.Name
		switch {
		case !s.Shown:
			name += " (stored, never shown)"
		case !s.Stored:
			name += " (how an open one reads)"
			stored = string(pawl.TaskOpen)
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s |\n", name, s.Status, yes(s.Terminal), yes(s.Leased), yes(s.Timed), strings.Join(pawl.Allowed(l.moves, stored), ", "))
	}
}

func writeMoves(b *strings.Builder, l lifecycle) {
	b.WriteString("\n| from | verb | to | event | asked for | when, and what else |\n|---|---|---|---|---|---|\n")
	for _, m := range l.moves {
		event := "`" + m.Event + "`"
		if m.Event == "" {
			event = "named for the new state"
		}
		fmt.Fprintf(b, "| %s | **%s** | %s | %s | %s | %s |\n", words(m.From), m.Verb, words(m.To), event, yes(m.Asked), m.Note)
	}
}

// writeDiagram draws one arrow for each pair, with all its verbs.
func writeDiagram(b *strings.Builder, l lifecycle) {
	b.WriteString("\n```mermaid\nstateDiagram-v2\n")
	for _, p := range pawl.Pairs(l.moves) {
		var verbs []string
		steps(l.moves, func(m pawl.Move, from, to string) {
			if from == p.From && to == p.To && !slices.Contains(verbs, m.Verb) {
				verbs = append(verbs, m.Verb)
			}
		})
		from := p.From
		if from == "" {
			from = "[*]"
		}
		fmt.Fprintf(b, "  %s --> %s: %s\n", from, p.To, strings.Join(verbs, ", "))
	}
	for _, s := range l.states {
		if s.Terminal {
			fmt.Fprintf(b, "  %s --> [*]\n", s.Name)
		}
	}
	b.WriteString("```\n")
}

func words(states []string) string {
	if slices.Equal(states, []string{""}) {
		return "·"
	}
	return strings.Join(states, ", ")
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return ""
}

func errorsDoc() string {
	var b strings.Builder
	fmt.Fprintf(&b, generated, "errors.go")
	b.WriteString(`# Errors

Every refusal is one of these, the same in process and over HTTP. In Go, match with ` + "`errors.Is(err, pawl.ErrLeaseLost)`" + ` and read the members with ` + "`errors.As`" + ` into a ` + "`*pawl.Error`" + `; over HTTP the code is the problem document's ` + "`code`" + `; on the command line it decides the exit code. Texts are for people and may change; codes do not.

| code | HTTP | exit | may be repeated as it is | means |
|---|---|---|---|---|
`)
	for _, e := range pawl.Errors {
		fmt.Fprintf(&b, "| `%s` | %d | %d | %s | %s |\n", e.Code, e.HTTP, e.Exit, yes(e.Retryable), e.Means)
	}
	b.WriteString(`
Besides these, the command line exits with 0 when it is done and with 1 when a check failed.

` + "`lease_lost`" + ` has a reason: ` + "`taken`" + ` (another claim is the latest: ` + "`ErrLeaseTaken`" + `), ` + "`expired`" + ` (it ran out by the database's clock, swept or not: ` + "`ErrLeaseExpired`" + `), ` + "`released`" + ` (it was given back or suspended). All three match ` + "`ErrLeaseLost`" + `. A ` + "`conflict`" + ` about a state carries the state found and the verbs it allows.
`)
	return b.String()
}

func limitsDoc() string {
	var b strings.Builder
	fmt.Fprintf(&b, generated, "limits.go")
	b.WriteString("# Limits and defaults\n\nWhat is over a limit is refused with `invalid` and a pointer to the field, a body with `too_large`. Times are in UTC, to the microsecond.\n\n## Limits\n\n")
	writeLimits(&b, pawl.Limits)
	b.WriteString("\n## Defaults\n\n")
	writeLimits(&b, pawl.Defaults)
	return b.String()
}

func writeLimits(b *strings.Builder, limits []pawl.Limit) {
	b.WriteString("| name | value | unit | |\n|---|---|---|---|\n")
	for _, l := range limits {
		value := fmt.Sprint(l.Value)
		if d := time.Duration(l.Value) * time.Second; l.Unit == "seconds" && d >= time.Hour {
			value += " (" + inWords(d) + ")"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", l.Name, value, l.Unit, l.Means)
	}
}

func inWords(d time.Duration) string {
	if days := d / (24 * time.Hour); days > 1 {
		return fmt.Sprintf("%d days", days)
	}
	return fmt.Sprintf("%d h", d/time.Hour)
}
