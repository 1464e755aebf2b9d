package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawl-work/pawl/internal/clock"
)

// Report turns the events of `go test -json` into a summary for people: one line per package,
// the whole output of each failed test, and at the end what was skipped and why, what failed, and what is unstable.
type Report struct {
	mu  sync.Mutex // several runs report at once
	out io.Writer
	ci  bool // print every result, and count a skip that is not allowed as a failure

	output                  map[testName][]string // output of tests that have not ended
	passed, failed, skipped int
	packages                int
	skips                   []skip
	failures, unstable      []failure
	broken                  bool // a package failed and none of its tests did
	couldNot                []skip
	raced                   int // of those that passed
	spent                   spent
}

type testName struct {
	pkg, test string
	race      bool // of the run with the race detector
}

type skip struct{ name, reason string }

// A failure is named once more at the end, with the last lines of what it said: the end is
// what remains of a long log.
type failure struct {
	testName
	in    goTest
	said  []string
	final bool // it is not run again
}

const failureLines = 20

// event is one line of `go test -json` (see `go doc test2json`).
type event struct {
	Action, Package, ImportPath, Test, Output string
	Elapsed                                   float64 // seconds
}

// NewReport returns a report that writes to out.
func NewReport(out io.Writer, ci bool) *Report {
	return &Report{out: out, ci: ci, output: map[testName][]string{}}
}

// CouldNot notes what this machine lacks; with ci it is a failure.
func (r *Report) CouldNot(what, why string) { r.couldNot = append(r.couldNot, skip{what, why}) }

// Read reads all events of a run. Lines that are not events are printed unchanged.
func (r *Report) Read(in io.Reader, of goTest) error {
	began := clock.Now()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.spent.runs = append(r.spent.runs, span{name: of.String(), took: clock.Now().Sub(began)})
	}()
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			r.line(line, of)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// Used notes how much time of the processors a run took that has been read. Other than what elapsed, it hardly grows on a
// busy machine.
func (r *Report) Used(of goTest, used time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.spent.runs {
		if run := &r.spent.runs[i]; run.name == of.String() {
			run.used += used
		}
	}
}

func (r *Report) line(line string, of goTest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var e event
	if json.Unmarshal([]byte(line), &e) == nil && e.Action != "" {
		r.take(e, of)
	} else {
		fmt.Fprint(r.out, line)
	}
}

func (r *Report) take(e event, of goTest) {
	name := testName{e.Package, e.Test, of.race}
	switch e.Action {
	case "build-output":
		fmt.Fprint(r.out, e.Output)
	case "output":
		if e.Test != "" {
			r.output[name] = append(r.output[name], e.Output)
		} else if isRelevant(e.Output) {
			fmt.Fprint(r.out, e.Output)
		}
	case "pass", "fail", "skip":
		if e.Test == "" {
			r.endPackage(e, of)
			return
		}
		r.endTest(name, e.Action, of)
		r.spent.test(name, e.Elapsed, of)
	}
}

// isRelevant leaves out a package's output besides its one line.
func isRelevant(line string) bool {
	return line != "PASS\n" && line != "FAIL\n" && !strings.Contains(line, "[no test files]")
}

func (r *Report) endTest(name testName, action string, of goTest) {
	said := r.output[name]
	delete(r.output, name)
	switch action {
	case "pass":
		r.passed++
		if of.race {
			r.raced++
		}
	case "fail":
		r.fail(failure{name, of, said, final.MatchString(strings.Join(said, ""))})
	case "skip":
		r.skipped++
		if s := (skip{name.pkg + "." + name.test, reasonOf(said)}); !slices.Contains(r.skips, s) {
			r.skips = append(r.skips, s)
		}
	}
	for _, line := range said {
		isResult := strings.HasPrefix(strings.TrimLeft(line, " "), "--- ")
		if (isResult && r.ci) || (action == "fail" && !strings.HasPrefix(line, "=== ")) {
			fmt.Fprint(r.out, line)
		}
	}
}

func (r *Report) fail(f failure) {
	r.failed++
	f.said = f.said[max(0, len(f.said)-failureLines):]
	r.failures = append(r.failures, f)
}

// endPackage prints the output of tests that never ended, after a panic or a time-out.
func (r *Report) endPackage(e event, of goTest) {
	if e.Action != "skip" {
		r.spent.pkg(e.Package, e.Elapsed, of)
		if !of.race {
			r.packages++
		}
	}
	for name, said := range r.output {
		if name.pkg != e.Package || name.race != of.race {
			continue
		}
		delete(r.output, name)
		if e.Action == "fail" {
			r.fail(failure{name, of, said, true})
			fmt.Fprintf(r.out, "--- FAIL: %s (did not end)\n%s", name.test, strings.Join(said, ""))
		}
	}
	if e.Action == "fail" && !slices.ContainsFunc(r.failures, func(f failure) bool { return f.pkg == e.Package }) {
		r.broken = true
	}
}

var place = regexp.MustCompile(`^\s*\S+\.go:\d+: `)

// reasonOf returns the output of a skipped test: its reason.
func reasonOf(said []string) string {
	var reason []string
	for _, line := range said {
		if !strings.HasPrefix(line, "=== ") && !strings.HasPrefix(strings.TrimLeft(line, " "), "--- ") {
			reason = append(reason, strings.TrimSpace(place.ReplaceAllString(line, "")))
		}
	}
	return strings.Join(reason, " ")
}

// Spent prints where the time went.
func (r *Report) Spent() { r.spent.print(r.out) }

// Close prints the summary of a run and reports whether everything is well. ok says whether go
// test succeeded. A skip that is not allowed makes the run fail.
func (r *Report) Close(ok bool) bool {
	for _, s := range r.couldNot {
		ok = ok && !r.ci
		fmt.Fprintf(r.out, "could not run: %s: %s\n", s.name, s.reason)
	}
	for _, s := range r.skips {
		mark := "skipped"
		if s.reason == "" || (r.ci && unexcused(s.reason)) {
			mark, ok = "SKIPPED WITHOUT AN EXCUSE", false
		}
		if s.reason == "" {
			s.reason = "no reason given"
		}
		fmt.Fprintf(r.out, "%s: %s: %s\n", mark, s.name, s.reason)
	}
	for _, f := range r.failures {
		fmt.Fprintf(r.out, "failed: %s.%s\n%s", f.pkg, f.test, strings.Join(f.said, ""))
	}
	for _, f := range r.unstable {
		fmt.Fprintf(r.out, "unstable: %s.%s failed, and passed %d times when it ran alone\n%s", f.pkg, f.test, againTimes,
			strings.Join(f.said, ""))
	}
	ok = ok && r.failed == 0 && r.passed > 0
	word := "ok"
	if !ok {
		word = "FAIL"
	}
	raced := ""
	if r.raced > 0 {
		raced = fmt.Sprintf(" (%d of them again, with the race detector)", r.raced)
	}
	fmt.Fprintf(r.out, "%s\t%d tests passed%s, %d failed, %d skipped, in %d packages\n",
		word, r.passed, raced, r.failed, r.skipped, r.packages)
	return ok
}
