package pawl

import (
	"errors"
	"strconv"
	"strings"
)

// FeedPosition is a place in the feed: all events up to Position, in the order
// of one history of the database. The epoch rises when the database went back in
// time, for example after a failover that lost commits: positions above that
// point were then given to other events. Epoch 0 is the first.
type FeedPosition struct {
	Epoch    int64
	Position int64
}

// String reads "EPOCH-POSITION", for example "0-42".
func (p FeedPosition) String() string {
	return strconv.FormatInt(p.Epoch, 10) + "-" + strconv.FormatInt(p.Position, 10)
}

var errFeedPosition = errors.New("a position is EPOCH-POSITION, for example 0-42, or digits alone for epoch 0")

// ParseFeedPosition reads "EPOCH-POSITION"; digits alone are a position of epoch 0.
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

// ReasonEpoch is the reason of the conflict that a cursor of an older epoch
// answers; Error.Restart is the position to restart from.
const ReasonEpoch = "epoch"

// RestartOf is the position that a reader of the feed restarts from when err says
// that its cursor is of an older epoch: every event behind it is in the database's
// present history, and none that the reader has missed is before it.
func RestartOf(err error) (FeedPosition, bool) {
	var e *Error
	if errors.As(err, &e) && e.Code == CodeConflict && e.Reason == ReasonEpoch && e.Restart != nil {
		return *e.Restart, true
	}
	return FeedPosition{}, false
}
