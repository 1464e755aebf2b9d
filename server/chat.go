package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
)

// chats registers the interface for clients of the AI SDK. A chat is a thread. What the client
// sends creates a task with the user's message and an open reply. The answer streams that
// reply while the worker that claimed the item writes it.
func (s *server) chats() {
	add(s, "chat", func(_ context.Context, in *struct {
		Type string `path:"type" doc:"The type of the task that is made."`
		Body api.Chat
	}) (*huma.StreamResponse, error) {
		return s.streaming("chat", func(r *http.Request, st *stream) error {
			if r.Header.Get(api.KeyHeader) != "" {
				return &pawl.Error{Code: pawl.CodeInvalid, Message: "the message's own id is the key of this call; send it without " + api.KeyHeader}
			}
			reply, err := s.send(r.Context(), in.Type, &in.Body)
			if err != nil {
				return err
			}
			in.Body = api.Chat{} // it may be large, and the reply may take long
			return s.followUI(r, st, reply)
		}), nil
	})
	add(s, "resume_chat", func(_ context.Context, in *struct {
		Type string `path:"type" doc:"The type of the chat's tasks."`
		Chat string `path:"chat" doc:"The chat's id, which is its thread."`
	}) (*huma.StreamResponse, error) {
		return s.streaming("resume_chat", func(r *http.Request, st *stream) error {
			reply, err := s.newest(r.Context(), in.Chat, pawl.MessageStreaming)
			switch {
			case err != nil:
				return err
			case reply == nil:
				st.WriteHeader(http.StatusNoContent)
				return nil
			}
			return s.followUI(r, st, *reply)
		}), nil
	})
}

// streaming returns an answer that fn writes, as the rest of its call. If fn returns an error,
// it has written nothing yet, and the error is the answer.
func (s *server) streaming(route string, fn func(*http.Request, *stream) error) *huma.StreamResponse {
	return &huma.StreamResponse{Body: func(c huma.Context) {
		r, _ := humachi.Unwrap(c)
		callOf(r.Context()).rest = func(w http.ResponseWriter, _ *http.Request) {
			defer s.metrics.streaming(route)()
			if err := fn(r, s.opened(r.Context(), w, r, route)); err != nil {
				s.write(w, r, err)
			}
		}
	}}
}

// send creates the task for what the client sent, unless an earlier call created it, and
// returns the reply to it.
func (s *server) send(ctx context.Context, kind string, c *api.Chat) (pawl.Message, error) {
	last, err := lastOf(c)
	if err != nil {
		return pawl.Message{}, err
	}
	known, err := s.svc.ListMessages(ctx, pawl.MessageFilter{Thread: c.ID, Page: pawl.Page{Limit: 1}})
	if err != nil {
		return pawl.Message{}, err
	}
	if c.Trigger == api.ChatRegenerate && c.MessageID == "" { // the newest; an open reply to this message is the answer
		m, err := s.newest(ctx, c.ID, "")
		switch {
		case err != nil:
			return pawl.Message{}, err
		case m != nil && m.Status == pawl.MessageStreaming && api.MarkOf(*m).ReplyTo == last.ID:
			return *m, nil
		case m != nil:
			c.MessageID = m.ID
		}
	}
	t := pawl.NewTask{Type: kind, Thread: c.ID, Reply: &pawl.Reply{Metadata: mark(api.ChatMark{ReplyTo: last.ID})}}
	_ = json.Unmarshal(c.Rest["model"], &t.Reply.Model) // a value that is not text names no model
	if c.MessageID != "" {
		c.Rest["messageId"], _ = json.Marshal(c.MessageID) // text always marshals
	}
	t.Payload, _ = json.Marshal(c.Rest) // it was read as JSON
	switch {
	case len(known.Items) == 0: // a new thread: the messages that the client already has are stored too
		t.Messages, err = saidIn(c.Messages)
	case c.Trigger == api.ChatSubmit:
		t.Messages, err = saidIn(c.Messages[len(c.Messages)-1:])
	}
	if err != nil {
		return pawl.Message{}, err
	}
	t.InputHash, err = pawl.HashOf(struct {
		Thread, Trigger, ID, Of string
		Parts                   []json.RawMessage
	}{c.ID, c.Trigger, last.ID, c.MessageID, last.Parts})
	if err != nil {
		return pawl.Message{}, err
	}
	task, err := one(s.svc.CreateTasks(ctx, []pawl.NewTask{t}))
	if err != nil {
		return pawl.Message{}, err
	}
	return s.replyOf(ctx, task.ID)
}

// lastOf returns the client's last message, and checks the call.
func lastOf(c *api.Chat) (*api.UIMessage, error) {
	if c.ID == "" {
		return nil, pawl.Invalid("/id", "is required: it names the chat")
	}
	if c.Trigger != api.ChatSubmit && c.Trigger != api.ChatRegenerate {
		return nil, pawl.Invalid("/trigger", "is %q, neither %s nor %s", c.Trigger, api.ChatSubmit, api.ChatRegenerate)
	}
	if len(c.Messages) == 0 {
		return nil, pawl.Invalid("/messages", "is required")
	}
	at := len(c.Messages) - 1
	last := &c.Messages[at]
	switch {
	case last.Role != pawl.RoleUser:
		return nil, pawl.Invalid(fmt.Sprintf("/messages/%d/role", at),
			"is %q: a reply is to what a user said; results of tools come from whoever writes the reply", last.Role)
	case last.ID == "":
		return nil, pawl.Invalid(fmt.Sprintf("/messages/%d/id", at), "is required: by it the message is known when it is sent again")
	}
	return last, nil
}

// newest returns the newest agent message of a thread, of this status if one is given; nil =
// there is none.
func (s *server) newest(ctx context.Context, thread string, status pawl.MessageState) (*pawl.Message, error) {
	f := pawl.MessageFilter{Thread: thread, Page: pawl.Page{Limit: 1000}}
	if status != "" {
		f.Statuses = []pawl.MessageState{status}
	}
	var found *pawl.Message
	for {
		l, err := s.svc.ListMessages(ctx, f)
		if err != nil {
			return nil, err
		}
		for i := range l.Items {
			if l.Items[i].Role == pawl.RoleAssistant {
				found = &l.Items[i]
			}
		}
		if f.Cursor = l.Next; f.Cursor == "" {
			return found, nil
		}
	}
}

// replyOf returns the reply that a task was created with.
func (s *server) replyOf(ctx context.Context, taskID string) (pawl.Message, error) {
	l, err := s.svc.ListMessages(ctx, pawl.MessageFilter{TaskID: taskID, Page: pawl.Page{Limit: 1000}})
	for _, m := range l.Items {
		if api.MarkOf(m).ReplyTo != "" {
			return m, nil
		}
	}
	if err == nil { // another call created a task with the same hash as the chat's
		err = &pawl.Error{Code: pawl.CodeConflict, Message: "task " + taskID + " has the same input_hash and no reply"}
	}
	return pawl.Message{}, err
}

func mark(m api.ChatMark) json.RawMessage {
	b, _ := json.Marshal(map[string]api.ChatMark{"chat": m}) // its raw values were read as JSON
	return b
}

// saidIn converts a client's messages to the form in which Pawl stores them.
func saidIn(messages []api.UIMessage) ([]pawl.NewMessage, error) {
	out := make([]pawl.NewMessage, len(messages))
	for i, m := range messages {
		parts := []json.RawMessage{}
		for n, raw := range m.Parts {
			kept, err := keptPart(raw)
			if err != nil {
				return nil, pawl.Invalid(fmt.Sprintf("/messages/%d/parts/%d", i, n), "%v", errNoPart)
			}
			parts = append(parts, kept...)
		}
		content, _ := json.Marshal(parts) // raw values that were read as JSON
		out[i] = pawl.NewMessage{Role: m.Role, Content: content, Metadata: mark(api.ChatMark{ID: m.ID, Metadata: m.Metadata})}
	}
	return out, nil
}

var errNoPart = errors.New("is no part of a message")

// keptPart converts a client's part to Pawl's parts. A tool call and its result become two
// parts. A part that Pawl does not know is stored unchanged.
func keptPart(raw json.RawMessage) ([]json.RawMessage, error) {
	var p struct {
		Type, Text, ToolCallID, ToolName, State, ErrorText string
		Input, Output                                      json.RawMessage
	}
	if err := json.Unmarshal(raw, &p); err != nil || p.Type == "" {
		return nil, errors.Join(err, errNoPart)
	}
	name, tool := strings.CutPrefix(p.Type, "tool-")
	if p.Type == "dynamic-tool" {
		name, tool = p.ToolName, true
	}
	var kept []pawl.MessagePart
	switch {
	case p.Type == "step-start":
		return nil, nil
	case p.Type == pawl.ChunkText || p.Type == pawl.ChunkReasoning:
		kept = []pawl.MessagePart{{Type: p.Type, Text: &p.Text}}
	case strings.HasPrefix(p.Type, uiData):
		kept = []pawl.MessagePart{{Type: pawl.ChunkData, Data: raw}}
	case tool:
		kept = []pawl.MessagePart{{Type: "tool-call", ToolCallID: p.ToolCallID, ToolName: name, Input: p.Input}}
		switch p.State {
		case "output-available":
			kept = append(kept, pawl.MessagePart{Type: "tool-result", ToolCallID: p.ToolCallID, ToolName: name, Output: p.Output})
		case "output-error":
			text, _ := json.Marshal(p.ErrorText)
			kept = append(kept, pawl.MessagePart{Type: "tool-result", ToolCallID: p.ToolCallID, ToolName: name, Output: text, IsError: true})
		}
	default:
		return []json.RawMessage{raw}, nil
	}
	out := make([]json.RawMessage, len(kept))
	for i := range kept {
		out[i], _ = json.Marshal(kept[i]) // raw values that were read as JSON
	}
	return out, nil
}
