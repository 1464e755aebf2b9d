package archives

import (
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// compressed writes an archive with a text.
func compressed(t *testing.T, text io.Reader) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "archive")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zip, err := zstd.NewWriter(f)
	if err == nil {
		_, err = io.Copy(zip, text)
	}
	if err == nil {
		err = zip.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// letters is an endless text of one line.
type letters struct{}

func (letters) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'x'
	}
	return len(b), nil
}

// A file of unknown origin is read in bounded memory: a line without an end, and a
// window that the file asks for, are refused.
func TestAnArchiveIsReadInBoundedMemory(t *testing.T) {
	none := func([]byte) error { return nil }
	path := compressed(t, io.MultiReader(io.LimitReader(letters{}, 80<<20), strings.NewReader("\n")))
	if err := readFile(path, none); err == nil || !strings.Contains(err.Error(), "a line has more than") {
		t.Errorf("a line of 80 MiB in a small file: %v", err)
	}
	n := 0
	path = compressed(t, io.MultiReader(io.LimitReader(letters{}, 50<<20), strings.NewReader("\nb\n")))
	if err := readFile(path, func(line []byte) error { n += len(line); return nil }); err != nil || n != 50<<20+3 {
		t.Errorf("a line of 50 MiB: %d bytes, %v", n, err)
	}

	// A frame with a window of 512 MiB and one stored block (RFC 8878): the window's exponent
	// is 19 above 1 KiB.
	frame := binary.LittleEndian.AppendUint32(nil, 0xFD2FB528)
	frame = append(frame, 0, 19<<3)
	frame = append(frame, 2<<3|1, 0, 0) // the last block, 2 bytes
	path = filepath.Join(t.TempDir(), "window")
	if err := os.WriteFile(path, append(frame, "a\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := readFile(path, none); err == nil || !strings.Contains(err.Error(), "window") {
		t.Errorf("a window of 512 MiB: %v", err)
	}
	frame[5] = 13 << 3 // of 8 MiB
	if err := os.WriteFile(path, append(bytes.Clone(frame), "a\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := readFile(path, none); err != nil {
		t.Errorf("a window of 8 MiB: %v", err)
	}
}
