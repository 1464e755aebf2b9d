package api

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-work/pawl"
)

// A database may go on holding the key of a call that was cut short: as long as it takes to notice that the connection is
// closed.
const (
	keyHeldFor  = time.Second
	keyLookedAt = 20 * time.Millisecond
)

// StoredAnswer returns the answer that is stored for the key of a call that a stop has cut short, without a call. It waits a
// second at most for the database to let go of the key. once is pawl.Idempotent's method.
func StoredAnswer(ctx context.Context, once func(context.Context, pawl.KeyBegin,
	func(context.Context, pawl.Service) (*pawl.Answer, error)) (pawl.Answer, bool, error),
	begin pawl.KeyBegin) (kept pawl.Answer, replayed bool, err error) {
	pause := time.NewTicker(keyLookedAt)
	defer pause.Stop()
	for range keyHeldFor / keyLookedAt {
		kept, replayed, err = once(ctx, begin, func(context.Context, pawl.Service) (*pawl.Answer, error) { return nil, nil })
		if !errors.Is(err, pawl.ErrKeyInFlight) {
			break
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return kept, false, ctx.Err()
		}
	}
	return kept, replayed, err
}
