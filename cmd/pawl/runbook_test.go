package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-work/pawl/engine"
)

// symptom is a row of the runbook in docs/operations.md.
type symptom struct{ what, page, metric, look, fix, script string }

const runbookDir = "testdata/runbook"

func read(t *testing.T, file string) string {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func runbook(t *testing.T) (rows []symptom) {
	t.Helper()
	_, text, found := strings.Cut(read(t, "../../docs/operations.md"), "\n### Runbook\n")
	if !found {
		t.Fatal("docs/operations.md has no runbook")
	}
	text, _, _ = strings.Cut(text, "\n##")
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if !strings.HasPrefix(line, "|") || len(cells) != 6 || strings.Contains(line, "symptom |") {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows = append(rows, symptom{cells[0], cells[1], cells[2], cells[3], cells[4], cells[5]})
	}
	return rows
}

var code = regexp.MustCompile("`([^`]+)`")

// quoted returns what is in back quotes.
func quoted(text string) (out []string) {
	for _, m := range code.FindAllStringSubmatch(text, -1) {
		out = append(out, m[1])
	}
	return out
}

// Each symptom of the runbook is produced by a script, which looks at it and mends it as its row
// says. `receiver STATUS` is what a relay sends to; `exhaust BUDGET ITEM WORKER ATTEMPT` is a worker that
// asks a spent budget for more, and suspends its item; `uncertain ITEM WORKER ATTEMPT` is one that does not know
// whether its effect happened, and suspends its item.
func TestRunbook(t *testing.T) {
	cmds := scriptCommands()
	cmds["receiver"], cmds["exhaust"], cmds["uncertain"] = receiver(), exhaust, uncertain
	runScripts(t, runbookDir, cmds)
}

// receiver returns the command that starts an HTTP server, or has it answer with another status.
func receiver() func(ts *testscript.TestScript, neg bool, args []string) {
	var status atomic.Int64
	return func(ts *testscript.TestScript, _ bool, args []string) {
		n, err := strconv.Atoi(args[0])
		ts.Check(err)
		if status.Swap(int64(n)) == 0 {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				w.WriteHeader(int(status.Load()))
			}))
			ts.Defer(server.Close)
			ts.Setenv("RECEIVER", server.URL+"/")
		}
	}
}

func exhaust(ts *testscript.TestScript, _ bool, args []string) {
	ctx := context.Background()
	e, err := engine.Open(ctx, "sqlite:"+ts.MkAbs("pawl.db"))
	ts.Check(err)
	defer e.Close()
	attempt, err := strconv.Atoi(args[3])
	ts.Check(err)
	f := pawl.Fence{ItemID: args[1], WorkerID: args[2], Attempt: attempt}
	ask := pawl.ReserveCall{ItemID: f.ItemID, WorkerID: f.WorkerID, Attempt: f.Attempt, Amount: 10, Key: "more"}
	_, err = e.ReserveBudget(ctx, args[0], ask)
	var spent *pawl.Error
	if !errors.As(err, &spent) || spent.Exhausted == nil {
		ts.Fatalf("it is not exhausted: %v", err)
	}
	rs, err := e.Suspend(ctx, []pawl.SuspendCall{{Fence: f, Signal: pawl.BudgetSignal, Key: spent.Exhausted.SignalKey}})
	ts.Check(cmp.Or(err, rs[0].Err))
}

func uncertain(ts *testscript.TestScript, _ bool, args []string) {
	ctx := context.Background()
	e, err := engine.Open(ctx, "sqlite:"+ts.MkAbs("pawl.db"))
	ts.Check(err)
	defer e.Close()
	attempt, err := strconv.Atoi(args[2])
	ts.Check(err)
	f := pawl.Fence{ItemID: args[0], WorkerID: args[1], Attempt: attempt}
	o, err := e.OpenEffect(ctx, pawl.OpenEffectCall{ItemID: f.ItemID, WorkerID: f.WorkerID, Attempt: f.Attempt, Name: "pay", RequestHash: "h"})
	ts.Check(err)
	rs, err := e.Suspend(ctx, []pawl.SuspendCall{{Fence: f, Signal: pawl.EffectSignal, Key: o.ID}})
	ts.Check(cmp.Or(err, rs[0].Err))
}

// Each row of the runbook names a page, metrics or alerts, commands and a script that exist. The
// script runs the commands, and each alert and each script is in a row.
func TestRunbookNamesWhatExists(t *testing.T) {
	rows := runbook(t)
	if len(rows) < 10 {
		t.Fatalf("the runbook has %d rows", len(rows))
	}
	rules, operations := read(t, "../../deploy/prometheus/rules.yml"), read(t, "../../docs/operations.md")
	a := &cli.App{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard}
	program := root(a)
	bin, err := exec.LookPath("pawl")
	if err != nil {
		t.Fatal(err)
	}
	server := serving(t, bin, []string{"--db", "sqlite:" + filepath.Join(t.TempDir(), "pawl.db")})
	var alerts, scripts []string
	for _, r := range rows {
		script := quoted(r.script)
		if len(script) != 1 {
			t.Fatalf("%s: the script %q", r.what, r.script)
		}
		scripts = append(scripts, script[0])
		text := read(t, filepath.Join(runbookDir, script[0]+".txtar"))
		for _, page := range quoted(r.page) {
			res, err := http.Get(server.url + page)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if res.StatusCode != http.StatusOK {
				t.Errorf("%s: the page %s answers %s", r.what, page, res.Status)
			}
		}
		metrics := quoted(r.metric)
		for _, m := range metrics {
			switch {
			case strings.HasPrefix(m, "pawl_"):
				name, _, _ := strings.Cut(m, "{")
				if !regexp.MustCompile("(?m)^\\| [^|]*`" + name + "`").MatchString(operations) {
					t.Errorf("%s: there is no metric %s", r.what, name)
				}
			case !strings.Contains(rules, "alert: "+m+"\n"):
				t.Errorf("%s: there is no alert %s", r.what, m)
			}
			alerts = append(alerts, m)
		}
		commands := append(quoted(r.look), quoted(r.fix)...)
		for _, c := range commands {
			checkCommand(t, program, c)
			words := verb.FindString(c)
			runs := regexp.MustCompile(`(?m)[ "]` + words + `(?: |"|$)`).MatchString(text)
			if !runs && (serves[words] == "" || !strings.Contains(text, "\n"+serves[words])) {
				t.Errorf("%s: the script does not run %s", r.what, words)
			}
		}
		if len(quoted(r.page)) == 0 || len(metrics) == 0 || len(quoted(r.look)) == 0 || len(quoted(r.fix)) == 0 {
			t.Errorf("%s: a cell is empty", r.what)
		}
	}
	for _, m := range regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(rules, -1) {
		if m[1] != "PawlDown" && !slices.Contains(alerts, m[1]) {
			t.Errorf("the runbook does not name the alert %s", m[1])
		}
	}
	for _, m := range regexp.MustCompile(`pawl [a-z]+[^;\n]*`).FindAllString(actionsOf(rules), -1) {
		checkCommand(t, program, strings.TrimSpace(m))
	}
	files, err := os.ReadDir(runbookDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !slices.Contains(scripts, strings.TrimSuffix(f.Name(), ".txtar")) {
			t.Errorf("no row names the script %s", f.Name())
		}
	}
}

// serves are the commands of scripts that start what a command of the program starts.
var serves = map[string]string{"pawl serve": "serve\n"}

func actionsOf(rules string) (out string) {
	for _, m := range regexp.MustCompile(`action: "(.*)"`).FindAllStringSubmatch(rules, -1) {
		out += m[1] + "\n"
	}
	return out
}

// verb is the noun and verb of a command line: what is before its arguments and flags.
var verb = regexp.MustCompile(`^pawl( [a-z]+)+`)

// checkCommand checks that the program has a command line, with its flags.
func checkCommand(t *testing.T, program *cobra.Command, line string) {
	t.Helper()
	line, _, _ = strings.Cut(line, " -- ")
	cmd, rest, err := program.Find(strings.Fields(line)[1:])
	if err != nil || cmd == program {
		t.Errorf("there is no command %s: %v", line, err)
		return
	}
	for _, word := range rest {
		if flag, found := strings.CutPrefix(word, "--"); found && cmd.Flags().Lookup(flag) == nil && cmd.InheritedFlags().Lookup(flag) == nil {
			t.Errorf("%s has no flag %s", line, word)
		}
	}
}
