// Command sdk runs the test suites of the SDKs and of the frameworks they are used with, against
// real servers on SQLite and PostgreSQL. At the end it prints one line for each suite:
//
//	sdk NAME PASSED/TOTAL
//
// It exits 1 if a suite passes fewer tests than sdk/baseline.json says, or if one of Pawl's own
// tests fails. A suite that fails so runs once more, and is called unstable if it passes then.
// Without PAWL_TEST_POSTGRES it starts a PostgreSQL server and removes it again.
//
//	go run ./internal/sdk                  all suites
//	go run ./internal/sdk python ai-sdk    these suites
//	go run ./internal/sdk -update          the baselines that grew are written
//	go run ./internal/sdk -short           the short forms of those that have one, on SQLite alone
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/pawl-work/pawl/internal/testserver"
)

const baselineFile = "sdk/baseline.json"

func main() {
	update := flag.Bool("update", false, "write the baselines of suites that pass more tests than before")
	short := flag.Bool("short", false, "run the short forms, on SQLite alone")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	var code int
	if *short {
		code = runShort(ctx, suites)
	} else {
		code = run(ctx, flag.Args(), *update)
	}
	stop()
	os.Exit(code)
}

// run runs the suites of these names, or all, and returns the exit code.
func run(ctx context.Context, names []string, update bool) int {
	chosen, err := choose(names)
	if err != nil {
		fmt.Fprintln(os.Stderr, "sdk:", err)
		return 2
	}
	baseline, err := readBaseline()
	if err != nil {
		fmt.Fprintln(os.Stderr, "sdk:", err)
		return 2
	}
	env, leave, err := withPostgres(ctx, os.Environ())
	defer leave()
	if err != nil {
		fmt.Fprintln(os.Stderr, "sdk:", err)
		return 1
	}
	var outcomes []outcome
	for _, s := range chosen {
		fmt.Printf("\n== %s: %s\n", s.name, strings.Join(s.command, " "))
		outcomes = append(outcomes, s.runTwice(ctx, env, baseline[s.name]))
		if ctx.Err() != nil {
			return 130
		}
	}
	fmt.Println()
	code := 0
	for _, o := range outcomes {
		wrong := o.wrong(baseline[o.suite.name])
		for _, w := range wrong {
			fmt.Fprintf(os.Stderr, "sdk: %s: %s\n", o.suite.name, w)
			code = 1
		}
		if len(o.first) > 0 && len(wrong) == 0 {
			fmt.Printf("sdk: %s is unstable: its first run failed: %s\n", o.suite.name, strings.Join(o.first, "; "))
		}
	}
	if err := grow(baseline, outcomes, update && code == 0); err != nil {
		fmt.Fprintln(os.Stderr, "sdk:", err)
		code = 1
	}
	for _, o := range outcomes {
		fmt.Printf("sdk %s %d/%d\n", o.suite.name, o.passed, o.total)
	}
	return code
}

// runShort runs the short forms of suites without PostgreSQL. Every test has to pass, and at least one has to be there.
func runShort(ctx context.Context, suites []suite) (code int) {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "PAWL_TEST_POSTGRES=") })
	for _, s := range suites {
		if s.short == nil {
			continue
		}
		fmt.Printf("\n== %s: %s\n", s.name, strings.Join(s.short, " "))
		s.command = s.short
		o := s.run(ctx, env)
		if o.err != nil || !o.counted || o.passed == 0 {
			fmt.Fprintf(os.Stderr, "sdk: %s: %d tests passed: %v\n", s.name, o.passed, o.err)
			code = 1
		}
		fmt.Printf("sdk %s (short) %d/%d\n", s.name, o.passed, o.total)
	}
	return code
}

// choose returns the suites of these names; all without a name.
func choose(names []string) ([]suite, error) {
	if len(names) == 0 {
		return suites, nil
	}
	var out []suite
	for _, name := range names {
		i := slices.IndexFunc(suites, func(s suite) bool { return s.name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no suite %q", name)
		}
		out = append(out, suites[i])
	}
	return out, nil
}

// outcome is what a run of a suite came to.
type outcome struct {
	suite         suite
	passed, total int
	err           error    // of its command
	counted       bool     // its output had the counts
	first         []string // what was wrong with a run before this one
}

// runTwice runs a suite, and once more if something is wrong with the first run.
func (s suite) runTwice(ctx context.Context, env []string, baseline int) outcome {
	o := s.run(ctx, env)
	wrong := o.wrong(baseline)
	if len(wrong) == 0 || ctx.Err() != nil {
		return o
	}
	fmt.Printf("\n== %s: %s; it runs once more\n", s.name, strings.Join(wrong, "; "))
	o = s.run(ctx, env)
	o.first = wrong
	return o
}

// run runs the suite's command and passes its output on.
func (s suite) run(ctx context.Context, env []string) outcome {
	ctx, cancel := context.WithTimeout(ctx, s.limit())
	defer cancel()
	cmd := exec.CommandContext(ctx, s.command[0], s.command[1:]...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.Env = io.MultiWriter(os.Stdout, &out), os.Stderr, env
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	o := outcome{suite: s, err: cmd.Run()}
	o.passed, o.total, o.counted = s.counts(escapes.ReplaceAllString(out.String(), ""))
	return o
}

// wrong lists what keeps the run from being good.
func (o outcome) wrong(baseline int) (out []string) {
	if !o.counted {
		out = append(out, "its output does not say how many tests passed")
	}
	if o.passed < baseline {
		out = append(out, fmt.Sprintf("%d tests passed, fewer than the baseline %d of %s", o.passed, baseline, baselineFile))
	}
	if o.err != nil && !o.suite.foreign {
		out = append(out, fmt.Sprintf("its command failed: %v", o.err))
	}
	return out
}

func readBaseline() (map[string]int, error) {
	data, err := os.ReadFile(baselineFile)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w: run this in the root of the repository", err)
	}
	if err != nil {
		return nil, err
	}
	out := map[string]int{}
	if err := json.Unmarshal(data, &out); err != nil {
		return nil, fmt.Errorf("%s: %w", baselineFile, err)
	}
	return out, nil
}

// grow writes the baselines of suites that pass more tests than before, or says that it could. A
// baseline is never lowered.
func grow(baseline map[string]int, outcomes []outcome, write bool) error {
	grown := maps.Clone(baseline)
	for _, o := range outcomes {
		grown[o.suite.name] = max(grown[o.suite.name], o.passed)
	}
	if maps.Equal(grown, baseline) {
		return nil
	}
	if !write {
		fmt.Printf("a suite passes more tests than %s says: `go run ./internal/sdk -update` writes it\n", baselineFile)
		return nil
	}
	data, err := json.MarshalIndent(grown, "", "  ") // keys are sorted
	if err != nil {
		return err
	}
	return os.WriteFile(baselineFile, append(data, '\n'), 0o644)
}

// withPostgres adds PAWL_TEST_POSTGRES to env if it is not set: the URL of a server of its own.
func withPostgres(ctx context.Context, env []string) (with []string, leave func(), err error) {
	if os.Getenv("PAWL_TEST_POSTGRES") != "" {
		return env, func() {}, nil
	}
	if _, err := testserver.Find(); err != nil {
		installPostgres(ctx)
	}
	server, err := testserver.Start(ctx, testserver.Options{})
	if err != nil {
		return env, func() {}, fmt.Errorf("no PostgreSQL: %w; install it, or name a server in PAWL_TEST_POSTGRES", err)
	}
	leave = func() {
		if err := server.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "sdk:", err)
		}
	}
	return append(env, "PAWL_TEST_POSTGRES="+server.URL), leave, nil
}

// installPostgres installs Debian's package, as root. What it cannot do, the start of the server tells.
func installPostgres(ctx context.Context) {
	apt, err := exec.LookPath("apt-get")
	if err != nil || os.Geteuid() != 0 {
		return
	}
	for _, args := range [][]string{{"-qq", "update"}, {"-qq", "install", "-y", "--no-install-recommends", "postgresql"}} {
		cmd := exec.CommandContext(ctx, apt, args...)
		cmd.Env, cmd.Stderr = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive"), os.Stderr
		_ = cmd.Run()
	}
}
