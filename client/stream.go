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
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
)

const (
	// silence is how long a stream may send nothing before it is requested again: servers
	// send something every fifteen seconds.
	silence = 45 * time.Second
	// shortestPause and longestPause bound the pause before a stream is requested again.
	shortestPause = 50 * time.Millisecond
	longestPause  = 5 * time.Second
)

// frame is what a stream sends between two empty lines. A keep-alive frame is empty.
type frame struct {
	id, event string
	data      []byte
	more      bool // the next frame has been received already
}

// over ends a stream for good: with an error of the receiver or the server, or with none when
// nothing more comes.
type over struct{ err error }

func (over) Error() string { return "the stream is over" }

// listener receives the frames of a stream, and requests the stream again when it breaks.
type listener struct {
	client *Client
	next   func() request    // makes the request for what follows the frames received so far
	take   func(frame) error // an error that is not over breaks the stream
	begun  bool              // a server has answered
	moved  bool              // a frame with content has come since the last request
}

// listen receives frames until the stream is over or the context ends. Only the first
// connection has a limited number of tries.
func (l *listener) listen(ctx context.Context) error {
	if l.client.bad != nil {
		return l.client.bad
	}
	pause, tries := shortestPause, l.client.opts.Tries
	for {
		l.moved = false
		err := l.stream(ctx)
		var done over
		switch {
		case errors.As(err, &done):
			return done.err
		case ctx.Err() != nil:
			return nil
		case !errors.Is(err, pawl.ErrUnavailable) && !errors.Is(err, pawl.ErrLimit):
			return err
		case l.moved:
			pause = shortestPause
		case !l.begun:
			if tries--; tries <= 0 {
				return err
			}
		}
		wait := pause + rand.N(pause)
		var e *pawl.Error
		if errors.As(err, &e) && e.RetryAfter > longestWait {
			return err
		} else if e != nil {
			wait = max(wait, e.RetryAfter)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil
		}
		pause = min(2*pause, longestPause)
	}
}

// stream reads one stream until it breaks or is over.
func (l *listener) stream(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	quiet := time.AfterFunc(silence, cancel)
	defer quiet.Stop()
	r := l.next()
	req, err := http.NewRequestWithContext(ctx, r.route.Method, r.url(l.client.base), nil)
	if err != nil {
		return &pawl.Error{Code: pawl.CodeInvalid, Op: r.route.Name, Message: "cannot be asked for over HTTP", Err: err}
	}
	l.client.headers(req, &r)
	req.Header.Set("Accept", "text/event-stream")
	res, err := l.client.opts.HTTP.Do(req)
	if err != nil {
		return away(&r, err)
	}
	defer res.Body.Close()
	if kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); res.StatusCode != http.StatusOK || kind != "text/event-stream" {
		data, _ := io.ReadAll(io.LimitReader(res.Body, 1<<20)) // a partial body is enough for the error
		return refusal(&r, res, data)
	}
	l.begun = true
	return away(&r, l.read(res.Body, quiet))
}

// read parses a stream into frames.
func (l *listener) read(body io.Reader, quiet *time.Timer) error {
	in := bufio.NewReaderSize(body, 64<<10)
	var f frame
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
		case len(line) == 0 && f.event == api.FrameRefused:
			var p api.Problem
			if err := json.Unmarshal(f.data, &p); err != nil {
				return err
			}
			return over{p.Err()}
		case len(line) == 0:
			f.more = in.Buffered() > 0
			l.moved = l.moved || f.id != "" || f.data != nil
			if err := l.take(f); err != nil {
				return err
			}
			f = frame{}
		case string(name) == "id":
			f.id = string(value)
		case string(name) == "event":
			f.event = string(value)
		case string(name) == "data":
			f.data = append(append(f.data, value...), '\n')
		}
	}
}
