package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const files = 100

// run runs a program in dir, and returns its output.
func run(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(filepath.Join(dir, name), args...)
	cmd.Dir, cmd.Stderr = dir, t.Output()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v", name, args, err)
	}
	return string(out)
}

func TestAnAgentContinuesAnother(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	programs := []string{"."}
	if built := os.Getenv("PAWL_TEST_PROGRAM"); built == "" {
		programs = append(programs, "github.com/pawl-work/pawl/cmd/pawl")
	} else if err := os.Symlink(built, filepath.Join(dir, "pawl")); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", append([]string{"build", "-o", dir}, programs...)...)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	folder := filepath.Join(dir, "code")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("// The result is larger than an answer of MCP.\n", 20)
	add := func(name string) {
		text := "package code\n\nfunc Bare() {}\n\n// Has a comment.\nfunc Has() {}\nfunc Next() {}\n" + long
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for i := range files - 1 {
		add(fmt.Sprintf("f%03d.go", i+1))
	}
	definition, err := filepath.Abs("type.yaml")
	if err != nil {
		t.Fatal(err)
	}
	run(t, dir, "pawl", "migrate", "up")
	run(t, dir, "pawl", "type", "put", definition)
	run(t, dir, "pawl", "type", "set", typ, "--lease", "4s")
	payload, err := json.Marshal(map[string]string{"folder": folder})
	if err != nil {
		t.Fatal(err)
	}
	var task struct{ ID string }
	created := run(t, dir, "pawl", "task", "create", "--type", typ, "--payload", string(payload), "--json")
	if err := json.Unmarshal([]byte(created), &task); err != nil {
		t.Fatal(err)
	}

	first := exec.Command(filepath.Join(dir, "coder"))
	first.Dir = dir
	stdout, err := first.StdoutPipe()
	if err == nil {
		err = first.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	said := 0
	for lines := bufio.NewScanner(stdout); said < files/4 && lines.Scan(); said++ {
		continue
	}
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if first.Wait() == nil {
		t.Fatal("the first agent ended before it was killed")
	}

	add("a.go") // before the others: each keeps its number
	second := strings.Count(run(t, dir, "coder"), "handing in")
	if second >= files-said+2 || second == 0 {
		t.Errorf("the second agent handed in %d of %d files, after %d of the first", second, files, said)
	}
	read := func() string {
		text, err := os.ReadFile(filepath.Join(folder, "f099.go"))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if strings.Contains(read(), "// Bare") {
		t.Error("a file was changed before the approval")
	}
	run(t, dir, "pawl", "task", "approve", task.ID)
	if wrote := strings.Count(run(t, dir, "coder"), "writing"); wrote != files {
		t.Errorf("%d of %d files were written", wrote, files)
	}
	want := "package code\n\n// Bare has no description yet.\nfunc Bare() {}\n\n// Has a comment.\nfunc Has() {}\n" +
		"// Next has no description yet.\nfunc Next() {}\n" + long
	if got := read(); got != want {
		t.Errorf("got %q", got)
	}
	if got := run(t, dir, "pawl", "doctor"); !strings.Contains(got, "clean") {
		t.Errorf("doctor: %s", got)
	}
}
