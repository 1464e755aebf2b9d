package main

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/internal/testserver"
)

// shortest returns a bench of seconds on a server of its own, and what it prints.
func shortest(t *testing.T) (*bench, *strings.Builder) {
	t.Helper()
	if _, err := testserver.Find(); err != nil {
		t.Skip(err)
	}
	s, err := testserver.Start(t.Context(), testserver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv("PAWL_IDENTITY", engine.IdentityTrust) // as main does
	var out strings.Builder
	b := &bench{short: true, rounds: 1, scale: 0.2, server: s, report: report{out: &out}}
	if b.admin, err = newAdmin(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.admin.close(context.Background()) })
	return b, &out
}

// printed fails unless the lines begin with these names, in this order. A name that is not measured has its reason.
func printed(t *testing.T, out string, names ...string) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != len(names) {
		t.Fatalf("printed\n%s\nof %q", out, names)
	}
	for i, l := range lines {
		verdict, rest, _ := strings.Cut(l, "  ")
		if !strings.HasPrefix(strings.TrimSpace(rest), names[i]) {
			t.Errorf("line %q is not about %s", l, names[i])
		}
		_, why, unmeasured := strings.Cut(l, "not measured: ")
		if unmeasured != (verdict == "SKIP") || unmeasured && why == "" || strings.Contains(l, "  nothing") {
			t.Errorf("line %q", l)
		}
	}
}

// Every peer has lives that are measured, or the reason why not.
func TestPeersAreMeasuredOrNamed(t *testing.T) {
	b, out := shortest(t)
	if err := b.othersLives(t.Context()); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range peers {
		names = append(names, "whole life with the log, of "+p.name, "CPU of a whole life with the log, of "+p.name)
	}
	printed(t, out.String(), names...)
	if strings.Contains(out.String(), "SKIP   whole life with the log, of DBOS") {
		t.Error("DBOS is in this program")
	}
}

// A load is kept while a snapshot is held, and drawn.
func TestScheduleAndSteadyState(t *testing.T) {
	b, out := shortest(t)
	if err := b.schedule(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.steady(t.Context()); err != nil {
		t.Fatal(err)
	}
	printed(t, out.String(), "schedule, lives kept", "schedule, claim p99 with a snapshot held", "schedule, claim p99 of recovery",
		"schedule, dead rows", "steady state, lives kept", "steady state, claim p99", "steady state, bytes", "steady state, dead rows")
	for _, name := range []string{"schedule", "steady"} {
		drawn, err := os.ReadFile(os.TempDir() + "/pawl-bench-" + name + ".svg")
		if err != nil || strings.Count(string(drawn), "<polyline") != 5 || strings.Contains(string(drawn), "NaN") {
			t.Errorf("%s: %v, drawn\n%s", name, err, drawn)
		}
	}
}

// The parts of a load have the samples that end in them.
func TestSamplesOfAPart(t *testing.T) {
	l := &load{interval: time.Second}
	for i := range 4 {
		at := time.Duration(i+1)*time.Second + 10*time.Millisecond
		l.samples = append(l.samples, sample{at: at, dead: float64(i), took: series{float64(i)}})
	}
	part := l.between(time.Second, 3*time.Second)
	if len(part) != 2 || mean(part, sample.rows) != 1.5 || claimP99(part) != 2 {
		t.Errorf("%d samples, mean %v, p99 %v", len(part), mean(part, sample.rows), claimP99(part))
	}
}

// Sections that take half an hour run only if they are named.
func TestLongSectionsAreNamed(t *testing.T) {
	for _, s := range sections {
		long := s.name == "schedule" || s.name == "steady"
		if (&bench{}).runs(s, "") == long || !(&bench{}).runs(s, s.name) || long && !(&bench{short: true}).runs(s, "") {
			t.Errorf("%s", s.name)
		}
	}
	if sections[0].name != "sustained" {
		t.Errorf("the first section is %s", sections[0].name)
	}
}
