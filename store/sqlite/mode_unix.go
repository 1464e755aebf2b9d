//go:build unix

package sqlite

import (
	"context"
	"log/slog"
	"os"
	"syscall"
)

// restrict removes the permissions of group and others from a database of Pawl's and the
// files of its log, if this user owns them. A failure is logged only, because the database
// works anyway.
func restrict(ctx context.Context, path string, log *slog.Logger) {
	var was os.FileMode
	for _, file := range []string{path, path + "-wal", path + "-shm"} {
		info, err := os.Stat(file)
		if err != nil || info.Mode().Perm()&0o077 == 0 {
			continue
		}
		if owner, known := info.Sys().(*syscall.Stat_t); !known || int(owner.Uid) != os.Geteuid() {
			continue
		}
		if err := os.Chmod(file, info.Mode().Perm()&0o600); err != nil {
			log.WarnContext(ctx, "other users may be able to read the database", "file", file, "error", err)
			continue
		}
		was |= info.Mode().Perm()
	}
	if was != 0 {
		log.InfoContext(ctx, "the permissions of the database file were restricted to its owner; keep_file_mode leaves them", "file", path, "had",
			was.String())
	}
}
