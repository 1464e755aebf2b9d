package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// When testenv is killed, which it cannot notice, what go test has started ends with it.
func TestAKilledRunEndsItsTests(t *testing.T) {
	const asChild = "PAWL_TESTENV_CHILD"
	if os.Getenv(asChild) != "" {
		goTest{}.run(t.Context(), os.Environ(), NewReport(io.Discard, false))
		return
	}
	dir := t.TempDir()
	program := "#!/bin/sh\n(sleep 20; echo went on >&2) &\necho started >&2\nwait\n"
	if err := os.WriteFile(filepath.Join(dir, "go"), []byte(program), 0o700); err != nil {
		t.Fatal(err)
	}
	run := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	run.Env = append(os.Environ(), asChild+"=1", "PATH="+dir+":"+os.Getenv("PATH"))
	stderr, err := run.StderrPipe() // of all that it starts: it ends with the last of them
	if err == nil {
		err = run.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	said := bufio.NewReader(stderr)
	if line, err := said.ReadString('\n'); line != "started\n" {
		t.Fatalf("%q, %v", line, err)
	}
	_ = run.Process.Kill()
	if rest, err := io.ReadAll(said); len(rest) > 0 || err != nil {
		t.Errorf("after its end: %q, %v", rest, err)
	}
	_ = run.Wait() // killed
}
