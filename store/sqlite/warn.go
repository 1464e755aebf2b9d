package sqlite

import (
	"fmt"
	"os"

	"github.com/pawl-work/pawl/internal/shellwords"
	"github.com/pawl-work/pawl/store"
)

// walLarge is from which size on the write-ahead log is worth a warning: Pawl starts it over at
// walBound, unless a read in another process lasts.
const walLarge = 8 * walBound

// walWarning warns of a write-ahead log that is not started over.
func walWarning(path string) []store.Warning {
	wal, err := os.Stat(path + "-wal")
	if err != nil || wal.Size() <= walLarge {
		return nil
	}
	return []store.Warning{{Code: "wal_large",
		Detail: fmt.Sprintf("the write-ahead log %s-wal has %d MiB: a read that does not end, or a frozen process, keeps it from being "+
			"started over", path, wal.Size()>>20),
		Command: "fuser " + shellwords.Word(path)}}
}
