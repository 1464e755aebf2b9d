package sqlite

import (
	"context"
	"database/sql"
	"sync"

	"github.com/pawl-work/pawl/store"
)

// readers is a bounded pool of connections that cannot write.
type readers struct {
	db     *sql.DB
	turns  chan struct{}
	idle   chan *session
	mu     sync.Mutex
	closed bool
}

func newReaders(db *sql.DB, most int) *readers {
	return &readers{db: db, turns: make(chan struct{}, most), idle: make(chan *session, most)}
}

func (r *readers) acquire(ctx context.Context) (*session, error) {
	if err := ctx.Err(); err != nil {
		return nil, classify(err)
	}
	select {
	case r.turns <- struct{}{}:
	case <-ctx.Done():
		return nil, classify(ctx.Err())
	}
	r.mu.Lock()
	closed := r.closed
	r.mu.Unlock()
	if closed {
		<-r.turns
		return nil, errClosed
	}
	select {
	case s := <-r.idle:
		return s, nil
	default:
	}
	s, err := connect(ctx, r.db)
	if err != nil {
		<-r.turns
	}
	return s, err
}

func (r *readers) release(s *session, fit bool) {
	if fit {
		select {
		case r.idle <- s:
			s = nil
		default:
		}
	}
	if s != nil {
		s.discard()
	}
	<-r.turns
}

// close waits until every reader is back.
func (r *readers) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	for range cap(r.turns) {
		r.turns <- struct{}{}
	}
	for {
		select {
		case s := <-r.idle:
			s.discard()
		default:
			for range cap(r.turns) {
				<-r.turns
			}
			return
		}
	}
}

// View implements store.DB: one deferred transaction, whose snapshot is taken
// by its first statement. The connections are few: a View within a View may
// wait for itself.
func (d *db) View(ctx context.Context, fn func(ctx context.Context, tx store.Tx) error) error {
	if err := d.present(); err != nil {
		return err
	}
	readers := d.readers[store.PurposeOf(ctx)]
	s, err := readers.acquire(ctx)
	if err != nil {
		return err
	}
	t := &tx{session: s, moment: &txTime{clock: d.clock}, reads: true}
	fit := false
	defer func() { readers.release(s, fit) }()
	if _, err := s.exec(context.Background(), "BEGIN", nil); err != nil {
		return classify(err)
	}
	defer func() { // also when fn panics
		s.settle()
		_, err := s.exec(context.Background(), "ROLLBACK", nil)
		fit = err == nil && !broken(t.failed)
	}()
	err = fn(ctx, t)
	if err == nil {
		err = t.failed
	}
	return err
}

// versionReader is a connection that only looks whether others have written: what
// data_version says is per connection.
type versionReader struct {
	db      *sql.DB
	mu      sync.Mutex
	session *session
	closed  bool
}

// version is PRAGMA data_version: another number when another connection committed since,
// this process included.
func (w *versionReader) version(ctx context.Context) (int64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return 0, errClosed
	}
	if w.session == nil {
		s, err := connect(ctx, w.db)
		if err != nil {
			return 0, err
		}
		w.session = s
	}
	var v int64
	t := &tx{session: w.session, reads: true}
	_, err := store.Row(ctx, t, []any{&v}, "PRAGMA data_version")
	w.session.settle()
	if broken(err) {
		w.session.discard()
		w.session = nil
	}
	return v, err
}

func (w *versionReader) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	if w.session != nil {
		w.session.discard()
		w.session = nil
	}
}
