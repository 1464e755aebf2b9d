// Package objects says where the bytes of uploaded blobs are: in the database, or in a store
// outside of it that implements Store. Who refers to a blob, and when it is removed, is
// always decided in the database.
package objects

import (
	"context"
	"io"
)

// Store has objects by their key, a text of letters, digits and underscores. A key is written
// once and never again, so an object never changes. It is safe for concurrent use.
type Store interface {
	// Name names the store in the rows that refer to it, for ever. "" is the database.
	Name() string
	// Write stores what r has. If it returns an error, there may be an object or not;
	// Remove is called for it.
	Write(ctx context.Context, key string, r io.Reader) error
	// WriteMemory returns about how many bytes of memory a Write of a large object takes.
	WriteMemory() int64
	// Read returns the bytes of an object from an offset on. An object that is missing is
	// fs.ErrNotExist, or an end before the first byte.
	Read(ctx context.Context, key string, offset int64) (io.ReadCloser, error)
	// Remove removes an object. A key without one is no error.
	Remove(ctx context.Context, key string) error
}
