package sweep

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/durable"
)

// CopyArchives copies the archives in the directory from to the new directory to. The
// copy is durable before it gets that name. If from does not exist, there is nothing to
// copy.
func CopyArchives(ctx context.Context, from, to string) error {
	if _, err := os.Stat(from); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if _, err := os.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
		return &pawl.Error{Code: pawl.CodeConflict, Op: "backup", Message: to + " exists already", Allowed: []string{}, Err: err}
	}
	partial, err := os.MkdirTemp(filepath.Dir(to), filepath.Base(to)+".*.partial")
	if err != nil {
		return notCopied(err)
	}
	defer os.RemoveAll(partial)
	dirs := []string{partial}
	err = filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		name, err := filepath.Rel(from, path)
		dest := filepath.Join(partial, name)
		switch {
		case err != nil || path == from:
			return err
		case d.IsDir():
			dirs = append(dirs, dest)
			return os.Mkdir(dest, 0o700)
		case !strings.HasSuffix(name, archiveSuffix): // unfinished, or not an archive
			return nil
		}
		return copyFile(path, dest)
	})
	for _, dir := range dirs {
		err = errors.Join(err, durable.SyncDir(dir))
	}
	if err == nil {
		err = os.Rename(partial, to)
	}
	if err == nil {
		err = durable.SyncDir(filepath.Dir(to))
	}
	return notCopied(err)
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Sync(), out.Close())
}

func notCopied(err error) error {
	if err == nil {
		return nil
	}
	return &pawl.Error{Code: pawl.CodeUnavailable, Op: "backup", Message: fmt.Sprintf("the archives cannot be copied: %v", err), Err: err}
}
