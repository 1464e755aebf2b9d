package sweep_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
	"github.com/pawl-work/pawl/sweep"
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
	if err := sweep.ReadArchive(path, none); err == nil || !strings.Contains(err.Error(), "a line has more than") {
		t.Errorf("a line of 80 MiB in a small file: %v", err)
	}
	n := 0
	path = compressed(t, io.MultiReader(io.LimitReader(letters{}, 50<<20), strings.NewReader("\nb\n")))
	if err := sweep.ReadArchive(path, func(line []byte) error { n += len(line); return nil }); err != nil || n != 50<<20+3 {
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
	if err := sweep.ReadArchive(path, none); err == nil || !strings.Contains(err.Error(), "window") {
		t.Errorf("a window of 512 MiB: %v", err)
	}
	frame[5] = 13 << 3 // of 8 MiB
	if err := os.WriteFile(path, append(bytes.Clone(frame), "a\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := sweep.ReadArchive(path, none); err != nil {
		t.Errorf("a window of 8 MiB: %v", err)
	}
}

// bodiesDB counts the bytes of archives that one statement stores.
type bodiesDB struct {
	store.DB
	most int
}

func (d *bodiesDB) Do(ctx context.Context, fn func(ctx context.Context, tx store.Tx) error) error {
	return d.DB.Do(ctx, func(ctx context.Context, tx store.Tx) error { return fn(ctx, &bodiesTx{tx, d}) })
}

type bodiesTx struct {
	store.Tx
	db *bodiesDB
}

func (t *bodiesTx) ExecEach(ctx context.Context, query string, rows [][]any) error {
	size := 0
	for _, row := range rows {
		for _, v := range row {
			if body, is := v.([]byte); is {
				size += len(body)
			}
		}
	}
	t.db.most = max(t.db.most, size)
	return t.Tx.ExecEach(ctx, query, rows)
}

// Without a directory the archives of tasks that have ones of their own are held in memory, some MiB at a time.
func TestArchivesInTheTableAreHeldInParts(t *testing.T) {
	each(t, func(h *fixture) {
		const n = 24
		random := make([]byte, 600<<10)
		for range n {
			_, _ = rand.Read(random)
			payload, err := json.Marshal(random)
			h.OK(err)
			id := h.Create(pawl.NewTask{Type: "a", Payload: payload}).ID
			h.exec("INSERT INTO pawl.parents (task_id, namespace, depth, children, todo) VALUES ($1, 'default', 1, 1, 0)", store.TaskID(id))
		}
		h.complete(h.claim(n)...)
		h.Advance(31 * day)
		db := &bodiesDB{DB: h.DB}
		s, err := h.server(db).Pass(h.Context())
		h.OK(err)
		h.same([]int64{s.TasksPruned, s.Errors}, []int64{n, 0}, "pruned, and errors")
		if db.most == 0 || db.most > 12<<20 { // each of 4 writers may pass the bound by one archive
			t.Errorf("%d bytes were held together", db.most)
		}
	})
}
