package engine

import (
	"context"

	"github.com/pawl-work/pawl"
)

// FollowMessage follows a message; see pawl.MessageReader. The frames are shared with
// other followers: do not change what they point to.
func (e *Engine) FollowMessage(ctx context.Context, id string, after int64, fn func(pawl.MessageFrame) error) error {
	if err := e.notInTx("follow"); err != nil {
		return err
	}
	return e.watcher.Follow(ctx, pawl.CallerOf(ctx).Namespace, id, after+1, fn)
}
