package sqlite

import (
	"context"
	"sync"
)

// versionReader is a connection that only checks whether other connections have written.
// It is separate because data_version is counted per connection.
type versionReader struct {
	open   func() (*conn, error)
	mu     sync.Mutex
	conn   *conn // nil until it is first used, and after it broke
	closed bool
}

// version returns PRAGMA data_version. The number changes when another connection commits,
// in this process or another.
func (r *versionReader) version(ctx context.Context) (v int64, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed:
		return 0, errClosed
	case ctx.Err() != nil:
		return 0, classify(ctx.Err())
	case r.conn == nil:
		c, err := r.open()
		if err != nil {
			return 0, classify(err)
		}
		r.conn = c
	}
	if err = r.conn.row([]any{&v}, "PRAGMA data_version"); broken(err) {
		_ = r.conn.close()
		r.conn = nil
	}
	return v, classify(err)
}

func (r *versionReader) close() (err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	if r.conn != nil {
		err = r.conn.close()
		r.conn = nil
	}
	return err
}
