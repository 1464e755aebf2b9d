package engine

import (
	"context"
	"slices"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/idform"
	"github.com/pawl-work/pawl/store"
)

const (
	// feedCursor is the prefix of cursors of pages in feed order.
	feedCursor = "pos_"
	// feedScan is how many positions one page reads at most.
	feedScan = 10_000
)

// FollowEvents follows the feed; see pawl.RecordReader. The events are shared with other
// followers: do not change what they point to.
func (e *Engine) FollowEvents(
	ctx context.Context,
	q pawl.EventFilter,
	fn func(through pawl.FeedPosition, events []pawl.Event) error,
) error {
	idform.In(&q)
	q.Page = pawl.Page{}
	match, after, err := e.inFeed(ctx, &q) // copies of it would be on the stack as long as the reader waits
	if err != nil {
		return err
	}
	defer e.feed.Follow()()
	if err := fn(after, nil); err != nil {
		return err
	}
	for {
		events, through, err := e.feed.Next(ctx, after, pawl.MaxPage)
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			err = e.k.Base.Moves.Refuse(ctx)
		}
		if err != nil {
			return err
		}
		after = through
		if err := fn(through, matching(events, match)); err != nil {
			return err
		}
	}
}

// feedPage returns a page, in feed order, of the events that were committed before the
// call.
func (e *Engine) feedPage(ctx context.Context, q pawl.EventFilter) (pawl.List[pawl.Event], error) {
	out := pawl.List[pawl.Event]{Items: []pawl.Event{}}
	match, after, err := e.inFeed(ctx, &q)
	if err != nil {
		return out, err
	}
	head, bytes := e.feed.Newest(), 0
	for from := after.Position; err == nil && after.Position < head && after.Position-from < feedScan &&
		len(out.Items) < q.Limit && bytes < pawl.MaxPageBytes; {
		var events []pawl.Event
		if events, after, err = e.feed.Page(ctx, after, pawl.MaxPage); err != nil {
			break
		}
		for _, ev := range matching(events, match) {
			if len(out.Items) == q.Limit || bytes >= pawl.MaxPageBytes {
				after.Position = out.Items[len(out.Items)-1].Position
				break
			}
			out.Items = append(out.Items, ev)
			bytes += len(ev.Data) + len(ev.Diff) + len(ev.Message)
		}
	}
	if after.Position < head {
		out.Next = feedCursor + after.String()
	}
	return out, err
}

// inFeed translates a filter for the feed: which events match, and after which position
// to read. It refuses a call inside a transaction, because the feed has only committed
// events and reading it may write.
func (e *Engine) inFeed(ctx context.Context, asked *pawl.EventFilter) (match func(*pawl.Event) bool, after pawl.FeedPosition, err error) {
	q := *asked
	if err := e.notInTx("follow"); err != nil {
		return nil, after, err
	}
	if q.After != nil {
		after = pawl.FeedPosition{Epoch: q.Epoch, Position: *q.After}
	}
	if q.Cursor != "" {
		if after, err = pawl.ParseFeedPosition(strings.TrimPrefix(q.Cursor, feedCursor)); err != nil {
			return nil, after, pawl.Invalid("/cursor", "is not a cursor of this list")
		}
	}
	if after.Position < pawl.FeedEnd {
		return nil, after, pawl.Invalid("/after", "is a position, 0 for the beginning or -1 for the end")
	}
	ns := pawl.CallerOf(ctx).Namespace
	err = e.db.View(ctx, func(ctx context.Context, tx store.Tx) error { return recorded(ctx, tx, ns, q) })
	if err == nil {
		after, err = e.feed.Begin(ctx, after)
	}
	return func(ev *pawl.Event) bool {
		return ev.Namespace == ns &&
			(q.TaskID == "" || ev.TaskID == q.TaskID) &&
			(q.ItemID == "" || ev.ItemID == q.ItemID) &&
			(q.Event == "" || ev.Event == q.Event) &&
			(len(q.Types) == 0 || slices.Contains(q.Types, ev.TaskType)) &&
			(q.Since.IsZero() || !ev.CreatedAt.Before(q.Since)) &&
			(q.Until.IsZero() || ev.CreatedAt.Before(q.Until))
	}, after, err
}

// matching returns the events that match. It copies them only if some do not match.
func matching(events []pawl.Event, match func(*pawl.Event) bool) []pawl.Event {
	for i := range events {
		if match(&events[i]) {
			continue
		}
		out := append([]pawl.Event{}, events[:i]...)
		for j := range events[i+1:] {
			if ev := &events[i+1+j]; match(ev) {
				out = append(out, *ev)
			}
		}
		return out
	}
	return events
}
