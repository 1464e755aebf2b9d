package feed

import (
	"context"
	"fmt"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/watch"
	"github.com/pawl-work/pawl/store"
)

// errOldServer is returned for a database server that was replaced: an old primary, or a
// replica that lags behind by an epoch.
var errOldServer = &pawl.Error{
	Code:    pawl.CodeUnavailable,
	Op:      "feed",
	Message: "the connection is to a database server that has been replaced by another one; check the database URL",
}

// epochConflict returns the error for a position of another epoch.
func epochConflict(s store.FeedState, at pawl.FeedPosition) error {
	restart := s.Restart(at)
	return &pawl.Error{Code: pawl.CodeConflict, Op: "feed", Reason: pawl.ReasonEpoch, Restart: &restart,
		Message: fmt.Sprintf("position %s is of another epoch: the database went back in time; restart from %s", at, restart)}
}

// checkEpoch checks that a position is of the known epoch. f.mu is held.
func (f *Feed) checkEpoch(at pawl.FeedPosition) error {
	if at.Epoch == f.state.Epoch || at.Position <= 0 && at.Epoch < f.state.Epoch {
		return nil
	}
	return epochConflict(f.state, at)
}

// setState stores the state that a query found, and reports whether anything is new.
func (f *Feed) setState(s store.FeedState) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	newEpoch := s.Epoch > f.state.Epoch
	if newEpoch && f.opts.Entered != nil {
		f.opts.Entered()
	}
	if !newEpoch && s.Position <= f.head {
		return false
	}
	if newEpoch {
		f.noEvents = store.Span{}
		f.pendingGaps, f.prepared = nil, nil // transactions of another server, or of another history
		f.roots = nil
	}
	f.head, f.state = s.Position, s
	f.noteRoot(s)
	f.hub.Wake(watch.Feed())
	return true
}

// rootsKept bounds the roots of the log that a process remembers.
const rootsKept = 256

// sizedRoot is the root of the log's first size leaves.
type sizedRoot struct {
	size int64
	root string
}

// noteRoot remembers the root of the log at its newest position. Of many, every second is
// forgotten. f.mu is held.
func (f *Feed) noteRoot(s store.FeedState) {
	if s.Root == "" {
		return
	}
	if len(f.roots) == rootsKept {
		kept := f.roots[:0]
		for i := 1; i < rootsKept; i += 2 {
			kept = append(kept, f.roots[i])
		}
		f.roots = kept
	}
	f.roots = append(f.roots, sizedRoot{s.Position, s.Root})
}

// wentBack reports whether the database went back in time, or may have, since positions
// were last assigned: it lacks events that this process has read, or another server answers
// and this process cannot tell. It can when it knows the root of the log at the newest position
// that it has read: a log that has this root there has all of it. shared is a position up to
// which both histories are the same. A replaced server is an error; a lagging one is not.
func (f *Feed) wentBack(ctx context.Context, tx store.Tx, s store.FeedState, at store.Server) (back bool, shared int64, err error) {
	f.mu.Lock()
	known := f.state
	f.mu.Unlock()
	switch {
	case at.Standby:
		return false, 0, nil
	case at.System == f.server.System && at.Timeline < f.server.Timeline:
		f.commits.Reset()
		return false, 0, errOldServer
	case at != f.server:
		f.pendingGaps, f.prepared = nil, nil // transactions of another server
	}
	f.server = at
	moved := at.System != "" && s.Server.System != "" && at != s.Server // positions were last assigned on another server
	switch {
	case s.Epoch < known.Epoch || s.Epoch == known.Epoch && s.Position < known.Position:
		back = true
	case s.Epoch > known.Epoch && f.checked.System != "", at.System == "", f.checked == at && !moved:
	case f.checked.System == "", known.Position > 0 && known.Root == "":
		back = moved
	case known.Position > 0:
		root, err := store.RootOfFirst(ctx, tx, known.Position)
		if err != nil {
			return false, 0, err
		}
		back = root != known.Root
	}
	if !back {
		f.checked = at
		return false, 0, nil
	}
	shared, err = f.shared(ctx, tx, s)
	return true, shared, err
}

// shared returns a position up to which the history that this process has read and that of the
// database are the same. Without a root that the database does not have, this is the newest
// position of the database.
func (f *Feed) shared(ctx context.Context, tx store.Tx, s store.FeedState) (int64, error) {
	f.mu.Lock()
	roots := f.roots
	f.mu.Unlock()
	same, other := int64(0), s.Position+1
	for low, high := 0, len(roots); low < high; {
		i := (low + high) / 2
		if roots[i].size > s.Position {
			high = i
			continue
		}
		root, err := store.RootOfFirst(ctx, tx, roots[i].size)
		if err != nil {
			return 0, err
		}
		if root == roots[i].root {
			same, low = roots[i].size, i+1
		} else {
			other, high = roots[i].size, i
		}
	}
	if other > s.Position {
		return s.Position, nil
	}
	return same, nil
}

// settleEpoch raises the epoch of s, which is locked, if the database went back in time.
// Each timeline is used once, so an epoch whose start was itself lost is not reused.
func (f *Feed) settleEpoch(ctx context.Context, tx store.Tx, s *store.FeedState) error {
	at, err := f.commits.Server(ctx, tx)
	if err != nil {
		return err
	}
	raise, shared, err := f.wentBack(ctx, tx, *s, at)
	if err != nil {
		return err
	}
	if raise {
		s.Raise(max(s.Epoch+1, f.Epoch()+1, at.Timeline-1), shared)
	}
	if at.System != "" {
		s.Server = at
	}
	return nil
}
