package client

import (
	"context"
	"encoding/json"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
)

// FollowEvents follows the feed; see pawl.RecordReader. A stream that breaks is continued
// where it broke, from whichever server answers. Only the first connection has a limited
// number of tries.
func (c *Client) FollowEvents(ctx context.Context, f pawl.EventFilter,
	fn func(through pawl.FeedPosition, events []pawl.Event) error) error {
	f.Page = pawl.Page{}
	s := follower{fn: fn}
	if f.After != nil {
		s.after = pawl.FeedPosition{Epoch: f.Epoch, Position: *f.After}
	}
	s.through = s.after
	l := listener{client: c, take: s.take, next: func() request {
		s.events, s.through = nil, s.after // events that were not passed to fn are sent again
		f.After, f.Epoch = &s.after.Position, s.after.Epoch
		return request{route: api.RouteOf("list_events"), query: api.Values(api.EventsQueryOf(f))}
	}}
	return l.listen(ctx)
}

// follower is a position in the feed.
type follower struct {
	fn      func(pawl.FeedPosition, []pawl.Event) error
	after   pawl.FeedPosition // all events up to here were passed to fn
	through pawl.FeedPosition // all events up to here have been received
	events  []pawl.Event
	begun   bool
}

// take receives a frame. It passes on as many events at once as have come.
func (s *follower) take(f frame) error {
	if at, err := pawl.ParseFeedPosition(f.id); err == nil {
		s.through = at
	}
	if f.data != nil {
		var e pawl.Event
		if err := json.Unmarshal(f.data, &e); err != nil {
			return err
		}
		s.events = append(s.events, e)
	}
	if f.more && len(s.events) < pawl.MaxPage && s.begun {
		return nil
	}
	return s.hand()
}

// hand calls fn with the events received; the first time, also with the start.
func (s *follower) hand() error {
	if !s.begun {
		s.begun = true
		start := s.through
		if len(s.events) > 0 {
			start = pawl.FeedPosition{Epoch: s.through.Epoch, Position: max(s.after.Position, 0)}
		}
		if err := s.fn(start, nil); err != nil {
			return over{err}
		}
	}
	events, before := s.events, s.after
	s.after, s.events = s.through, nil
	if len(events) > 0 || s.after != before {
		if err := s.fn(s.after, events); err != nil {
			return over{err}
		}
	}
	return nil
}
