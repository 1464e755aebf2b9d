package archives

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/pawl-work/pawl/internal/durable"
)

const (
	// scratchPrefix begins the names of directories with temporary databases.
	scratchPrefix = "pawl-archive-"
	// partSuffix ends the names of archives that are being written.
	partSuffix = ".part"
)

// RemoveAbandoned removes what processes that were killed have left: it has payloads.
func (s *Keeper) RemoveAbandoned() error {
	err := durable.RemoveAbandoned(os.TempDir(), func(name string) bool { return strings.HasPrefix(name, scratchPrefix) })
	return errors.Join(err, removeParts(s.Dir))
}

// removeParts removes archives that were not finished.
func removeParts(archives string) error {
	if archives == "" {
		return nil
	}
	months, err := os.ReadDir(archives)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, month := range months {
		if month.IsDir() {
			err = errors.Join(err, durable.RemoveAbandoned(filepath.Join(archives, month.Name()),
				func(name string) bool { return strings.HasSuffix(name, partSuffix) }))
		}
	}
	return err
}

// createPart creates a file for an archive, and holds it until release.
func createPart(dir, name string) (f *os.File, release func(), err error) {
	if err = os.MkdirAll(dir, 0o700); err == nil {
		f, release, err = durable.CreateHeld(dir, name+".*"+partSuffix)
	}
	return f, release, diskError(err)
}
