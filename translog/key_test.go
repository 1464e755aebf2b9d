package translog

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// A crash at any point while a key is made leaves files that the next process can use.
func TestAKeyIsUsableAfterACrash(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "key")
	if err := makeKey(path, "pawl/a"); err != nil { // and the process ends
		t.Fatal(err)
	}
	k, err := OpenKey(path, "pawl/a", true)
	if err != nil {
		t.Fatal(err)
	}
	for size := range int64(2) {
		if _, err := k.Sign(Checkpoint{Origin: "pawl/a", Size: size}); err != nil {
			t.Fatal(err)
		}
		if c, found, err := k.Kept(); err != nil || !found || c.Size != size {
			t.Errorf("%+v, %v, %v", c, found, err)
		}
	}
	if err := os.Remove(path + publicSuffix); err != nil {
		t.Fatal(err)
	}
	if k, err = OpenKey(path, "pawl/a", false); err != nil {
		t.Fatal(err)
	}
	if _, found, err := k.Kept(); err != nil || !found {
		t.Errorf("without the list of public keys: %v, %v", found, err)
	}
	if err := Rotate(path, "pawl/a"); err != nil {
		t.Fatal(err)
	}
	if k, err = OpenKey(path, "pawl/a", false); err != nil {
		t.Fatal(err)
	}
	if keys, err := Public(path); err != nil || len(keys) != 2 {
		t.Errorf("public keys %v, %v", keys, err)
	}
	if _, found, err := k.Kept(); err != nil || !found {
		t.Errorf("with another key: %v, %v", found, err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenKey(path, "pawl/a", true); !errors.Is(err, ErrLost) {
		t.Errorf("a lost key is %v", err)
	}
}
