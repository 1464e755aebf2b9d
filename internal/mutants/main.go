// Command mutants measures what the tests notice. A mutant is a patch in internal/mutants/patches
// that plants one fault in the product; it names the test that has to fail with it. For each the
// command builds that test with the fault in, runs it, and prints what came of it and the seconds
// that it took:
//
//	killed NAME      the test failed: it notices the fault
//	SURVIVED NAME    the test passed, or there is no such test
//	BROKEN NAME      the patch does not apply or compile, or the test fails without it too
//
// It exits 1 if a mutant was not killed. Without PAWL_TEST_POSTGRES it starts a PostgreSQL server
// and removes it again.
//
//	go run ./internal/mutants                  all mutants
//	go run ./internal/mutants -only fence,log  those with one of these names or beginnings of names
//	go run ./internal/mutants -base main~9     all, with the product and the tests of that revision
//
// The files of the repository are never changed: a fault is an overlay of the Go command.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/pawl-work/pawl/internal/testserver"
)

const patchDir = "internal/mutants/patches"

func main() {
	only := flag.String("only", "", "the `names` of mutants, or their beginnings, separated by commas")
	base := flag.String("base", "", "apply the patches to this `revision`, in a temporary worktree")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	survived, err := run(ctx, *only, *base)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(2)
	}
	if survived {
		os.Exit(1)
	}
}

// run tries the chosen mutants and reports whether one was not killed.
func run(ctx context.Context, only, base string) (survived bool, err error) {
	chosen, err := read(patchDir)
	if err == nil {
		chosen, err = choose(chosen, only)
	}
	if err != nil {
		return false, err
	}
	parent := testserver.MemoryDir()
	if parent == "" {
		parent = os.TempDir()
	}
	scratch, err := testserver.Scratch(parent)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	l := &laboratory{scratch: scratch, out: os.Stdout, binaries: map[string]string{}, unpatched: map[string]outcome{}}
	if l.root, err = os.Getwd(); err != nil {
		return false, err
	}
	if base != "" {
		repository := l.root
		l.root = filepath.Join(scratch, "base")
		if err := git(ctx, repository, "worktree", "add", "--quiet", "--detach", l.root, base); err != nil {
			return false, err
		}
		defer func() {
			err = errors.Join(err, git(context.WithoutCancel(ctx), repository, "worktree", "remove", "--force", l.root))
		}()
	}
	tests := filepath.Join(scratch, "tests") // the temporary files of the tests
	if err := os.Mkdir(tests, 0o700); err != nil {
		return false, err
	}
	if os.Getenv("GOTMPDIR") == "" {
		l.env = append(l.env, "GOTMPDIR="+os.TempDir())
	}
	l.env = append(l.env, "TMPDIR="+tests)
	if os.Getenv("PAWL_TEST_POSTGRES") == "" {
		server, err := testserver.Start(ctx, testserver.Options{})
		if err != nil {
			return false, fmt.Errorf("PostgreSQL: %w", err)
		}
		defer func() { err = errors.Join(err, server.Stop()) }()
		l.env = append(l.env, "PAWL_TEST_POSTGRES="+server.URL)
	}
	return l.tryAll(ctx, chosen)
}

// git runs a command of git in a directory.
func git(ctx context.Context, dir string, args ...string) error {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = dir
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("git %s: %w: %s", args[0], err, said)
	}
	return nil
}
