// Package scenario runs conversations with Pawl from plain text. Each step is a command, ----
// and its outcome. The files of testdata hold for every database and every interface. Each
// file begins with its source.
//
//	submit type=a items=2
//	----
//	task1 queued: item1 item2
//
//	claim w1
//	----
//	item1 of task1: attempt 1, failures 0, until +5m0s, input {"n":1}
//
// Tasks, items and messages are named in the order in which they were created. Times are given
// relative to the start. The commands are listed in commands.go.
package scenario

import (
	"embed"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
)

//go:embed testdata/*.txt
var files embed.FS

// Run runs every conversation against a service of its own, in parallel. another opens a
// further service on the same database. If the directory rewrite is given, the outcome is
// written there instead of compared.
func Run(t *testing.T, open func(t *testing.T) (svc pawl.Service, clock pawltest.Clock, another func() pawl.Service), rewrite string) {
	entries, err := files.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		t.Run(strings.TrimSuffix(entry.Name(), ".txt"), func(t *testing.T) {
			t.Parallel()
			want, err := files.ReadFile("testdata/" + entry.Name())
			if err != nil {
				t.Fatal(err)
			}
			svc, clock, another := open(t)
			got := newStage(t.Context(), svc, clock, another).play(string(want))
			if rewrite != "" {
				if err := os.WriteFile(filepath.Join(rewrite, entry.Name()), []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
				t.Errorf("%s goes another way (-want +got):\n%s", entry.Name(), diff)
			}
		})
	}
}

// play runs the commands of a conversation and returns it with the outcome of each. Paragraphs
// without ---- are comments.
func (s *stage) play(text string) string {
	var out []string
	for _, paragraph := range strings.Split(strings.TrimSpace(text), "\n\n") {
		command, _, found := strings.Cut(paragraph+"\n", "\n----\n")
		if !found {
			out = append(out, paragraph)
			continue
		}
		var comments, lines []string
		for _, line := range strings.Split(command, "\n") {
			if strings.HasPrefix(line, "#") {
				comments = append(comments, line)
			} else {
				lines = append(lines, line)
			}
		}
		answer := strings.TrimRight(s.run(lines), "\n")
		if answer == "" {
			answer = "ok"
		}
		out = append(out, strings.Join(append(append(comments, lines...), "----", answer), "\n"))
	}
	return strings.Join(out, "\n\n") + "\n"
}

// run carries out one command; its further lines are items.
func (s *stage) run(lines []string) string {
	c := parse(lines[0])
	for _, line := range lines[1:] {
		c.items = append(c.items, parse(line))
	}
	verb, known := commands[c.verb]
	if !known {
		return "no command " + c.verb
	}
	answer, err := verb(s.by(c), c)
	if err != nil {
		return s.refusal(err)
	}
	return answer
}
