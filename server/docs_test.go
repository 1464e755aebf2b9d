package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/server"
)

var (
	block    = regexp.MustCompile("(?s)```(sh|json)\n(.*?)```")
	ownID    = regexp.MustCompile(`\b(tsk|itm|ckp)_[0-9A-Z]{26}\b`)
	anyTime  = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$`)
	ellipsis = "…" // any text
)

// Every command of docs/http.md is run as it is written, and gets the answer that the page
// shows, except for ids and times.
func TestTheWalkThroughIsTrue(t *testing.T) {
	curl, err := exec.LookPath("curl")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("there is no curl")
		}
		t.Skip("there is no curl")
	}
	page, err := os.ReadFile("../docs/http.md")
	if err != nil {
		t.Fatal(err)
	}
	p := pawltest.OpenReal(t, pawltest.SQLite, engine.Options{})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Engine.Run(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	w := walk{T: t, shell: []string{"sh", "-c"}, base: serve(t, p.Service, server.Options{}).URL, ids: map[string]string{}}
	t.Logf("curl is %s", curl)
	for _, m := range block.FindAllStringSubmatch(string(page), -1) {
		if m[1] == "sh" {
			w.run(m[2])
		} else {
			w.shows(m[2])
		}
	}
	if w.steps < 15 {
		t.Errorf("only %d commands were found", w.steps)
	}
}

// walk is a reader that follows the page.
type walk struct {
	*testing.T
	shell  []string
	base   string
	ids    map[string]string // the page's → this run's
	script string
	answer string
	steps  int
}

func (w *walk) run(script string) {
	w.Helper()
	w.steps++
	script = strings.ReplaceAll(script, "http://127.0.0.1:7033", w.base)
	w.script = ownID.ReplaceAllStringFunc(script, func(id string) string {
		if ours := w.ids[id]; ours != "" {
			return ours
		}
		w.Fatalf("the page uses %s before it shows it", id)
		return ""
	})
	ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, w.shell[0], w.shell[1], w.script).Output()
	if err != nil {
		w.Fatalf("%s: %v", w.script, err)
	}
	w.answer = string(out)
}

func (w *walk) shows(text string) {
	w.Helper()
	var shown, got any
	if err := json.Unmarshal([]byte(text), &shown); err != nil {
		w.Fatalf("the page shows no JSON: %v\n%s", err, text)
	}
	if err := json.Unmarshal([]byte(w.answer), &got); err != nil {
		w.Fatalf("%s\nanswers no JSON: %v\n%s", w.script, err, w.answer)
	}
	for _, d := range w.differs(shown, got, "") {
		w.Errorf("%s\n%s\n%s", w.script, d, w.answer)
	}
}

// differs lists where an answer differs from the page. The page may leave out members, but not
// rows.
func (w *walk) differs(shown, got any, at string) []string {
	var out []string
	switch s := shown.(type) {
	case map[string]any:
		g, _ := got.(map[string]any)
		for name, value := range s {
			if _, there := g[name]; !there {
				out = append(out, fmt.Sprintf("%s/%s is not there", at, name))
				continue
			}
			out = append(out, w.differs(value, g[name], at+"/"+name)...)
		}
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(s) {
			return []string{fmt.Sprintf("%s has %d rows, shown are %d", at, len(g), len(s))}
		}
		for i := range s {
			out = append(out, w.differs(s[i], g[i], fmt.Sprintf("%s/%d", at, i))...)
		}
	case string:
		g, ok := got.(string)
		if !ok || !w.same(s, g) {
			return []string{fmt.Sprintf("%s is %v, shown is %s", at, got, s)}
		}
	default:
		if shown != got {
			return []string{fmt.Sprintf("%s is %v, shown is %v", at, got, shown)}
		}
	}
	return out
}

// same takes one id for another, once and for all, and any time for any.
func (w *walk) same(shown, got string) bool {
	if shown == ellipsis || anyTime.MatchString(shown) && anyTime.MatchString(got) {
		return true
	}
	if ownID.FindString(shown) == shown && ownID.FindString(got) == got && w.ids[shown] == "" {
		w.ids[shown] = got
	}
	return ownID.ReplaceAllStringFunc(shown, func(id string) string { return w.ids[id] }) == got
}
