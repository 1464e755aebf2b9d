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

// StartMessages begins messages; see pawl.Messenger.
func (c *Client) StartMessages(ctx context.Context, calls []pawl.StartMessage) ([]pawl.Result[pawl.Message], error) {
	return batch[pawl.StartMessage, pawl.Message](ctx, c, "start_messages", calls)
}

// Append adds chunks to open messages; see pawl.Messenger. Sent again, it writes
// nothing twice.
func (c *Client) Append(ctx context.Context, calls []pawl.AppendCall) ([]pawl.Result[pawl.Appended], error) {
	return batch[pawl.AppendCall, pawl.Appended](ctx, c, "append_messages", calls)
}

// StepMessages ends steps of messages; see pawl.Messenger.
func (c *Client) StepMessages(ctx context.Context, calls []pawl.StepCall) ([]pawl.Result[pawl.CheckpointRef], error) {
	return batch[pawl.StepCall, pawl.CheckpointRef](ctx, c, "step_messages", calls)
}

// FinishMessages ends messages; see pawl.Messenger.
func (c *Client) FinishMessages(ctx context.Context, calls []pawl.FinishCall) ([]pawl.Result[pawl.Message], error) {
	return batch[pawl.FinishCall, pawl.Message](ctx, c, "finish_messages", calls)
}

// StopMessages stops messages; see pawl.Stopper.
func (c *Client) StopMessages(ctx context.Context, calls []pawl.StopCall) ([]pawl.Result[pawl.Message], error) {
	return batch[pawl.StopCall, pawl.Message](ctx, c, "stop_messages", calls)
}

// GetMessage reads a message; see pawl.MessageReader.
func (c *Client) GetMessage(ctx context.Context, id string) (pawl.Message, error) {
	return read[pawl.Message](ctx, c, "get_message", id, nil)
}

// ListMessages lists a conversation; see pawl.MessageReader.
func (c *Client) ListMessages(ctx context.Context, f pawl.MessageFilter) (pawl.List[pawl.Message], error) {
	return read[pawl.List[pawl.Message]](ctx, c, "list_messages", "", api.MessagesQueryOf(f))
}

const (
	// messageSilence is how long a message's stream may say nothing: servers say
	// something every fifteen seconds.
	messageSilence = 45 * time.Second
	// messagePause is the longest between two tries to get a stream back.
	messagePause = 5 * time.Second
)

// FollowMessage follows a message; see pawl.MessageReader. A stream that breaks is
// taken up again where it broke, from whichever server answers.
func (c *Client) FollowMessage(ctx context.Context, id string, after int64, fn func(pawl.MessageFrame) error) error {
	if c.bad != nil {
		return c.bad
	}
	l := listener{client: c, id: id, after: after, told: -1, fn: fn}
	pause, tries := 50*time.Millisecond, c.opts.Tries
	for {
		before := l.after
		err := l.stream(ctx)
		switch {
		case l.ended || l.refused != nil:
			return l.refused
		case ctx.Err() != nil:
			return nil
		case !errors.Is(err, pawl.ErrUnavailable):
			return err
		case l.after > before:
			pause = 50 * time.Millisecond
		case !l.begun:
			if tries--; tries <= 0 {
				return err
			}
		}
		select {
		case <-time.After(pause + rand.N(pause)):
		case <-ctx.Done():
			return nil
		}
		pause = min(2*pause, messagePause)
	}
}

// listener is a place in a message.
type listener struct {
	client  *Client
	id      string
	after   int64
	told    int64 // the end of the newest cut that fn was told of
	fn      func(pawl.MessageFrame) error
	begun   bool
	ended   bool
	refused error // fn's
}

// stream reads one stream until it breaks or the message has ended.
func (l *listener) stream(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	quiet := time.AfterFunc(messageSilence, cancel)
	defer quiet.Stop()
	r := request{route: api.RouteOf("follow_message"), id: l.id, query: api.Values(api.FollowQuery{After: int(l.after)})}
	req, err := http.NewRequestWithContext(ctx, r.route.Method, r.url(l.client.base), nil)
	if err != nil {
		return &pawl.Error{Code: pawl.CodeInvalid, Op: r.route.Name, Message: "cannot be asked for over HTTP", Err: err}
	}
	l.client.headers(req, &r)
	res, err := l.client.opts.HTTP.Do(req)
	if err != nil {
		return away(&r, err)
	}
	defer res.Body.Close()
	if kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); res.StatusCode != http.StatusOK || kind != "text/event-stream" {
		data, _ := io.ReadAll(io.LimitReader(res.Body, 1<<20)) // what came of it
		return refusal(&r, res, data)
	}
	if !l.begun {
		l.begun = true
		if l.refused = l.fn(pawl.MessageFrame{Offset: l.after + 1}); l.refused != nil {
			return nil
		}
	}
	return away(&r, l.read(res.Body, quiet))
}

// read hands over the frames of a stream.
func (l *listener) read(body io.Reader, quiet *time.Timer) error {
	in := bufio.NewReaderSize(body, 64<<10)
	var event, data string
	for !l.ended && l.refused == nil {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return err
		}
		quiet.Reset(messageSilence)
		name, value, _ := bytes.Cut(bytes.TrimRight(line, "\r\n"), []byte(":"))
		switch value = bytes.TrimPrefix(value, []byte(" ")); {
		case string(name) == "event":
			event = string(value)
		case string(name) == "data":
			data = string(value)
		case len(name) == 0 && len(value) == 0 && data != "": // the end of a frame
			if err := l.frame(event, data); err != nil {
				return err
			}
			event, data = "", ""
		}
	}
	return nil
}

func (l *listener) frame(event, data string) error {
	f := pawl.MessageFrame{Offset: l.after + 1}
	var chunks api.ChunkFrame
	var into any
	switch event {
	case "":
		into = &chunks
	case api.FrameAbandoned:
		f.Abandoned = &pawl.Cut{}
		into = f.Abandoned
	case api.FrameSnapshot:
		f.Snapshot = &pawl.Message{}
		into = f.Snapshot
	case api.FrameEnd:
		f.End = &pawl.MessageEnd{}
		into = f.End
	default:
		return nil // of a later server
	}
	if err := json.Unmarshal([]byte(data), into); err != nil {
		return err
	}
	if event == "" {
		f.Offset, f.Chunks = chunks.Offset, chunks.Chunks
		l.after = f.Last()
	}
	if f.Abandoned != nil {
		if f.Abandoned.To <= l.told {
			return nil // told before the stream broke
		}
		l.told = f.Abandoned.To
	}
	l.refused = l.fn(f)
	l.ended = f.End != nil
	return nil
}
