package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pawl-work/pawl/internal/clock"
)

const (
	// heldSuffix ends the name of the file that is locked while something beside it is being written.
	heldSuffix = ".held"
	// heldBy is how soon after it is made something is held.
	heldBy = time.Minute
	// unheldFor is how long something that was never held is left: a program that holds nothing may write it.
	unheldFor = 24 * time.Hour
)

// Hold keeps RemoveAbandoned from removing the file or directory at path until release, or until the process ends.
func Hold(path string) (release func(), err error) {
	f, err := os.OpenFile(path+heldSuffix, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	_, _ = tryLock(f) // where files cannot be locked, RemoveAbandoned cannot either
	return func() {
		_ = f.Close()
		_ = os.Remove(path + heldSuffix)
	}, nil
}

// CreateHeld makes a new file as os.CreateTemp does, and holds it.
func CreateHeld(dir, pattern string) (f *os.File, release func(), err error) {
	if f, err = os.CreateTemp(dir, pattern); err != nil {
		return nil, nil, err
	}
	if release, err = Hold(f.Name()); err != nil {
		err = errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	return f, release, err
}

// RemoveAbandoned removes those entries of a directory that are, by their names, temporary, and that no process holds any
// more. A directory that is not there has none.
func RemoveAbandoned(dir string, temporary func(name string) bool) (err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if name := strings.TrimSuffix(e.Name(), heldSuffix); temporary(name) {
			err = errors.Join(err, removeAbandoned(filepath.Join(dir, name)))
		}
	}
	return err
}

func removeAbandoned(path string) error {
	newest := time.Time{}
	for _, name := range []string{path, path + heldSuffix} {
		if info, err := os.Lstat(name); err == nil && info.ModTime().After(newest) {
			newest = info.ModTime()
		}
	}
	age := clock.Now().Sub(newest)
	if age < heldBy {
		return nil
	}
	f, err := os.OpenFile(path+heldSuffix, os.O_RDWR, 0)
	switch {
	case errors.Is(err, fs.ErrPermission), errors.Is(err, fs.ErrNotExist) && age < unheldFor: // of another user; of another program
		return nil
	case err == nil:
		free, err := tryLock(f)
		_ = f.Close()
		if err != nil || !free {
			return nil
		}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return errors.Join(os.RemoveAll(path), os.RemoveAll(path+heldSuffix))
}
