package objects_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/pawl-work/pawl/store/objects"
)

func open(t *testing.T, path string) *objects.Directory {
	t.Helper()
	d, err := objects.OpenDirectory(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// files lists what is in a directory of objects, without its name.
func files(t *testing.T, path string) (out []string) {
	t.Helper()
	err := filepath.WalkDir(path, func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && d.Name() != "pawl-blobs" {
			out = append(out, d.Name())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestDirectory(t *testing.T) {
	path, ctx := filepath.Join(t.TempDir(), "a", "blobs"), t.Context()
	d := open(t, path)
	if again := open(t, path); again.Name() != d.Name() || d.Name() == "" {
		t.Errorf("opened twice it is %s and %s", d.Name(), again.Name())
	}
	if err := d.Write(ctx, "upl_1", strings.NewReader("0123456789")); err != nil {
		t.Fatal(err)
	}
	for _, offset := range []int64{0, 3, 9, 10} {
		r, err := d.Read(ctx, "upl_1", offset)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(r); string(b) != "0123456789"[offset:] || err != nil {
			t.Errorf("from %d on it is %s, %v", offset, b, err)
		}
		_ = r.Close()
	}
	if err := d.Write(ctx, "upl_2", io.MultiReader(strings.NewReader("half"), iotest.ErrReader(errors.New("cut off")))); err == nil {
		t.Error("an object that was cut off is stored")
	}
	if _, err := d.Read(ctx, "upl_2", 0); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an object that is not there: %v", err)
	}
	if got := files(t, path); len(got) != 1 {
		t.Errorf("the files are %v", got)
	}
	for range 2 {
		if err := d.Remove(ctx, "upl_1"); err != nil {
			t.Fatal(err)
		}
	}
	if got := files(t, path); len(got) != 0 {
		t.Errorf("the files are %v", got)
	}
	for _, key := range []string{"", "..", "a/b", "a\x00", "ä", "a.part"} {
		_, read := d.Read(ctx, key, 0)
		for verb, err := range map[string]error{"read": read, "write": d.Write(ctx, key, strings.NewReader("")), "remove": d.Remove(ctx, key)} {
			if err == nil || errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s of the key %q: %v", verb, key, err)
			}
		}
	}
}

// All processes that open a new directory at the same time get the same name.
func TestADirectoryHasOneName(t *testing.T) {
	path := t.TempDir()
	names := make([]string, 8)
	var all sync.WaitGroup
	for i := range names {
		all.Go(func() {
			if d, err := objects.OpenDirectory(context.Background(), path); err != nil {
				t.Error(err)
			} else {
				names[i] = d.Name()
			}
		})
	}
	all.Wait()
	for _, name := range names {
		if name != names[0] {
			t.Errorf("the names are %v", names)
		}
	}
}

// A directory whose disk is not mounted, or that is another one now, is not an empty store.
func TestADirectoryThatIsGone(t *testing.T) {
	path, ctx := filepath.Join(t.TempDir(), "blobs"), t.Context()
	d := open(t, path)
	if err := os.Rename(path, path+".away"); err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"gone", "another"} {
		if what == "another" {
			open(t, path)
		}
		_, read := d.Read(ctx, "k", 0)
		for verb, err := range map[string]error{"read": read, "write": d.Write(ctx, "k", strings.NewReader("")), "remove": d.Remove(ctx, "k")} {
			if err == nil || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), d.Name()) {
				t.Errorf("%s, %s: %v", what, verb, err)
			}
		}
	}
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := objects.OpenDirectory(ctx, path); err == nil {
		t.Error("a file is opened as a directory")
	}
	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, "pawl-blobs"), []byte("directory-../x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := objects.OpenDirectory(ctx, other); err == nil {
		t.Error("any text is taken for a name")
	}
}

// What a crash leaves of an object that was being written is removed with its key, and a
// writer that goes on after that leaves nothing.
func TestADirectoryRemovesHalfAnObject(t *testing.T) {
	path, ctx := t.TempDir(), t.Context()
	d := open(t, path)
	writing, goOn, done := make(chan bool), make(chan bool), make(chan error)
	go func() {
		done <- d.Write(ctx, "upl_1", io.MultiReader(strings.NewReader("half"), readerFunc(func([]byte) (int, error) {
			close(writing)
			<-goOn
			return 0, io.EOF
		})))
	}()
	<-writing
	if got := files(t, path); len(got) != 1 || got[0] != "upl_1.part" {
		t.Errorf("the files are %v", got)
	}
	if _, err := d.Read(ctx, "upl_1", 0); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("half an object can be read: %v", err)
	}
	if err := d.Remove(ctx, "upl_1"); err != nil {
		t.Fatal(err)
	}
	close(goOn)
	if err := <-done; err == nil {
		t.Error("an object that was removed is written")
	}
	if got := files(t, path); len(got) != 0 {
		t.Errorf("the files are %v", got)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }
