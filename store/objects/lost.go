package objects

import (
	"context"
	"fmt"
	"io"
	"io/fs"
)

// Lost is a store that is gone for ever, by its name. It has no objects and takes none, so
// its blobs are missing, and retention removes what the database says about them.
type Lost string

var _ Store = Lost("")

// Name implements Store.
func (l Lost) Name() string { return string(l) }

// Write implements Store.
func (l Lost) Write(context.Context, string, io.Reader) error {
	return fmt.Errorf("the blob store %s is lost", string(l))
}

// WriteMemory implements Store.
func (l Lost) WriteMemory() int64 { return 0 }

// Read implements Store.
func (l Lost) Read(context.Context, string, int64) (io.ReadCloser, error) {
	return nil, fmt.Errorf("the blob store %s is lost: %w", string(l), fs.ErrNotExist)
}

// Remove implements Store.
func (l Lost) Remove(context.Context, string) error { return nil }
