package pawl_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
)

// fakeKeys answers renewals with an error, and counts them.
type fakeKeys struct {
	renewed chan struct{}
	err     error
	inTx    bool
}

func (k *fakeKeys) RenewKeys(ctx context.Context, _ []pawl.KeyRenew) ([]pawl.Result[pawl.Key], error) {
	select {
	case k.renewed <- struct{}{}:
	case <-ctx.Done():
	}
	return []pawl.Result[pawl.Key]{{}}, k.err
}

func (k *fakeKeys) InTransaction() bool { return k.inTx }

// An outcome is stored again while the key is held: as long as renewals succeed, and no
// longer than the lease has time for when they fail. A refusal is not tried again.
func TestAnOutcomeIsStoredWhileTheKeyIsHeld(t *testing.T) {
	away := &pawl.Error{Code: pawl.CodeUnavailable}
	for _, c := range []struct {
		name            string
		renewal, stored error
		inTx            bool
		again           bool
	}{
		{"renewals succeed", nil, away, false, true},
		{"an internal error may pass", nil, errors.New("connection reset"), false, true},
		{"the lease ends", away, away, false, false},
		{"the key is lost", pawl.ErrConflict, away, false, false},
		{"a transaction stays broken", nil, away, true, false},
		{"a refusal", nil, pawl.ErrConflict, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			keys := &fakeKeys{renewed: make(chan struct{}), err: c.renewal, inTx: c.inTx}
			over := make(chan struct{})
			defer close(over)
			go func() {
				for {
					select {
					case <-keys.renewed:
					case <-over:
						return
					}
				}
			}()
			_, hold := pawl.KeepKey(t.Context(), keys, "", "k", pawl.KeyBegun{LockSeconds: 1})
			defer hold.Stop()
			calls := 0
			err := hold.Settle(t.Context(), func(context.Context) error {
				if calls++; c.again && calls == 5 {
					return nil
				}
				return c.stored
			})
			if c.again != (err == nil) || !c.again && !errors.Is(err, c.stored) || c.inTx && calls != 1 {
				t.Errorf("%v after %d calls", err, calls)
			}
		})
	}
}

// The context of a run that is cancelled does not lose its outcome.
func TestAnOutcomeIsStoredAfterTheContextEnded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	held, hold := pawl.KeepKey(ctx, &fakeKeys{}, "", "k", pawl.KeyBegun{LockSeconds: 60})
	defer hold.Stop()
	cancel()
	<-held.Done()
	calls := 0
	err := hold.Settle(ctx, func(ctx context.Context) error {
		deadline, bounded := ctx.Deadline()
		if calls++; calls < 3 || ctx.Err() != nil || !bounded || time.Until(deadline) > 20*time.Second {
			return pawl.ErrUnavailable
		}
		return nil
	})
	if err != nil || calls != 3 {
		t.Errorf("%v after %d calls", err, calls)
	}
}
