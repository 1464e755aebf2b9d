package server

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"strconv"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
)

// followUI answers with a message as a UI message stream, from its first chunk until it ends.
// If the stream ends before the message, the connection is aborted. The reader notices that,
// connects again and gets the whole message.
func (s *server) followUI(r *http.Request, st *stream, m pawl.Message) error {
	st.Header().Set(api.UIStreamHeader, api.UIStreamVersion)
	lapsed := st.lapsed
	st.lapsed = func() []byte {
		if lapsed() == nil {
			return nil
		}
		return line(uiChunk{Type: "error", ErrorText: "the API key is not good any more"})
	}
	ui := newUIStream(m, func() string { return s.whyFailed(r.Context(), m.ItemID) })
	err := s.follow(r.Context(), st, m.ID, -1, ui.frame)
	if err != nil {
		st.Header().Del(api.UIStreamHeader)
		return err
	}
	if !ui.ended && r.Context().Err() == nil {
		panic(http.ErrAbortHandler)
	}
	return nil
}

// tailCut reports whether the end of a message was cut off.
func tailCut(m *pawl.Message) bool {
	parts, _ := m.Parts() // content that cannot be read has no parts
	n := len(parts)
	if n > 0 && parts[n-1].Status == pawl.PartStreaming && *parts[n-1].Text == "" { // an open part without text yet
		n--
	}
	return n > 0 && parts[n-1].Status == pawl.PartAbandoned
}

// whyFailed returns the error of the message's item, or a general text.
func (s *server) whyFailed(ctx context.Context, itemID string) string {
	if it, err := s.svc.GetItem(ctx, itemID); err == nil && it.Error != nil && it.Error.Message != "" {
		return it.Error.Message
	}
	return "the reply has come to an error"
}

// uiStream converts a message's frames into the chunks of the AI SDK's UI message stream. The
// result is the same each time the message is followed: parts are named by the number of their
// first chunk. A step begins with the first chunk, and with each chunk that follows tool
// results or a cut.
type uiStream struct {
	id     string
	known  int64 // how many chunks existed at the start: they are sent without what was cut off
	tail   bool  // the last of them were cut off; the cut comes after them
	reason func() string
	held   []said // chunks that are not cut off, until all known ones have come
	fresh  bool   // the next chunk follows a cut

	out     bytes.Buffer
	started bool
	epoch   int64 // of its numbers
	ended   bool
	at      int64  // the number of the next chunk
	from    int64  // the first chunk of the current step
	step    []said // the chunks of the current step; nil = no step is open
	part    string // the kind of the open part; "" = none
	partID  string
	called  map[string]int64 // the current tool calls, with the number of the chunk that first had them
}

func newUIStream(m pawl.Message, reason func() string) *uiStream {
	return &uiStream{id: m.ID, known: m.Offset, tail: tailCut(&m), called: map[string]int64{}, reason: reason}
}

// said is a chunk with its number.
type said struct {
	n     int64
	fresh bool // it follows a cut
	chunk pawl.Chunk
}

// uiData begins the type of a part that the application defines.
const uiData = "data-"

// uiChunk is a chunk of the UI message stream.
type uiChunk struct {
	Type         string          `json:"type"`
	MessageID    string          `json:"messageId,omitempty"`
	ID           string          `json:"id,omitempty"`
	Delta        string          `json:"delta,omitempty"`
	ToolCallID   string          `json:"toolCallId,omitempty"`
	ToolName     string          `json:"toolName,omitempty"`
	Input        json.RawMessage `json:"input,omitempty"`
	Output       json.RawMessage `json:"output,omitempty"`
	ErrorText    string          `json:"errorText,omitempty"`
	MediaType    string          `json:"mediaType,omitempty"`
	URL          string          `json:"url,omitempty"`
	Data         json.RawMessage `json:"data,omitempty"`
	Transient    bool            `json:"transient,omitempty"`
	FinishReason string          `json:"finishReason,omitempty"`
}

// errCutBefore ends a stream when a step before the current one was cut off: a client can undo
// only one step. The client's next stream leaves out what was cut off.
var errCutBefore = errors.New("a step that was already sent was cut off")

// errWentBack ends a stream when the database went back in time: a client cannot undo all that it
// was sent. Its next stream has the message as it is now.
var errWentBack = errors.New("the database went back in time")

func (u *uiStream) emit(c uiChunk) { u.out.Write(line(c)) }

// frame returns what is sent for a frame.
func (u *uiStream) frame(f pawl.MessageFrame) ([]byte, error) {
	u.out.Reset()
	if !u.started {
		u.started, u.epoch = true, f.Epoch
		u.emit(uiChunk{Type: "start", MessageID: u.id})
	}
	if f.Epoch != u.epoch {
		return nil, errWentBack
	}
	for i, c := range f.Chunks {
		u.at = f.Offset + int64(i) + 1
		u.take(said{u.at - 1, u.fresh, c})
		u.fresh = false
	}
	switch {
	case f.Abandoned != nil:
		if err := u.cut(f.Abandoned); err != nil {
			return nil, err
		}
	case f.Snapshot != nil:
		u.whole(f.Snapshot)
	case f.End != nil:
		u.end(f.End.Status)
	}
	return u.out.Bytes(), nil
}

// take sends a chunk, or holds it until all known chunks have come.
func (u *uiStream) take(s said) {
	if s.n < u.known {
		u.held = append(u.held, s)
		if u.at == u.known && !u.tail {
			u.release()
		}
		return
	}
	u.say(s)
}

func (u *uiStream) release() {
	held := u.held
	u.held = nil
	for _, s := range held {
		u.say(s)
	}
}

// say sends a chunk, in a new step where one begins.
func (u *uiStream) say(s said) {
	if n := len(u.step); n > 0 && (s.fresh || u.step[n-1].chunk.Type == pawl.ChunkToolResult && s.chunk.Type != pawl.ChunkToolResult) {
		u.endStep()
	}
	if u.step == nil {
		u.from = s.n
		u.emit(uiChunk{Type: "start-step"})
	}
	u.step = append(u.step, s)
	u.tell(s)
}

func (u *uiStream) tell(s said) {
	c := &s.chunk
	if c.Type == pawl.ChunkText || c.Type == pawl.ChunkReasoning {
		if u.part != c.Type {
			u.endPart()
			u.part, u.partID = c.Type, strconv.FormatInt(s.n, 10)
			u.emit(uiChunk{Type: c.Type + "-start", ID: u.partID})
		}
		if c.Text != "" {
			u.emit(uiChunk{Type: c.Type + "-delta", ID: u.partID, Delta: string(c.Text)})
		}
		return
	}
	u.endPart()
	switch c.Type {
	case pawl.ChunkToolCall:
		u.call(s.n, c.ToolCallID, c.ToolName, c.Input)
	case pawl.ChunkToolResult:
		if _, known := u.called[c.ToolCallID]; !known { // the call was in an attempt that was cut off, and a client needs it before the result
			u.call(s.n, c.ToolCallID, c.ToolName, nil)
		}
		if c.IsError {
			u.emit(uiChunk{Type: "tool-output-error", ToolCallID: c.ToolCallID, ErrorText: cmp.Or(textOf(c.Output), "error")})
		} else {
			u.emit(uiChunk{Type: "tool-output-available", ToolCallID: c.ToolCallID, Output: orNull(c.Output)})
		}
	case pawl.ChunkFile:
		u.emit(uiChunk{Type: "file", MediaType: c.MediaType, URL: c.URL})
	case pawl.ChunkData:
		u.emit(dataOf(c.Data))
	case pawl.ChunkError:
		text, _ := json.Marshal(map[string]string{"text": string(c.Text)}) // text always encodes
		u.emit(uiChunk{Type: uiData + pawl.ChunkError, Data: text})
	}
}

func (u *uiStream) call(n int64, id, tool string, input json.RawMessage) {
	if _, known := u.called[id]; !known {
		u.called[id] = n
	}
	u.emit(uiChunk{Type: "tool-input-available", ToolCallID: id, ToolName: cmp.Or(tool, "unknown"), Input: orNull(input)})
}

// dataOf converts data to a client's part: its own type if the data names one, else a value.
func dataOf(raw json.RawMessage) uiChunk {
	var own struct {
		Type string
		ID   string
		Data json.RawMessage
	}
	if err := json.Unmarshal(raw, &own); err == nil && len(own.Type) > len(uiData) && strings.HasPrefix(own.Type, uiData) {
		return uiChunk{Type: own.Type, ID: own.ID, Data: orNull(own.Data)}
	}
	return uiChunk{Type: uiData + "value", Data: orNull(raw)}
}

// textOf returns a value as text: a string as it is, all else as JSON.
func textOf(raw json.RawMessage) string {
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return string(raw)
	}
	return text
}

func (u *uiStream) endPart() {
	if u.part != "" {
		u.emit(uiChunk{Type: u.part + "-end", ID: u.partID})
		u.part = ""
	}
}

func (u *uiStream) endStep() {
	u.endPart()
	if u.step != nil {
		u.emit(uiChunk{Type: "finish-step"})
		u.step = nil
	}
}

// cut removes what was cut off: from the held chunks, or from the current step, whose other
// chunks are sent again.
func (u *uiStream) cut(c *pawl.Cut) error {
	u.fresh = true
	for n := len(u.held); n > 0 && u.held[n-1].n >= c.From; n-- {
		u.held = u.held[:n-1]
	}
	if u.tail && c.To >= u.known {
		u.tail = false
		u.release()
		return nil
	}
	if u.step == nil {
		return nil
	}
	if c.From < u.from {
		return errCutBefore
	}
	again := u.step
	for n := len(again); n > 0 && again[n-1].n >= c.From; n-- {
		again = again[:n-1]
	}
	maps.DeleteFunc(u.called, func(_ string, n int64) bool { return n >= u.from }) // calls that remain are sent again
	u.emit(uiChunk{Type: "reset-step"})
	data, _ := json.Marshal(c) // three numbers always encode
	u.emit(uiChunk{Type: uiData + api.FrameAbandoned, Data: data, Transient: true})
	u.part, u.step = "", again
	for _, s := range again {
		u.tell(s)
	}
	u.endPart()
	return nil
}

// whole sends a message whose chunks are deleted, part by part.
func (u *uiStream) whole(m *pawl.Message) {
	parts, _ := m.Parts() // content that cannot be read has no parts
	for i, p := range parts {
		if p.Status == pawl.PartAbandoned {
			continue
		}
		c := pawl.Chunk{Type: strings.ReplaceAll(p.Type, "-", "_"), ToolCallID: p.ToolCallID, ToolName: p.ToolName,
			Input: p.Input, Output: p.Output,
			IsError: p.IsError, MediaType: p.MediaType, URL: p.URL, Data: p.Data}
		if p.Text != nil {
			c.Text = pawl.Words(*p.Text)
		}
		u.endPart()
		u.say(said{int64(i), i > 0 && parts[i-1].Status == pawl.PartAbandoned, c})
	}
}

// end sends how the message ended.
func (u *uiStream) end(status pawl.MessageState) {
	u.release()
	u.endStep()
	switch status {
	case pawl.MessageStopped:
		u.emit(uiChunk{Type: "abort"})
		u.emit(uiChunk{Type: "finish", FinishReason: "interrupted"})
	case pawl.MessageError:
		u.emit(uiChunk{Type: "error", ErrorText: u.reason()})
	default:
		u.emit(uiChunk{Type: "finish", FinishReason: "stop"})
	}
	u.out.WriteString("data: [DONE]\n\n")
	u.ended = true
}
