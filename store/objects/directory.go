package objects

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/pawl-work/pawl/internal/durable"
)

const (
	// markFile has the name of the store. It is written once.
	markFile = "pawl-blobs"
	// partSuffix ends the name of an object that is being written.
	partSuffix = ".part"
)

// Directory has each object in a file of one directory, which several processes and machines
// may share. Its name is in a file of the directory, so the directory may be moved, and
// another directory at the same path, such as that of a disk that is not mounted, is not
// taken for it.
type Directory struct{ path, name string }

var _ Store = (*Directory)(nil)

// OpenDirectory opens the store in a directory. It makes the directory and its name if they
// are missing.
func OpenDirectory(ctx context.Context, path string) (*Directory, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	d := &Directory{path: path}
	if d.name, err = d.readName(); errors.Is(err, fs.ErrNotExist) {
		d.name, err = d.makeName(ctx)
	}
	if err != nil {
		return nil, err
	}
	return d, nil
}

func (d *Directory) readName() (string, error) {
	text, err := os.ReadFile(filepath.Join(d.path, markFile))
	if err != nil {
		return "", err
	}
	name := strings.TrimSuffix(string(text), "\n")
	if rest, ok := strings.CutPrefix(name, "directory-"); !ok || checkKey(rest) != nil {
		return "", fmt.Errorf("%s is not the name of a store of blobs", filepath.Join(d.path, markFile))
	}
	return name, nil
}

// makeName names the store, unless another process does it at the same time.
func (d *Directory) makeName(ctx context.Context) (string, error) {
	if err := os.MkdirAll(d.path, 0o700); err != nil {
		return "", err
	}
	if err := durable.SyncDir(filepath.Dir(d.path)); err != nil {
		return "", err
	}
	mark := filepath.Join(d.path, markFile)
	release, err := durable.Lock(ctx, mark+".lock")
	if err != nil {
		return "", err
	}
	defer release()
	name, err := d.readName()
	if errors.Is(err, fs.ErrNotExist) {
		name = "directory-" + rand.Text()
		err = durable.Replace(mark, name+"\n")
	}
	return name, err
}

// Name implements Store.
func (d *Directory) Name() string { return d.name }

// present returns an error if the directory is not the one that was opened: its disk may
// not be mounted any more.
func (d *Directory) present() error {
	name, err := d.readName()
	if err == nil && name != d.name {
		err = fmt.Errorf("it is the store %s now", name)
	}
	if err != nil { // not wrapped: an object that is missing is another error
		return fmt.Errorf("the directory %s does not have the blob store %s any more: %v", d.path, d.name, err)
	}
	return nil
}

// file returns the path of an object. The objects are in 256 directories.
func (d *Directory) file(key string) (string, error) {
	sum := sha256.Sum256([]byte(key))
	return filepath.Join(d.path, hex.EncodeToString(sum[:1]), key), checkKey(key)
}

func checkKey(key string) error {
	if key == "" || strings.Trim(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") != "" {
		return fmt.Errorf("%q is not the key of an object", key)
	}
	return nil
}

// Write implements Store. The object gets its name when its bytes are on the disk, and the
// name is on the disk when Write returns. What a crash leaves is the object or a file with
// the suffix ".part"; Remove removes either.
func (d *Directory) Write(_ context.Context, key string, r io.Reader) error {
	path, err := d.file(key)
	if err == nil {
		err = d.present()
	}
	if err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := writePart(path+partSuffix, r); err != nil {
		return err
	}
	if err := os.Rename(path+partSuffix, path); err != nil {
		return err
	}
	return cmp.Or(durable.SyncDir(filepath.Dir(path)), durable.SyncDir(d.path))
}

// WriteMemory implements Store.
func (d *Directory) WriteMemory() int64 { return 32 << 10 } // of io.Copy

func writePart(path string, r io.Reader) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	if err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		_ = os.Remove(path) // Remove tries it again
	}
	return err
}

// Read implements Store.
func (d *Directory) Read(_ context.Context, key string, offset int64) (io.ReadCloser, error) {
	path, err := d.file(key)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, cmp.Or(d.present(), err)
	}
	if err != nil {
		return nil, err
	}
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Remove implements Store.
func (d *Directory) Remove(_ context.Context, key string) error {
	path, err := d.file(key)
	if err == nil {
		err = d.present() // else it would find nothing to remove
	}
	if err != nil {
		return err
	}
	for _, name := range []string{path + partSuffix, path} {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := durable.SyncDir(filepath.Dir(path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
