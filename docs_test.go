package pawl_test

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
)

var update = flag.Bool("update", false, "write the generated documents anew")

const generated = "<!-- Generated from %s by `go test . -update`; not for editing. -->\n\n"

// The comparison names what there is, and does not deny it.
func TestComparisonKnowsTheFeatures(t *testing.T) {
	raw, err := os.ReadFile("docs/comparison.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(raw), "## What Pawl does not have\n")
	lacks, _, _ := strings.Cut(rest, "\n## ")
	has, _, _ := strings.Cut(string(raw), "## What Pawl does not have\n")
	if !found {
		t.Fatal("the page does not say what Pawl does not have")
	}
	for word, place := range map[string]string{
		"Python": "sdk/python", "TypeScript": "sdk/typescript", "LangGraph": "sdk/langgraph", "Workflow DevKit": "sdk/workflow",
		"Pydantic AI": "sdk/python/src/pawl/pydantic_ai", "OpenAI Agents": "sdk/python/src/pawl/openai_agents", "MCP": "mcp",
		"dashboard": "dashboard", "OpenID Connect": "access/signin", "proxy": "access/proxy.go", "Grafana": "deploy/grafana",
		"webhooks of other services": "inbound", "RabbitMQ": "relay/rabbitmq", "NATS": "relay/nats", "traces": "tracing",
		"transparency log": "translog", "SQLite": "store/sqlite", "PostgreSQL": "store/postgres",
	} {
		_, err := os.Stat(place)
		if err != nil {
			t.Errorf("%s is gone: the page may not have %s any more", place, word)
		}
		if !strings.Contains(has, word) {
			t.Errorf("docs/comparison.md does not say that Pawl has %s", word)
		}
		if strings.Contains(lacks, "**"+word) || strings.Contains(lacks, "**A "+word) {
			t.Errorf("docs/comparison.md says that Pawl does not have %s", word)
		}
	}
	for _, denied := range []string{"Python library", "identity provider", "Log-in"} {
		if strings.Contains(lacks, denied) {
			t.Errorf("docs/comparison.md denies: %s", denied)
		}
	}
}

// The documents of the tables are generated from the tables. The test compares the files with the
// text that would be generated now.
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
	b.WriteString("# Lifecycles\n\nThe states of items, tasks and messages, and every move between them. A move that is not listed is " +
		"refused by the code, and has no code that the databases take. [The contract](contract.md#1-items) has the rules behind the " +
		"moves, [the glossary](glossary.md#states) the meaning of each state.\n\n```\npawl task get TASK     # state, status and version\n" +
		"pawl event list        # the moves that were made, newest first\n```\n\n" +
		"In the tables of moves, `·` is creation, and *by callers* marks the verbs that a caller can ask for; the others happen by " +
		"themselves.\n")
	for _, l := range lifecycles {
		fmt.Fprintf(&b, "\n## %s\n\n", l.title)
		writeStates(&b, l)
		writeMoves(&b, l)
		writeDiagram(&b, l)
	}
	b.WriteString("\n## Events\n\nEvery change of state leaves one event in its own transaction; so do the other changes listed here. The " +
		"message is the text of an event that was written without one.\n\n| event | changes a state | message |\n|---|---|---|\n")
	for _, e := range pawl.Events {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", e.Name, yes(e.State), e.Means)
	}
	return b.String()
}

func writeStates(b *strings.Builder, l lifecycle) {
	b.WriteString("| state | status | final | holds a lease | time alone may move it | verbs of callers |\n|---|---|---|---|---|---|\n")
	for _, s := range l.states {
		name := "`" + s.Name + "`"
		stored := s.Name
		switch {
		case !s.Shown:
			name += " (stored, never shown)"
		case !s.Stored:
			name += " (computed for an open task)"
			stored = string(pawl.TaskOpen)
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s |\n", name, s.Status, yes(s.Terminal), yes(s.Leased), yes(s.Timed),
			strings.Join(pawl.Allowed(l.moves, stored), ", "))
	}
}

func writeMoves(b *strings.Builder, l lifecycle) {
	b.WriteString("\n| from | verb | to | event | by callers | when |\n|---|---|---|---|---|---|\n")
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
	type pair struct{ from, to string }
	verbs := map[pair][]string{}
	var pairs []pair // each once, in table order
	steps(l.moves, func(m pawl.Move, from, to string) {
		p := pair{cmp.Or(from, "[*]"), to}
		if verbs[p] == nil {
			pairs = append(pairs, p)
		}
		if !slices.Contains(verbs[p], m.Verb) {
			verbs[p] = append(verbs[p], m.Verb)
		}
	})
	for _, p := range pairs {
		fmt.Fprintf(b, "  %s --> %s: %s\n", p.from, p.to, strings.Join(verbs[p], ", "))
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

Every refusal has one of these codes, the same in process and over HTTP. Codes do not change; texts are for people and may.

` + "```sh\n" + `pawl task get tsk_none || test $? -eq 3   # not_found
` + "```" + `

In Go, match with ` + "`errors.Is(err, pawl.ErrLeaseLost)`" + ` and read the members with ` + "`errors.As`" + ` into a ` +
		"`*pawl.Error`" + `. Over HTTP the code is the problem document's ` + "`code`" + `. On the command line it decides the exit code.

| code | HTTP | exit | may be repeated unchanged | meaning |
|---|---|---|---|---|
`)
	for _, e := range pawl.Errors {
		fmt.Fprintf(&b, "| `%s` | %d | %d | %s | %s |\n", e.Code, e.HTTP, e.Exit, yes(e.Retryable), e.Means)
	}
	b.WriteString(`
The command line also exits with 0 when it is done and with 1 when a check failed ([exit codes](cli.md#exit-codes)).

` + "`lease_lost`" + ` has a reason: ` + "`taken`" + ` (a later claim exists, or another worker made this one: ` + "`ErrLeaseTaken`" +
		`), ` + "`expired`" + ` (the lease ran out by the database's clock, swept or not: ` + "`ErrLeaseExpired`" + `), ` + "`released`" +
		` (it was released, suspended or revoked). All three match ` + "`ErrLeaseLost`" + `. A ` + "`conflict`" +
		` about a state carries the state that was found and the verbs it allows. [The contract](contract.md#3-the-fence) has the order in ` +
		`which a worker's call is judged.
`)
	return b.String()
}

func limitsDoc() string {
	var b strings.Builder
	fmt.Fprintf(&b, generated, "limits.go")
	b.WriteString("# Limits and defaults\n\nA value over a limit is refused with `invalid` and a pointer to the field, a body with " +
		"`too_large`. Times are in UTC, in microseconds. [Settings](cli.md#settings) and [types](types.md#fields) change some defaults and " +
		"tighten some limits.\n\n```sh\npawl task create --type report --priority 40000 || test $? -eq 2   # invalid: /priority\n```\n\n" +
		"## Limits\n\n")
	writeLimits(&b, pawl.Limits)
	b.WriteString("\n## Defaults\n\n")
	writeLimits(&b, pawl.Defaults)
	return b.String()
}

func writeLimits(b *strings.Builder, limits []pawl.Limit) {
	b.WriteString("| name | value | unit | meaning |\n|---|---|---|---|\n")
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

// Each database that the documents name has a scheme, also in the settings of clients, which no test runs. The name of a key
// is not its namespace.
func TestCommandsInDocs(t *testing.T) {
	files, err := filepath.Glob("docs/*.md")
	if err != nil || len(files) < 20 {
		t.Fatal(len(files), err)
	}
	database := regexp.MustCompile(`--db"?[ ,=]+["']?([\w/.]+[:/]?)`)
	named := regexp.MustCompile(`key create .*--as \w+/(\w+) .*-n (\w+)`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range database.FindAllStringSubmatch(string(text), -1) {
			if strings.HasPrefix(m[1], "/") || strings.Contains(m[1], ".db") {
				t.Errorf("%s: %s is no URL of a database", file, m[0])
			}
		}
		for line := range strings.Lines(string(text)) {
			if m := named.FindStringSubmatch(line); m != nil && m[1] == m[2] {
				t.Errorf("%s: -n is the namespace: %s", file, line)
			}
		}
	}
}
