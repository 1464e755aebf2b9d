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
	if !newEpoch && s.Position <= f.head {
		return false
	}
	if newEpoch {
		f.noEvents = store.Span{}
		f.pendingGaps, f.prepared = nil, nil // transactions of another server, or of another history
	}
	f.head, f.state = s.Position, s
	f.hub.Wake(watch.Feed())
	return true
}

// wentBack reports whether the database went back in time, or may have, since positions
// were last assigned: another server answers, or one that lacks events that this process
// has read. A replaced server is an error; a lagging one is not.
func (f *Feed) wentBack(s store.FeedState, at store.Server) (bool, error) {
	f.mu.Lock()
	head, epoch := f.head, f.state.Epoch
	f.mu.Unlock()
	switch {
	case at.Standby:
		return false, nil
	case at.System == f.server.System && at.Timeline < f.server.Timeline:
		f.commits.Reset()
		return false, errOldServer
	}
	f.server = at
	known := s.Server.System != "" && at.System != ""
	return known && at != s.Server || s.Epoch < epoch || s.Epoch == epoch && s.Position < head, nil
}

// settleEpoch raises the epoch of s, which is locked, if the database went back in time.
// Each timeline is used once, so an epoch whose start was itself lost is not reused.
func (f *Feed) settleEpoch(ctx context.Context, tx store.Tx, s *store.FeedState) error {
	at, err := f.commits.Server(ctx, tx)
	if err != nil {
		return err
	}
	raise, err := f.wentBack(*s, at)
	if err != nil {
		return err
	}
	if raise {
		s.Raise(max(s.Epoch+1, f.Epoch()+1, at.Timeline-1))
	}
	if at.System != "" {
		s.Server = at
	}
	return nil
}
