package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/pawl-work/pawl/internal/clock"
)

// limit bounds the run of one test. A fault may make it wait for ever, which kills the mutant.
const limit = "4m"

// patchedVariable names the directory of the changed files, by their paths in the repository: of those that Go does not
// compile, a test that passes them to another program takes these.
const patchedVariable = "PAWL_TEST_PATCHED"

// outcome is what a test said.
type outcome int

const (
	failed outcome = iota
	passed
	absent // no test of this name ran, or it was skipped
	timedOut
)

// choice is a part of a value of -run that names several subtests.
var choice = regexp.MustCompile(`\([^)]*\)`)

// laboratory tries mutants.
type laboratory struct {
	root    string // the files that the patches are for
	scratch string
	env     []string // beside the environment of this process
	out     io.Writer

	binaries  map[string]string  // of tests without a fault, by package and flags
	unpatched map[string]outcome // of tests without a fault
}

// tryAll tries mutants one after the other and reports whether one was not killed.
func (l *laboratory) tryAll(ctx context.Context, mutants []*mutant) (survived bool, err error) {
	counts := map[string]int{}
	for _, m := range mutants {
		start := clock.Now()
		verdict, why := l.try(ctx, m)
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		if why != "" {
			why = ": " + why
		}
		counts[verdict]++
		fmt.Fprintf(l.out, "%-8s %s (%.0f s)%s\n", verdict, m.name, clock.Now().Sub(start).Seconds(), why)
	}
	fmt.Fprintf(l.out, "%d mutants: %d killed, %d survived, %d broken\n", len(mutants), counts["killed"], counts["SURVIVED"], counts["BROKEN"])
	return counts["killed"] < len(mutants), nil
}

// try says what becomes of a mutant, and why if that is not plain.
func (l *laboratory) try(ctx context.Context, m *mutant) (verdict, why string) {
	was, err := l.without(ctx, m)
	switch {
	case err != nil:
		return "BROKEN", "without the patch: " + err.Error()
	case was == absent:
		return "SURVIVED", "no such test runs"
	case was != passed:
		return "BROKEN", "the test fails without the patch too"
	}
	dir := filepath.Join(l.scratch, "patched")
	defer func() { _ = os.RemoveAll(dir) }()
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "BROKEN", err.Error()
	}
	replace, err := m.apply(ctx, l.root, dir)
	if err == nil {
		err = overlay(replace, filepath.Join(dir, "overlay.json"))
	}
	if err != nil {
		return "BROKEN", err.Error()
	}
	env := append(l.env, "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" -overlay="+filepath.Join(dir, "overlay.json")))
	binary := filepath.Join(dir, "test")
	if err := l.build(ctx, m, env, binary); err != nil {
		return "BROKEN", err.Error()
	}
	switch l.test(ctx, m, append(env, patchedVariable+"="+dir), binary) {
	case failed:
		return "killed", ""
	case timedOut:
		return "killed", "by the test's time-out"
	}
	return "SURVIVED", m.fault
}

// without runs the test of a mutant without its patch, once for all mutants that name it.
func (l *laboratory) without(ctx context.Context, m *mutant) (outcome, error) {
	of := m.pkg + " " + strings.Join(m.flags, " ")
	key := of + " " + m.run
	if was, is := l.unpatched[key]; is {
		return was, nil
	}
	if l.binaries[of] == "" {
		binary := filepath.Join(l.scratch, fmt.Sprintf("test-%d", len(l.binaries)))
		if err := l.build(ctx, m, l.env, binary); err != nil {
			return failed, err
		}
		l.binaries[of] = binary
	}
	l.unpatched[key] = l.test(ctx, m, l.env, l.binaries[of])
	return l.unpatched[key], nil
}

// build links the test binary of a mutant's package.
func (l *laboratory) build(ctx context.Context, m *mutant, env []string, to string) error {
	args := append([]string{"test", "-c", "-vet=off", "-ldflags=-s -w", "-o", to}, m.flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, m.pkg)...)
	cmd.Dir, cmd.Env = l.root, append(os.Environ(), env...)
	said, err := cmd.CombinedOutput()
	if err == nil {
		if _, missing := os.Stat(to); missing != nil {
			err = errors.New("the package has no tests")
		}
	}
	if err != nil {
		return fmt.Errorf("%w: %s", err, said)
	}
	return nil
}

// test runs the test of a mutant in its package's directory, as go test does.
func (l *laboratory) test(ctx context.Context, m *mutant, env []string, binary string) outcome {
	cmd := exec.CommandContext(ctx, binary, "-test.v", "-test.failfast", "-test.timeout="+limit, "-test.run="+m.run)
	cmd.Dir, cmd.Env = filepath.Join(l.root, m.pkg), append(os.Environ(), env...)
	cmd.WaitDelay = 10 * time.Second // a process that a killed test left may hold its output
	said, err := cmd.CombinedOutput()
	switch {
	case strings.Contains(string(said), "panic: test timed out"):
		return timedOut
	case err != nil:
		return failed
	}
	// A test that has none of the named subtests passes, too.
	for one := range strings.SplitSeq(choice.ReplaceAllString(m.run, "x"), "|") {
		deep := regexp.MustCompile(`(?m)^ *--- PASS: \S+` + strings.Repeat(`/.+`, strings.Count(one, "/")) + ` \(`)
		if deep.Match(said) {
			return passed
		}
	}
	return absent
}
