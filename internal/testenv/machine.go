package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/pawl-work/pawl/internal/throwaway"
)

// missing lists the Debian packages without which something could not run.
func missing() []string {
	var packages []string
	if os.Getenv("PAWL_TEST_POSTGRES") == "" {
		if _, err := throwaway.Find(); err != nil {
			packages = append(packages, "postgresql")
		}
	}
	if !hasCompiler() {
		packages = append(packages, "gcc", "libc6-dev")
	}
	return packages
}

// hasCompiler says whether the race detector can be linked.
func hasCompiler() bool {
	out, err := exec.Command("go", "env", "CC").Output()
	if err != nil {
		return false
	}
	cc, _, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	_, err = exec.LookPath(cc)
	return err == nil
}

// clusterSwitch keeps Debian's package from making and starting a server of its
// own; it is there only while the package is installed.
const clusterSwitch = "/etc/postgresql-common/createcluster.d/pawl-testenv.conf"

// install installs packages on a Debian machine that is ours to change, which
// is to say as root.
func install(ctx context.Context, packages []string) error {
	if len(packages) == 0 || os.Geteuid() != 0 {
		return nil
	}
	apt, err := exec.LookPath("apt-get")
	if err != nil {
		return fmt.Errorf("cannot install %s: no apt-get here", strings.Join(packages, ", "))
	}
	note("installing %s", strings.Join(packages, ", "))
	if err := os.MkdirAll(filepath.Dir(clusterSwitch), 0o755); err == nil {
		defer os.Remove(clusterSwitch)
		if err := os.WriteFile(clusterSwitch, []byte("create_main_cluster = false\n"), 0o644); err != nil {
			return err
		}
	}
	aptGet := func(args ...string) error {
		cmd := exec.CommandContext(ctx, apt, append([]string{"-qq", "-o", "DPkg::Lock::Timeout=120"}, args...)...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("apt-get %s: %w\n%s", args[0], err, tail(string(out), 20))
		}
		return nil
	}
	updateErr := aptGet("update") // old lists may do
	err = aptGet(append([]string{"install", "-y", "--no-install-recommends"}, packages...)...)
	if err != nil {
		return errors.Join(updateErr, err)
	}
	return nil
}

// tail is the last n lines of a text.
func tail(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
