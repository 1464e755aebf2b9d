package sqlite

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/durable"
	"github.com/pawl-work/pawl/store"
)

// placeBeside is the suffix of the file that says that the database is at its place.
const placeBeside = ".place"

// placeFile is the content of the file beside the database.
type placeFile struct {
	ID string `json:"id"`
}

// place reads where the database is. With renew it first writes a new file beside it.
func (d *db) place(_ context.Context, _ store.Tx, renew bool) (p store.Place, err error) {
	path, err := filepath.EvalSymlinks(d.path) // SQLite has its own files beside the file itself, too
	if err != nil {
		return p, placeError(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return p, placeError(err)
	}
	p.Inode, p.Named = inode(info), "sqlite:"+path
	if renew {
		p.ID = rand.Text()
		text, _ := json.Marshal(placeFile{p.ID}) // a text
		return p, placeError(durable.Replace(path+placeBeside, string(text)+"\n"))
	}
	text, err := os.ReadFile(path + placeBeside)
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	var f placeFile
	if err == nil && json.Unmarshal(text, &f) == nil { // what cannot be read is no place that is known
		p.ID = f.ID
	}
	return p, placeError(err)
}

func placeError(err error) error {
	if err == nil {
		return nil
	}
	return &pawl.Error{Code: pawl.CodeUnavailable, Op: "open", Message: "the file beside the database cannot be read or written", Err: err}
}

// Named returns what store.Place.Named is of a database at path.
func Named(path string) (string, error) {
	path, err := checkPath(path)
	if err != nil {
		return "", err
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	return "sqlite:" + path, nil
}

// markCopy makes a file that Backup has written a copy: no place is known to it.
func (d *db) markCopy(path string) error {
	c, err := openConn(path, false, writerPragmas)
	if err != nil {
		return classify(err)
	}
	defer c.close()
	err = c.script(d.rewrite("DELETE FROM pawl.places;\n" +
		"INSERT INTO pawl.places (kind, place, how, created_at) VALUES ('known', '{}', 'backup', 0)"))
	return classify(err)
}
