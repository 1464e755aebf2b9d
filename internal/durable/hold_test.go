package durable

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What a process holds stays; what none holds any more is removed, and so is what was never held, a day later.
func TestAbandonedFilesAreRemoved(t *testing.T) {
	dir := t.TempDir()
	make := func(name string, age time.Duration) string {
		path := filepath.Join(dir, name)
		at := time.Now().Add(-age)
		if err := errors.Join(os.MkdirAll(filepath.Join(path, "in"), 0o700), os.Chtimes(path, at, at)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	hold := func(path string, age time.Duration) func() {
		release, err := Hold(path)
		at := time.Now().Add(-age)
		if err = errors.Join(err, os.Chtimes(path+heldSuffix, at, at)); err != nil {
			t.Fatal(err)
		}
		return release
	}
	old := 2 * unheldFor
	defer hold(make("tmp-live", old), old)()
	dead, at := make("tmp-dead", old)+heldSuffix, time.Now().Add(-old) // nothing locks it, as after kill -9
	if err := errors.Join(os.WriteFile(dead, nil, 0o600), os.Chtimes(dead, at, at)); err != nil {
		t.Fatal(err)
	}
	make("tmp-unheld", old)
	make("tmp-unheld-young", unheldFor/2)
	make("tmp-new", 0)
	make("other", old)
	if err := RemoveAbandoned(dir, func(name string) bool { return strings.HasPrefix(name, "tmp-") }); err != nil {
		t.Fatal(err)
	}
	var left []string
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if got, want := strings.Join(left, " "), "other tmp-live tmp-live.held tmp-new tmp-unheld-young"; got != want {
		t.Errorf("there are %s, want %s", got, want)
	}
	if err := RemoveAbandoned(filepath.Join(dir, "none"), func(string) bool { return true }); err != nil {
		t.Error(err)
	}
}
