package pawl

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/pawl-work/pawl/internal/asked"
)

// FeedPosition is a position in the event feed, in one history of the database. The
// epoch rises when the database went back in time, for example after a failover that
// lost commits: positions above that point were then assigned to other events. Epoch 0
// is the first.
type FeedPosition struct {
	Epoch    int64
	Position int64
}

// String returns "EPOCH-POSITION", for example "0-42".
func (p FeedPosition) String() string {
	return strconv.FormatInt(p.Epoch, 10) + "-" + strconv.FormatInt(p.Position, 10)
}

var errFeedPosition = errors.New("a position is EPOCH-POSITION, for example 0-42, or digits alone for epoch 0")

// ParseFeedPosition parses "EPOCH-POSITION"; digits alone are a position of epoch 0.
func ParseFeedPosition(text string) (FeedPosition, error) {
	var p FeedPosition
	if epoch, position, both := strings.Cut(text, "-"); both {
		n, err := strconv.ParseUint(epoch, 10, 31)
		if err != nil {
			return p, errFeedPosition
		}
		p.Epoch, text = int64(n), position
	}
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return FeedPosition{}, errFeedPosition
	}
	p.Position = int64(n)
	return p, nil
}

// RestartOf returns the position from which a reader of the feed restarts, if err says
// that its cursor is of an older epoch. Reading from there, the reader misses no event
// of the present history.
func RestartOf(err error) (FeedPosition, bool) {
	var e *Error
	if errors.As(err, &e) && e.Code == CodeConflict && e.Reason == ReasonEpoch && e.Restart != nil {
		return *e.Restart, true
	}
	return FeedPosition{}, false
}

// InEpoch returns a context in which the number of a chunk that FollowMessage continues after is of
// an epoch: that of the frame it came with. Without it the number is of epoch 0.
func InEpoch(ctx context.Context, epoch int64) context.Context {
	return asked.With(ctx, asked.Epoch, epoch)
}
