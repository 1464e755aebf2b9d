package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pawl-work/pawl/internal/testserver"
)

// missing lists the Debian packages without which a part of the tests cannot run.
func missing() []string {
	var packages []string
	if os.Getenv("PAWL_TEST_POSTGRES") == "" {
		if _, err := testserver.Find(); err != nil {
			packages = append(packages, "postgresql")
		}
	}
	if _, err := testserver.FindPgBouncer(); err != nil {
		packages = append(packages, "pgbouncer")
	}
	for _, b := range brokers {
		if _, err := b.find(); err != nil && os.Getenv(b.variable) == "" {
			packages = append(packages, b.debian)
		}
	}
	for _, program := range []string{"prometheus", "promtool"} { // one may be there without the other
		if _, err := exec.LookPath(program); err != nil && !slices.Contains(packages, "prometheus") {
			packages = append(packages, "prometheus")
		}
	}
	if !hasCompiler() {
		packages = append(packages, "gcc", "libc6-dev")
	}
	if _, err := exec.LookPath("npm"); err != nil {
		packages = append(packages, "nodejs", "npm", "ca-certificates")
	}
	return packages
}

// hasCompiler reports whether the race detector can be linked.
func hasCompiler() bool {
	out, err := exec.Command("go", "env", "CC").Output()
	if err != nil {
		return false
	}
	cc, _, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	_, err = exec.LookPath(cc)
	return err == nil
}

// noServerFiles are files that keep Debian's packages from creating and starting servers of their
// own. Each exists only while packages are installed, unless the machine already has it.
var noServerFiles = []struct {
	path, text string
	mode       os.FileMode
}{
	{"/etc/postgresql-common/createcluster.d/pawl-testenv.conf", "create_main_cluster = false\n", 0o644},
	{"/usr/sbin/policy-rc.d", "#!/bin/sh\nexit 101 # no service is started\n", 0o755},
}

// disableServers creates the files and returns a function that removes them.
func disableServers() (undo func(), err error) {
	var ours []string
	undo = func() {
		for _, path := range ours {
			_ = os.Remove(path)
		}
	}
	for _, s := range noServerFiles {
		if _, err := os.Lstat(s.path); err == nil {
			continue
		}
		ours = append(ours, s.path)
		if err := os.MkdirAll(filepath.Dir(s.path), 0o755); err != nil {
			return undo, err
		}
		if err := os.WriteFile(s.path, []byte(s.text), s.mode); err != nil {
			return undo, err
		}
	}
	return undo, nil
}

// install installs packages on a Debian machine, if this process runs as root.
func install(ctx context.Context, packages []string) error {
	if len(packages) == 0 || os.Geteuid() != 0 {
		return nil
	}
	apt, err := exec.LookPath("apt-get")
	if err != nil {
		return fmt.Errorf("cannot install %s: no apt-get here", strings.Join(packages, ", "))
	}
	note("installing %s", strings.Join(packages, ", "))
	undo, err := disableServers()
	defer undo()
	if err != nil {
		return err
	}
	aptGet := func(args ...string) error {
		cmd := exec.CommandContext(ctx, apt, append([]string{"-qq", "-o", "DPkg::Lock::Timeout=120"}, args...)...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("apt-get %s: %w\n%s", args[0], err, tail(string(out), 20))
		}
		return nil
	}
	updateErr := aptGet("update") // old package lists may be enough
	err = aptGet(append([]string{"install", "-y", "--no-install-recommends"}, packages...)...)
	if err != nil {
		return errors.Join(updateErr, err)
	}
	return nil
}

// tail returns the last n lines of a text.
func tail(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
