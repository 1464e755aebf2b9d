package server

import (
	"bytes"
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/api"
)

// messages registers the calls for messages.
func (s *server) messages() {
	s.addVerb(verbOf(api.StartMessages), asAnswer)
	s.addVerb(verbOf(api.OpenMessages), asAnswer)
	s.addVerb(verbOf(api.Append), asAnswer)
	s.addVerb(verbOf(api.StepMessages), asAnswer)
	s.addVerb(verbOf(api.FinishMessages), asAnswer)
	s.addVerb(verbOf(api.StopMessages), asAnswer)
	s.ofMessage()
}

// ofMessage registers the reads of messages.
func (s *server) ofMessage() {
	add(s, "get_message", func(ctx context.Context, in *member) (*answer[pawl.Message], error) {
		return reply(s.svc.GetMessage(ctx, in.ID))
	})
	add(s, "list_messages", func(ctx context.Context, in *api.MessagesQuery) (*answer[pawl.List[pawl.Message]], error) {
		f, err := in.Filter()
		if err != nil {
			return nil, err
		}
		return page(s.svc.ListMessages(ctx, f))
	})
	add(s, "item_messages", func(ctx context.Context, in *struct {
		ID string `path:"id" doc:"The item's id."`
		api.MessageQuery
	}) (*answer[pawl.List[pawl.Message]], error) {
		f := in.Filter()
		f.ItemID = in.ID
		return page(s.svc.ListMessages(ctx, f))
	})
	add(s, "follow_message", func(_ context.Context, in *struct {
		ID          string `path:"id" doc:"The message's id."`
		LastEventID string `header:"Last-Event-ID" pattern:"^([0-9]{1,9}-)?[0-9]{1,18}$" doc:"The id of the last frame that is known: the number of its last chunk, after the first failover that lost something EPOCH-NUMBER."`
		api.FollowQuery
	}) (*huma.StreamResponse, error) {
		after, epoch := int64(in.After), int64(in.Epoch)
		if in.Last > 0 {
			after = -1 - int64(in.Last)
		}
		if e, n, ok := api.ParseChunkPosition(in.LastEventID); ok { // the pattern allows nothing else
			after, epoch = n, e
		}
		return s.streaming("follow_message", func(r *http.Request, st *stream) error {
			return s.follow(pawl.InEpoch(r.Context(), epoch), st, in.ID, after, frameOf)
		}), nil
	})
}

// follow answers with a message's frames, as frame converts them, until the message ends, the
// reader goes or the server stops. It returns an error only if the answer has not begun.
func (s *server) follow(ctx context.Context, st *stream, id string, after int64, frame func(pawl.MessageFrame) ([]byte, error)) error {
	ctx, gone := context.WithCancel(ctx)
	defer gone()
	defer context.AfterFunc(s.opts.Stopping, gone)()
	defer st.end()
	ctx, over, err := s.gate.BeginLongCall(ctx)
	if err != nil {
		return err
	}
	defer over()
	err = s.svc.FollowMessage(ctx, id, after, func(f pawl.MessageFrame) error {
		if !st.begun {
			at := ""
			if after < -1 && f.Offset > 0 {
				at = api.ChunkPosition(f.Epoch, f.Offset-1)
			}
			if err := st.begin(at, gone); err != nil {
				return err
			}
		}
		b, err := frame(f)
		if err != nil || len(b) == 0 {
			return err
		}
		return st.send(b)
	})
	switch {
	case st.begun:
		st.lapse(ctx)
		return nil // whatever ended it, the reader connects again
	case access.Ended(ctx) != nil:
		err = access.Ended(ctx)
	case err == nil:
		err = errStopping
	}
	return err
}

// frameOf writes a frame. Only frames of chunks have an id, the number of the last chunk, and in a
// later epoch than 0 snapshots. The very first frame is empty.
func frameOf(f pawl.MessageFrame) ([]byte, error) {
	switch {
	case f.Abandoned != nil:
		return named(api.FrameAbandoned, f.Abandoned), nil
	case f.Snapshot != nil:
		b := named(api.FrameSnapshot, f.Snapshot)
		if f.Epoch > 0 && f.Offset > 0 {
			b = append([]byte("id: "+api.ChunkPosition(f.Epoch, f.Offset-1)+"\n"), b...)
		}
		return b, nil
	case f.End != nil:
		return named(api.FrameEnd, f.End), nil
	case f.Chunks == nil:
		return nil, nil
	}
	return append([]byte("id: "+api.ChunkPosition(f.Epoch, f.Last())+"\n"), line(api.ChunkFrame{Offset: f.Offset, Chunks: f.Chunks})...), nil
}

func named(event string, v any) []byte { return append([]byte("event: "+event+"\n"), line(v)...) }

// line returns a value as data on one line.
func line(v any) []byte {
	var b bytes.Buffer
	_ = encode(&b, v) // frames always encode, and a buffer accepts all writes
	text := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	text = bytes.ReplaceAll(bytes.ReplaceAll(text, []byte("\n"), []byte(" ")), []byte("\r"), []byte(" ")) // only between tokens
	return append(append([]byte("data: "), text...), "\n\n"...)
}
