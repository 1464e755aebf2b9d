// Command testenv runs `go test` with the servers that the tests need. It sets
// PAWL_TEST_POSTGRES, PAWL_TEST_RABBITMQ and PAWL_TEST_NATS; for each that is not set
// it starts a temporary server. Its arguments are those of `go test`; with ./... among
// them, the modules under contrib are tested too.
//
// At the end it lists every skipped test with its reason. With CI=true, a skip that is not on
// the list in skips.go is a failure, and every result is printed. What failed in a run of all
// packages is run again, see Again. It leaves nothing behind:
// when it ends, also when it is interrupted, it has removed the servers, their files and
// everything that the tests started.
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
	if err := install(ctx, missing()); err != nil {
		note("%v", err)
	}
	if !hasCompiler() {
		args = slices.DeleteFunc(slices.Clone(args), func(a string) bool { return a == "-race" })
		report.CouldNot("race detector", "no C compiler (package gcc)")
	}
	env, leave := inMemory(os.Environ())
	defer leave()
	env, stopBrokers := startBrokers(ctx, env, report)
	defer stopBrokers()
	if os.Getenv("PAWL_TEST_POSTGRES") == "" {
		server, err := testserver.Start(ctx, testserver.Options{})
		if err != nil {
			report.CouldNot("PostgreSQL", err.Error())
		} else {
			defer func() {
				if err := server.Stop(); err != nil {
					note("%v", err)
				}
			}()
			note("PostgreSQL %s in %s", server.Version, server.Dir)
			env = append(env, "PAWL_TEST_POSTGRES="+server.URL)
		}
	}
	code := test(ctx, args, "", env, report)
	for _, dir := range otherModules(args) {
		code = max(code, test(ctx, args, dir, env, report))
	}
	if code == 1 && again(ctx, args, env, report) {
		code = 0
	}
	if !report.Close(code == 0) && code == 0 {
		code = 1
	}
	return code
}

// inMemory keeps the tests' temporary files in memory if that is possible: each commit of
// SQLite waits for its disk, and thousands of tests would wait for one disk. Go's build files
// stay where they were.
func inMemory(env []string) (with []string, leave func()) {
	parent := testserver.MemoryDir()
	if parent == "" {
		return env, func() {}
	}
	dir, err := testserver.Scratch(parent)
	if err != nil {
		note("%v", err)
		return env, func() {}
	}
	if os.Getenv("GOTMPDIR") == "" {
		env = append(env, "GOTMPDIR="+os.TempDir())
	}
	return append(env, "TMPDIR="+dir), func() {
		if err := os.RemoveAll(dir); err != nil {
			note("%v", err)
		}
	}
}

// otherModules lists the modules other than the root's that are tested when all packages are. The
// bench is not among them, because it measures.
func otherModules(args []string) (dirs []string) {
	if !slices.Contains(args, "./...") {
		return nil
	}
	for _, room := range []string{"contrib", "examples"} {
		found, _ := filepath.Glob(room + "/*/go.mod") // the pattern is valid
		for _, mod := range found {
			dirs = append(dirs, filepath.Dir(mod))
		}
	}
	return dirs
}

// test runs go test in a process group of its own and passes its events to the report. When
// ctx or the run ends, it kills the whole group.
func test(ctx context.Context, args []string, dir string, env []string, report *Report) int {
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Dir, cmd.Env, cmd.Stderr = dir, env, os.Stderr
	ownGroup(cmd)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
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
			signalGroup(cmd, syscall.SIGTERM)
			select {
			case <-ended:
			case <-time.After(10 * time.Second):
			}
		}
		signalGroup(cmd, syscall.SIGKILL)
	}()
	readErr := report.Read(out, dir)
	err = cmd.Wait()
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
