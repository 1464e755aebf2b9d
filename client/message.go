package client

import (
	"context"
	"encoding/json"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
	"github.com/pawl-work/pawl/internal/asked"
)

// StartMessages opens messages; see pawl.Messenger.
func (c *Client) StartMessages(ctx context.Context, calls []pawl.StartCall) ([]pawl.Result[pawl.Message], error) {
	return batch(ctx, c, api.StartMessages, calls)
}

// OpenMessages opens messages that tasks have themselves; see pawl.Messenger.
func (c *Client) OpenMessages(ctx context.Context, calls []pawl.OpenCall) ([]pawl.Result[pawl.OpenedMessage], error) {
	return batch(ctx, c, api.OpenMessages, calls)
}

// Append adds chunks to open messages; see pawl.Messenger. A call that is sent again writes
// nothing twice.
func (c *Client) Append(ctx context.Context, calls []pawl.AppendCall) ([]pawl.Result[pawl.Appended], error) {
	return batch(ctx, c, api.Append, calls)
}

// StepMessages ends steps of messages; see pawl.Messenger.
func (c *Client) StepMessages(ctx context.Context, calls []pawl.StepCall) ([]pawl.Result[pawl.CheckpointRef], error) {
	return batch(ctx, c, api.StepMessages, calls)
}

// FinishMessages completes messages; see pawl.Messenger.
func (c *Client) FinishMessages(ctx context.Context, calls []pawl.FinishCall) ([]pawl.Result[pawl.Message], error) {
	return batch(ctx, c, api.FinishMessages, calls)
}

// StopMessages stops messages; see pawl.Stopper.
func (c *Client) StopMessages(ctx context.Context, calls []pawl.StopCall) ([]pawl.Result[pawl.Message], error) {
	return batch(ctx, c, api.StopMessages, calls)
}

// GetMessage reads a message; see pawl.MessageReader.
func (c *Client) GetMessage(ctx context.Context, id string) (pawl.Message, error) {
	return read[pawl.Message](ctx, c, "get_message", id, nil)
}

// ListMessages lists messages; see pawl.MessageReader.
func (c *Client) ListMessages(ctx context.Context, f pawl.MessageFilter) (pawl.List[pawl.Message], error) {
	return read[pawl.List[pawl.Message]](ctx, c, "list_messages", "", api.MessagesQueryOf(f))
}

// FollowMessage follows a message; see pawl.MessageReader. A stream that breaks is continued
// where it broke, from whichever server answers.
func (c *Client) FollowMessage(ctx context.Context, id string, after int64, fn func(pawl.MessageFrame) error) error {
	r := reader{after: after, epoch: asked.Of[int64](ctx, asked.Epoch), told: -1, fn: fn}
	l := listener{client: c, take: r.take, next: func() request {
		q := api.FollowQuery{After: int(r.after), Epoch: int(r.epoch)}
		if r.after < -1 {
			q = api.FollowQuery{After: -1, Last: int(-1 - r.after)}
		}
		return request{route: api.RouteOf("follow_message"), id: id, query: api.Values(q)}
	}}
	return l.listen(ctx)
}

// reader is a position in a message.
type reader struct {
	after int64 // the last chunk that was passed to fn
	epoch int64 // of after
	told  int64 // the end of the newest cut that was passed to fn
	fn    func(pawl.MessageFrame) error
	begun bool
}

func (r *reader) take(in frame) error {
	if !r.begun {
		r.begun = true
		if epoch, n, ok := api.ParseChunkPosition(in.id); ok && in.data == nil {
			r.after, r.epoch = n, epoch
		} else if r.after < -1 {
			r.after = -1 // it has no more chunks than that
		}
		if err := r.fn(pawl.MessageFrame{Offset: r.after + 1}); err != nil {
			return over{err}
		}
	}
	if in.data == nil {
		return nil
	}
	if epoch, n, ok := api.ParseChunkPosition(in.id); ok {
		r.epoch = epoch
		if in.event == api.FrameSnapshot {
			r.after, r.told = n, -1
		}
	}
	f := pawl.MessageFrame{Epoch: r.epoch, Offset: r.after + 1}
	var chunks api.ChunkFrame
	var into any
	switch in.event {
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
		return nil // a newer server sent it
	}
	if err := json.Unmarshal(in.data, into); err != nil {
		return err
	}
	if in.event == "" {
		f.Offset, f.Chunks = chunks.Offset, chunks.Chunks
		r.after = f.Last()
	}
	if f.Abandoned != nil {
		if f.Abandoned.To <= r.told {
			return nil // it was passed on before the stream broke
		}
		r.told = f.Abandoned.To
	}
	if err := r.fn(f); err != nil || f.End != nil {
		return over{err}
	}
	return nil
}
