//go:build unix

package sqlite

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// When a file that others may read is opened, it and its log are restricted to their
// owner, and one log line says so. With the setting KeepMode they are not.
func TestOpenRestrictsTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "work.db")
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	open := func(keep bool, want os.FileMode) {
		t.Helper()
		db, err := Open(t.Context(), path, Options{Log: log, KeepMode: keep})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		for _, file := range []string{path, path + "-wal", path + "-shm"} {
			if info, err := os.Stat(file); err != nil || info.Mode().Perm() != want {
				t.Errorf("%s: %v, %v, want %v", file, info.Mode(), err, want)
			}
		}
	}
	open(false, 0o600)
	if out.Len() > 0 {
		t.Errorf("of a new file: %s", &out)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	open(true, 0o644)
	if out.Len() > 0 {
		t.Errorf("of a file that is kept as it is: %s", &out)
	}
	open(false, 0o600)
	if n := strings.Count(out.String(), "restricted to its owner"); n != 1 || !strings.Contains(out.String(), "rw-r--r--") {
		t.Errorf("the log: %s", &out)
	}
}
