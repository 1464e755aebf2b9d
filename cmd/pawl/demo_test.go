package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/pawl-work/pawl/internal/demo"
	"github.com/pawl-work/pawl/pawltest"
)

// The demo passes on PostgreSQL too, and again on a database with data. Afterwards doctor finds
// nothing.
func TestDemoOnPostgres(t *testing.T) {
	t.Parallel()
	url, schema := pawltest.Place(t, pawltest.Postgres)
	tree := t.TempDir()
	for i := range 120 {
		if err := os.WriteFile(filepath.Join(tree, fmt.Sprintf("f%03d", i)), bytes.Repeat([]byte("line\n"), i), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		var r demo.Report
		if err := json.Unmarshal(runPawl(t, "demo", "--input", tree, "--db", url, "--schema", schema, "--most-recovery", "1m", "--json"),
			&r); err != nil {
			t.Fatal(err)
		}
		if r.Items != 60 || r.Attempts < 62 || r.Kills != 1 || r.StaleWritesRefused < 1 || r.StepsReplayed < 1 || !r.Exact {
			t.Errorf("%+v", r)
		}
		runPawl(t, "doctor", "--db", url, "--schema", schema) // r.DB hides a password
	}
}

// The demo of agents passes on PostgreSQL too.
func TestDemoOfAgentsOnPostgres(t *testing.T) {
	t.Parallel()
	url, schema := pawltest.Place(t, pawltest.Postgres)
	var r demo.AgentReport
	if err := json.Unmarshal(runPawl(t, "demo", "--agents", "--db", url, "--schema", schema, "--json"), &r); err != nil {
		t.Fatal(err)
	}
	if r.Files != demo.OrderFiles || r.Items != 3 || r.Attempts < 5 || r.Kills != 1 || r.PartsRefused != 2 || r.PartsKept != 2 ||
		r.SentBack != 1 ||
		!r.Exact {
		t.Errorf("%+v", r)
	}
	if err := os.RemoveAll(r.Folder); err != nil {
		t.Error(err)
	}
	runPawl(t, "doctor", "--db", url, "--schema", schema)
}

// runPawl runs the program and returns its stdout.
func runPawl(t *testing.T, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "pawl", args...)
	var stderr bytes.Buffer
	cmd.Dir, cmd.Stderr = t.TempDir(), &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("pawl %v: %v\n%s%s", args, err, out, &stderr)
	}
	return out
}
