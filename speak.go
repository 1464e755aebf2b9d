package pawl

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"unicode/utf8"
)

// MessageWriter writes a message while it is being made. What it is told is sent
// together with what follows within a moment (worker.Options.FlushEvery, 100 ms)
// or at once when it is much; at the latest Step and Finish have all of it
// accepted, and a handler that returns. When the connection or the database is
// away it is sent again, without loss or repetition. Safe for concurrent use.
//
// Its methods answer with what became of earlier ones: ErrStopped, an error that
// matches ErrLeaseLost, or why the server refused what was said, after which the
// message takes no more.
//
// A message that an earlier attempt finished takes what is said again and keeps
// what it has: see Ended.
type MessageWriter struct {
	ref MessageRef
	ctx context.Context
	pen Pen // nil: it has ended

	mu   sync.Mutex
	kind string // of the text under way
	half string // the bytes of a character of it that is not whole yet
}

// StartMessage goes on with the open message of a handler's item (the reply that
// its task was made with, or the one that an earlier attempt was writing) or
// begins one, with role assistant in the task's thread. r is for one that is
// begun. An item has one open message at a time, so finish it before the next.
//
// The n-th StartMessage of an attempt is the n-th message of its item: call it in
// the same order in every attempt. In a message that goes on, what was said of a
// step that did not end is marked abandoned by the first word said now: begin
// with the step behind StepNumber. When the message was stopped, the answer is
// ErrStopped; return it.
func StartMessage(ctx context.Context, r Reply) (*MessageWriter, error) {
	h, err := handlingOf(ctx)
	if err != nil {
		return nil, err
	}
	h.speaking.Lock()
	defer h.speaking.Unlock()
	if err := h.readBegun(ctx); err != nil {
		return nil, err
	}
	m := &MessageWriter{ctx: ctx}
	if h.spoken < len(h.begun) {
		m.ref = h.begun[h.spoken]
	} else if m.ref, err = h.BeginMessage(ctx, StartCall{Role: RoleAssistant, Model: r.Model, MaxSteps: r.MaxSteps,
		Metadata: r.Metadata}); err != nil {
		return nil, err
	}
	h.spoken++
	switch m.ref.Status {
	case MessageStopped:
		return nil, ErrStopped
	case MessageStreaming:
		m.pen = h.Pen(m.ref)
	}
	return m, nil
}

// readBegun reads which messages there are, in the first attempt too: the task's
// maker may have begun one, and may have stopped it.
func (h *handling) readBegun(ctx context.Context) error {
	if h.begun != nil {
		return nil
	}
	read := h.resume
	if h.Lease().Attempt == 1 {
		read = h.Session.Resume
	}
	state, err := read(ctx)
	if h.begun = state.Messages; h.begun == nil && err == nil {
		h.begun = []MessageRef{}
	}
	return err
}

// ID is the message's.
func (m *MessageWriter) ID() string { return m.ref.ID }

// Model is what the message was begun with.
func (m *MessageWriter) Model() string { return m.ref.Model }

// MaxSteps is how many steps the message may take: Step refuses one more with
// ErrConflict.
func (m *MessageWriter) MaxSteps() int { return m.ref.MaxSteps }

// StepNumber is the last step that is done; 0 = none.
func (m *MessageWriter) StepNumber() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ref.StepNumber
}

// Ended says that an earlier attempt finished the message: nothing of it needs
// to be made again.
func (m *MessageWriter) Ended() bool { return m.pen == nil }

// Context is for what makes the message, the model's call above all. It is the
// handler's, and ends with ErrStopped as its cause when the message was stopped:
// within a heartbeat, or at the next words. The handler's own does not end with it.
func (m *MessageWriter) Context() context.Context {
	if m.pen == nil {
		return m.ctx
	}
	return m.pen.Context()
}

// Text says more of the text. A character may be cut in two between calls; bytes
// that are no UTF-8, and NUL, become U+FFFD.
func (m *MessageWriter) Text(s string) error { return m.say(ChunkText, s) }

// Reasoning says more of how the model thinks; as Text.
func (m *MessageWriter) Reasoning(s string) error { return m.say(ChunkReasoning, s) }

// ToolCall says that the model calls a tool; input is any JSON value (≤ 1 MiB).
func (m *MessageWriter) ToolCall(id, name string, input any) error {
	raw, err := jsonOf("/input", input)
	if err != nil {
		return err
	}
	return m.Write(Chunk{Type: ChunkToolCall, ToolCallID: id, ToolName: name, Input: raw})
}

// ToolResult says what a tool answered; output is any JSON value (≤ 1 MiB).
func (m *MessageWriter) ToolResult(id, name string, output any, isError bool) error {
	raw, err := jsonOf("/output", output)
	if err != nil {
		return err
	}
	return m.Write(Chunk{Type: ChunkToolResult, ToolCallID: id, ToolName: name, Output: raw, IsError: isError})
}

// Write says chunks as they are: files, data, errors, and what a program made
// itself. One that is too large is refused, and the message goes on.
func (m *MessageWriter) Write(chunks ...Chunk) error {
	for i := range chunks {
		c := &chunks[i]
		if n := max(len(c.Text), len(c.Input), len(c.Output), len(c.Data)); n > MaxPayloadBytes {
			return Invalid("/chunks", "one has %d bytes; at most %d are allowed", n, MaxPayloadBytes)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pen == nil {
		return nil
	}
	return m.pen.Write(append(m.rest(), chunks...)...)
}

// Step ends a step: one checkpoint from which the next attempt goes on. snapshot
// is any JSON value (≤ 1 MiB); nil = what the message says so far: text,
// reasoning, tool calls and their results.
func (m *MessageWriter) Step(ctx context.Context, snapshot any) (CheckpointRef, error) {
	raw, err := jsonOf("/snapshot", snapshot)
	if err != nil {
		return CheckpointRef{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pen == nil {
		return CheckpointRef{}, nil
	}
	if err := m.pen.Write(m.rest()...); err != nil {
		return CheckpointRef{}, err
	}
	ref, err := m.pen.Step(ctx, raw)
	if err == nil {
		m.ref.StepNumber++
	}
	return ref, err
}

// Finish ends the message; the item goes on. usage is a JSON object, for example
// of token counts; nil = none. A message that is not finished is finished with
// its item.
func (m *MessageWriter) Finish(ctx context.Context, usage any) error {
	raw, err := jsonOf("/usage", usage)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pen == nil {
		return nil
	}
	if err := m.pen.Write(m.rest()...); err != nil {
		return err
	}
	return m.pen.Finish(ctx, raw)
}

// say adds text. What is left of a character waits for the rest of it.
func (m *MessageWriter) say(kind, text string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pen == nil {
		return nil
	}
	var chunks []Chunk
	if kind != m.kind {
		chunks = m.rest()
	}
	text = m.half + text
	whole := text[:len(text)-cutAt(text)]
	m.kind, m.half = kind, text[len(whole):]
	if whole = strings.ReplaceAll(strings.ToValidUTF8(whole, "\uFFFD"), "\x00", "\uFFFD"); whole != "" {
		chunks = append(chunks, Chunk{Type: kind, Text: Words(whole)})
	}
	return m.pen.Write(chunks...)
}

// rest is what is left of a character that will not be whole any more.
func (m *MessageWriter) rest() []Chunk {
	if m.half == "" {
		return nil
	}
	m.half = ""
	return []Chunk{{Type: m.kind, Text: "\uFFFD"}}
}

// cutAt is how many bytes at the end of a text begin a character that is not
// whole.
func cutAt(s string) int {
	for n := 1; n < utf8.UTFMax && n <= len(s); n++ {
		if end := s[len(s)-n:]; utf8.RuneStart(end[0]) {
			if utf8.FullRuneInString(end) {
				return 0
			}
			return n
		}
	}
	return 0
}

// jsonOf writes a value as JSON; nil is none.
func jsonOf(pointer string, v any) (json.RawMessage, error) {
	if v == nil {
		return nil, nil
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, Invalid(pointer, "cannot be written as JSON: %v", err)
	}
	return raw, nil
}
