package sqlite

import (
	"os"
	"path/filepath"
	"testing"
)

// A write-ahead log that was not started over is a warning.
func TestWarningOfALargeLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.db")
	for size, want := range map[int64]int{0: 0, walLarge: 0, walLarge + 1: 1} {
		if err := os.WriteFile(path+"-wal", nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path+"-wal", size); err != nil {
			t.Fatal(err)
		}
		if got := walWarning(path); len(got) != want || want > 0 && got[0].Code != "wal_large" {
			t.Errorf("%d bytes: %+v", size, got)
		}
	}
	if got := walWarning(path + ".other"); got != nil {
		t.Errorf("without a log: %+v", got)
	}
}
