package archives

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

// Copying copies the archives of a database that is copied.
type Copying struct {
	from, to, partial string
	release           func()
}

// BeginCopy copies the archives that are in the directory from now, before the database is copied: files that the copy
// names may be removed while it is made. to must not exist. If from does not exist, there is nothing to copy. The caller
// calls Remove in the end.
func BeginCopy(ctx context.Context, from, to string) (*Copying, error) {
	if _, err := os.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
		return nil, &pawl.Error{Code: pawl.CodeConflict, Op: "backup", Message: to + " exists already", Allowed: []string{}, Err: err}
	}
	c := &Copying{from: from, to: to}
	_, err := c.take(ctx)
	if err != nil {
		c.Remove()
		return nil, notCopied(err)
	}
	return c, nil
}

// End copies the archives that have come since, and gives the copy its name. It is durable before it gets it.
func (c *Copying) End(ctx context.Context) error {
	dirs, err := c.take(ctx)
	for _, dir := range dirs {
		err = errors.Join(err, durable.SyncDir(dir))
	}
	if err == nil && c.partial != "" {
		if err = os.Rename(c.partial, c.to); err == nil {
			err = durable.SyncDir(filepath.Dir(c.to))
		}
	}
	return notCopied(err)
}

// Remove removes what was copied, unless it has its name.
func (c *Copying) Remove() {
	if c != nil && c.partial != "" {
		_ = os.RemoveAll(c.partial)
	}
	if c != nil && c.release != nil {
		c.release()
	}
}

// take copies the archives that are not there yet. It returns the directories of the copy.
func (c *Copying) take(ctx context.Context) (dirs []string, err error) {
	if _, err := os.Stat(c.from); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if c.partial == "" {
		if c.partial, err = os.MkdirTemp(filepath.Dir(c.to), filepath.Base(c.to)+".*.partial"); err == nil {
			c.release, err = durable.Hold(c.partial)
		}
		if err != nil {
			return nil, err
		}
	}
	dirs = []string{c.partial}
	return dirs, filepath.WalkDir(c.from, func(path string, d fs.DirEntry, err error) error {
		if gone := errors.Is(err, fs.ErrNotExist); gone || err != nil || ctx.Err() != nil {
			return errors.Join(ctx.Err(), unlessGone(err))
		}
		name, err := filepath.Rel(c.from, path)
		dest := filepath.Join(c.partial, name)
		switch {
		case err != nil || path == c.from:
			return err
		case d.IsDir():
			dirs = append(dirs, dest)
			if err := os.Mkdir(dest, 0o700); !errors.Is(err, fs.ErrExist) {
				return err
			}
		case strings.HasSuffix(name, archiveSuffix): // finished, and an archive
			if _, err := os.Lstat(dest); errors.Is(err, fs.ErrNotExist) {
				return unlessGone(copyFile(path, dest))
			}
		}
		return nil
	})
}

// unlessGone is the error of a file that is still there: one that was removed meanwhile is not needed any more.
func unlessGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
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
