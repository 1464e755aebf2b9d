package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Bounds of what is linked. They may only fall.
const (
	maxProgram = 45 << 20 // bytes of the stripped program
	maxModules = 25       // of a program with engine and worker; the aim is 20
)

func goTool(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Env = "../..", append(os.Environ(), "CGO_ENABLED=0")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", args[0], err, errs.String())
	}
	return string(out) + errs.String()
}

func TestTheProgramIsSmall(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl")
	links := goTool(t, "build", "-ldflags=-s -w -dumpdep", "-o", path, "./cmd/pawl")
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the program has %d bytes", info.Size())
	if info.Size() > maxProgram {
		t.Errorf("the program has %d bytes, at most %d", info.Size(), maxProgram)
	}
	for line := range strings.Lines(links) {
		if name, _, found := strings.Cut(line, " <ReflectMethod>"); found {
			t.Errorf("%s calls methods by names that are known only when it runs: with it all methods are linked", name)
			break
		}
	}
}

func TestALibraryHasFewModules(t *testing.T) {
	modules := map[string]bool{}
	const form = "{{with .Module}}{{if not .Main}}{{.Path}}{{end}}{{end}}"
	for m := range strings.Lines(goTool(t, "list", "-deps", "-f", form, "./engine", "./worker")) {
		if m = strings.TrimSpace(m); m != "" {
			modules[m] = true
		}
	}
	if n := len(modules); n != maxModules {
		t.Errorf("engine and worker link %d modules, not %d: if it is less, lower the number", n, maxModules)
	}
}
