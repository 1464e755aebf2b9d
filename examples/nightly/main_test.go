package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("NIGHTLY_TEST"); dir != "" {
		if err := night(dir).run(context.Background()); err != nil {
			panic(err)
		}
		os.Exit(0)
	}
	pawltest.Main(m)
}

func night(dir string) batch {
	return batch{
		db: "sqlite:" + filepath.Join(dir, "nightly.db"), dir: filepath.Join(dir, "files"),
		night: "2026-11-26", report: filepath.Join(dir, "report.json"), lease: 2,
	}
}

// start runs the program on dir in a process of its own.
func start(t *testing.T, dir string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "NIGHTLY_TEST="+dir)
	cmd.Stderr = t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd
}

// tenThousandFiles writes the files, and returns what the report must say of each.
func tenThousandFiles(t *testing.T, dir string) map[string]checked {
	t.Helper()
	want := map[string]checked{}
	for i := range 10_000 {
		path := filepath.Join(dir, "files", fmt.Sprint(i%100), fmt.Sprint(i))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		body := fmt.Appendf(nil, "file %d", i)
		if err := os.WriteFile(path, body, 0o644); err != nil {
			t.Fatal(err)
		}
		want[path] = checked{Path: path, Bytes: int64(len(body)), SHA256: fmt.Sprintf("%x", sha256.Sum256(body))}
	}
	return want
}

// completed counts the items that have a result, and their attempts.
func completed(t *testing.T, eng *engine.Engine) (items, attempts int) {
	t.Helper()
	f := pawl.ItemFilter{States: []pawl.ItemState{pawl.ItemCompleted}, Page: pawl.Page{Limit: pawl.MaxPage}}
	for {
		list, err := eng.ListItems(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		for _, it := range list.Items {
			items++
			attempts += it.Attempt
		}
		if f.Cursor = list.Next; f.Cursor == "" {
			return items, attempts
		}
	}
}

func TestANightSurvivesKill(t *testing.T) {
	dir := t.TempDir()
	want := tenThousandFiles(t, dir)
	cmd := start(t, dir)
	eng, err := engine.Open(t.Context(), night(dir).db)
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close()
	for done, _ := completed(t, eng); done < 100; done, _ = completed(t, eng) {
		time.Sleep(10 * time.Millisecond)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if cmd.Wait() == nil {
		t.Fatal("the program ended before it was killed")
	}
	if err := start(t, dir).Wait(); err != nil {
		t.Fatal(err)
	}
	done, before := completed(t, eng)
	if done != len(want) {
		t.Fatalf("%d of %d files have a result", done, len(want))
	}
	// once more: there is one task, and nothing is checked again
	if err := start(t, dir).Wait(); err != nil {
		t.Fatal(err)
	}
	if done, after := completed(t, eng); done != len(want) || after != before {
		t.Errorf("%d results of %d attempts; before, it was %d attempts", done, after, before)
	}
	raw, err := os.ReadFile(night(dir).report)
	if err != nil {
		t.Fatal(err)
	}
	var report map[string]checked
	if err := json.Unmarshal(raw, &report); err != nil {
		t.Fatal(err)
	}
	if len(report) != len(want) {
		t.Errorf("the report has %d of %d files", len(report), len(want))
	}
	for _, got := range report {
		if got != want[got.Path] {
			t.Fatalf("report: %+v, want %+v", got, want[got.Path])
		}
	}
}
