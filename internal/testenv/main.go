// Command testenv runs `go test` with the servers that the tests need. It sets
// PAWL_TEST_POSTGRES, PAWL_TEST_POOLER, PAWL_TEST_RABBITMQ and PAWL_TEST_NATS; for each that is not set
// it starts a temporary server. Its arguments are those of `go test`, and its own:
//
//	-raced    run the tests of the list in raced.go once more, with the race detector
//	-once     repeat no failed test
//	-install  alone: only install, as root on Debian, what is missing
//
// With ./... among the arguments, the modules under contrib and examples are tested too,
// PAWL_TEST_PROGRAM names a pawl that was built once for all tests, and PAWL_TEST_PRISM the
// validating proxy.
//
// At the end it lists where the time went, and every skipped test with its reason. With CI=true, a
// skip that is not on the list in skips.go is a failure, and every result is printed. What failed in
// a run of all packages is run again, see Again. It leaves nothing behind: when it ends, also when
// it is interrupted, it has removed the servers, their files, the tests' and Go's temporary files, and everything that the tests
// started. When it is killed, what it started ends too (on Linux), and the next run removes the files. Where there is too
// little room it says so and runs nothing; PAWL_TEST_SPACE=0 lets it run.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/pawl-work/pawl/internal/testserver"
)

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go cancelWhenOrphaned(ctx, cancel)

	ci := os.Getenv("CI") == "true"
	report := NewReport(os.Stdout, ci)
	args, withRaced := cutFlag(args, "-raced")
	args, once := cutFlag(args, "-once")
	places, onlyInstalls := placesOf(), slices.Equal(args, []string{"-install"})
	all := onlyInstalls || slices.Contains(args, allPackages)
	if why := places.tooFull(all, testserver.RoomOf, func() float64 { return stalePart(ctx) }); why != "" {
		note("%s; PAWL_TEST_SPACE=0 runs them all the same", why)
		return 1
	}
	if err := install(ctx, missing()); err != nil {
		note("%v", err)
	}
	if onlyInstalls {
		return 0 // what is missing, the run of the tests tells
	}
	if !hasCompiler() {
		args, _ = cutFlag(args, "-race")
		withRaced = false
		report.CouldNot("race detector", "no C compiler (package gcc)")
	}
	withPrism := addPrism(ctx, args, report)
	own, env, leave, err := places.make(os.Environ())
	defer leave()
	if err != nil {
		note("%v", err)
		return 1
	}
	env, stopBrokers := startBrokers(ctx, env, report)
	defer stopBrokers()
	env, stopPostgres := startPostgres(ctx, env, report)
	defer stopPostgres()
	env = withProgram(ctx, args, env, own.builds)
	env = withPrism(env)
	code := inStreams(runsOf(args, withRaced), func(t goTest) int { return t.run(ctx, env, report) })
	if code == 1 && !once && again(ctx, args, env, report) {
		code = 0
	}
	report.Spent()
	if !report.Close(code == 0) && code == 0 {
		code = 1
	}
	return code
}

// cutFlag returns the arguments without a flag, and whether it was there.
func cutFlag(args []string, flag string) (rest []string, found bool) {
	return slices.DeleteFunc(slices.Clone(args), func(a string) bool { return a == flag }), slices.Contains(args, flag)
}

const allPackages = "./..."

// goTest is one run of go test.
type goTest struct {
	args []string
	dir  string // of the module, "" = the root's
	race bool   // the second run of tests that have run without the detector
}

func (t goTest) String() string {
	words := []string{"go test"}
	if t.dir != "" {
		words = []string{"cd " + t.dir + " && go test"}
	}
	for _, a := range t.args {
		if len(a) > 60 {
			a = a[:60] + "…"
		}
		words = append(words, a)
	}
	return strings.Join(words, " ")
}

// inStreams makes the first run, and the others one after the other beside it: tests wait for each other and for
// servers, so that one run alone leaves processors idle. It returns the largest code.
func inStreams(runs []goTest, run func(goTest) int) int {
	beside := make(chan int)
	go func() {
		code := 0
		for _, t := range runs[1:] {
			code = max(code, run(t))
		}
		beside <- code
	}()
	code := run(runs[0])
	return max(code, <-beside)
}

// runsOf lists the runs: those of the root's module, and, when all packages are tested, of each other module. The bench
// is not among them, because it measures.
func runsOf(args []string, withRaced bool) []goTest {
	runs := []goTest{{args: withLongestFirst(args)}}
	if slices.Contains(args, allPackages) {
		for _, room := range []string{"contrib", "examples"} {
			found, _ := filepath.Glob(room + "/*/go.mod") // the pattern is valid
			for _, mod := range found {
				runs = append(runs, goTest{args: args, dir: filepath.Dir(mod)})
			}
		}
	}
	if withRaced {
		runs = append(runs, racedRuns(args)...)
	}
	return runs
}

// longest are the packages whose tests take longest. One that began last would run alone in the end.
var longest = []string{"./engine", "./pawltest", "./client", "./server", "./cmd/pawl", "./sweep", "./internal/matrix", "./internal/mutants"}

// withLongestFirst names the longest packages before all packages, so that the others run beside them.
func withLongestFirst(args []string) []string {
	i := slices.Index(args, allPackages)
	if i < 0 {
		return args
	}
	return slices.Insert(slices.Clone(args), i, longest...)
}

// withProgram builds pawl once for the tests that run it, if all packages are tested. Otherwise, or if it cannot be built,
// each builds its own.
func withProgram(ctx context.Context, args, env []string, dir string) (with []string) {
	if !slices.Contains(args, allPackages) {
		return env
	}
	program := filepath.Join(dir, "pawl")
	build := exec.CommandContext(ctx, "go", "build", "-ldflags=-s -w", "-o", program, "./cmd/pawl")
	build.Env = env
	if out, err := build.CombinedOutput(); err != nil {
		note("go build ./cmd/pawl: %v\n%s", err, out)
		return env
	}
	return append(env, "PAWL_TEST_PROGRAM="+program)
}

// run runs go test in a process group of its own and passes its events to the report. When
// ctx or the run ends, it kills the whole group.
func (t goTest) run(ctx context.Context, env []string, report *Report) int {
	if ctx.Err() != nil {
		return 130
	}
	cmd := exec.Command("go", append([]string{"test", "-json"}, t.args...)...)
	cmd.Dir, cmd.Stderr, cmd.Env = t.dir, os.Stderr, env
	if t.race {
		cmd.Env = append(slices.Clone(env), "CGO_ENABLED=1", prismVariable+"=") // the detector is a library in C
		if os.Getenv("PAWL_WALK") == "" {
			cmd.Env = append(cmd.Env, "PAWL_WALK=8s") // the run without the detector takes its whole time
		}
	}
	var signal func(syscall.Signal)
	out, err := cmd.StdoutPipe()
	if err == nil {
		signal, err = startInGroup(cmd)
	}
	if err != nil {
		note("go test: %v", err)
		return 1
	}
	ended := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-ended:
		case <-ctx.Done():
			signal(syscall.SIGTERM)
			select {
			case <-ended:
			case <-time.After(10 * time.Second):
			}
		}
		signal(syscall.SIGKILL)
	}()
	readErr := report.Read(out, t)
	err = cmd.Wait()
	report.Used(t, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
	close(ended)
	<-watched
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		note("interrupted")
		return 130
	case errors.As(err, &exit):
		return max(1, exit.ExitCode())
	case err != nil || readErr != nil:
		note("go test: %v", errors.Join(err, readErr))
		return 1
	}
	return 0
}

// cancelWhenOrphaned cancels the run when the program that started it has ended without a
// signal: `go run` does not forward SIGTERM.
func cancelWhenOrphaned(ctx context.Context, cancel func()) {
	parent := os.Getppid()
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
			if os.Getppid() != parent {
				cancel()
				return
			}
		}
	}
}

func note(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "testenv: "+format+"\n", args...)
}
