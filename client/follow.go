package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"mime"
	"net/http"
	"strconv"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
)

const (
	// silence is how long a stream may say nothing: servers say something every
	// fifteen seconds.
	silence = 45 * time.Second
	// longestPause is between two tries to get a stream back.
	longestPause = 10 * time.Second
)

// FollowEvents follows the feed; see pawl.RecordReader. A stream that breaks is
// taken up again where it broke, from whichever server answers; only the first
// must answer soon.
func (c *Client) FollowEvents(ctx context.Context, f pawl.EventFilter, fn func(through int64, events []pawl.Event) error) error {
	if c.bad != nil {
		return c.bad
	}
	f.Page = pawl.Page{}
	s := follower{client: c, filter: f, fn: fn}
	if f.After != nil {
		s.after = *f.After
	}
	pause, tries := 50*time.Millisecond, c.opts.Tries
	for {
		got, err := s.stream(ctx)
		switch {
		case s.refused != nil:
			return s.refused
		case ctx.Err() != nil:
			return nil
		case got:
			pause = 50 * time.Millisecond
		case !s.begun:
			if tries--; tries <= 0 || !errors.Is(err, pawl.ErrUnavailable) {
				return err
			}
		case !errors.Is(err, pawl.ErrUnavailable):
			return err
		}
		select {
		case <-time.After(pause + rand.N(pause)):
		case <-ctx.Done():
			return nil
		}
		pause = min(2*pause, longestPause)
	}
}

// follower is a place in the feed.
type follower struct {
	client  *Client
	filter  pawl.EventFilter
	fn      func(int64, []pawl.Event) error
	after   int64
	begun   bool
	refused error // fn's
}

// stream reads one stream until it breaks, and says whether anything came of it.
func (s *follower) stream(ctx context.Context) (got bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	quiet := time.AfterFunc(silence, cancel)
	defer quiet.Stop()
	s.filter.After = &s.after
	r := request{route: api.RouteOf("list_events"), query: api.Values(api.EventsQueryOf(s.filter))}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url(s.client.base), nil)
	if err != nil {
		return false, &pawl.Error{Code: pawl.CodeInvalid, Op: "follow_events", Message: "cannot be asked for over HTTP", Err: err}
	}
	s.client.headers(req, &r)
	req.Header.Set("Accept", "text/event-stream")
	if s.after >= 0 {
		req.Header.Set("Last-Event-ID", strconv.FormatInt(s.after, 10))
	}
	res, err := s.client.opts.HTTP.Do(req)
	if err != nil {
		return false, away(&r, err)
	}
	defer res.Body.Close()
	if kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); res.StatusCode != http.StatusOK || kind != "text/event-stream" {
		data, _ := io.ReadAll(io.LimitReader(res.Body, 1<<20))
		return false, refusal(&r, res, data)
	}
	return true, away(&r, s.read(res.Body, quiet))
}

// read hands over the events of a stream, as many at once as have come.
func (s *follower) read(body io.Reader, quiet *time.Timer) error {
	in := bufio.NewReaderSize(body, 64<<10)
	var events []pawl.Event
	var data []byte
	through := s.after
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return err
		}
		quiet.Reset(silence)
		line = bytes.TrimRight(line, "\r\n")
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch {
		case len(line) == 0: // the end of a frame
		case string(name) == "id":
			if n, err := strconv.ParseInt(string(value), 10, 64); err == nil {
				through = n
			}
			continue
		case string(name) == "data":
			data = append(append(data, value...), '\n')
			continue
		default: // a comment
			continue
		}
		if len(data) > 0 {
			var e pawl.Event
			if err := json.Unmarshal(data, &e); err != nil {
				return err
			}
			events, data = append(events, e), nil
		}
		if in.Buffered() > 0 && len(events) < pawl.MaxPage && s.begun {
			continue
		}
		if err := s.hand(through, events); err != nil {
			return err
		}
		events = nil
	}
}

// hand tells fn, of the beginning once.
func (s *follower) hand(through int64, events []pawl.Event) error {
	if !s.begun {
		s.begun = true
		start := through
		if len(events) > 0 {
			start = max(s.after, 0)
		}
		if s.refused = s.fn(start, nil); s.refused != nil {
			return s.refused
		}
	}
	s.after = through
	if len(events) > 0 {
		s.refused = s.fn(through, events)
	}
	return s.refused
}
