package pawl

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"unicode/utf8"
)

// MessageWriter writes a message piece by piece. Chunks are sent in batches, after a
// short delay (worker.Options.FlushEvery, 100 ms) or when the buffer is full. Step,
// Finish and the end of the handler wait until all chunks are accepted. While the
// connection or the database is down, chunks are sent again, without loss or repetition.
// A MessageWriter is safe for concurrent use.
//
// Its methods return the error of earlier chunks: ErrStopped, an error that matches
// ErrLeaseLost, or the reason why the server refused a chunk. After that the message
// accepts nothing.
//
// A message that an earlier attempt finished ignores what is written again, and keeps
// its content: see Ended.
type MessageWriter struct {
	ref    MessageRef
	ctx    context.Context
	chunks ChunkWriter // nil: the message has ended

	mu         sync.Mutex
	kind       string // type of the current text
	incomplete string // the bytes of its last, incomplete character
	step       string // the name of the running MessageStep
	wrote      bool   // chunks that no step has ended
}

// StartMessage continues the open message of a handler's item: the reply that its task
// was created with, or the one that an earlier attempt was writing. If there is none it
// starts one, with role assistant in the task's thread; r is for a new message. An item
// has one open message at a time, so finish it before the next.
//
// The n-th StartMessage of an attempt is the n-th message of its item, since it was last sent
// back for rework: call it in the same order in every attempt. In a continued message, the first write marks the output
// of an unfinished step as abandoned: begin with the step after StepNumber. If the
// message was stopped, StartMessage returns ErrStopped; return it.
func StartMessage(ctx context.Context, r Reply) (*MessageWriter, error) {
	h, err := attemptOf(ctx)
	if err != nil {
		return nil, err
	}
	h.startMu.Lock()
	defer h.startMu.Unlock()
	if err := h.readMessages(ctx); err != nil {
		return nil, err
	}
	m := &MessageWriter{ctx: ctx}
	if h.started < len(h.earlier) {
		m.ref = h.earlier[h.started]
	} else if m.ref, err = h.BeginMessage(ctx, StartCall{Role: RoleAssistant, Model: r.Model, MaxSteps: r.MaxSteps,
		Metadata: r.Metadata}); err != nil {
		return nil, err
	}
	h.started++
	switch m.ref.Status {
	case MessageStopped:
		return nil, ErrStopped
	case MessageError: // a retry of the item continues it: what is written now would be lost
		return nil, &Error{Code: CodeConflict, Op: "message", State: string(MessageError), Allowed: MessageError.Allowed(),
			Message: "message " + m.ref.ID + " has ended with an error: retry its item"}
	case MessageStreaming:
		m.chunks = h.ChunkWriter(m.ref)
	}
	return m, nil
}

// readMessages reads the item's messages. It does so in the first attempt too: the task's
// creator may have started a message, and stopped it.
func (h *attemptState) readMessages(ctx context.Context) error {
	if h.earlier != nil {
		return nil
	}
	read := h.resume
	if !h.Lease().Resumes() {
		read = h.Session.Resume
	}
	state, err := read(ctx)
	if h.earlier = state.Messages; h.earlier == nil && err == nil {
		h.earlier = []MessageRef{}
	}
	return err
}

// ID returns the message's id.
func (m *MessageWriter) ID() string { return m.ref.ID }

// Model returns the model that the message was started with.
func (m *MessageWriter) Model() string { return m.ref.Model }

// MaxSteps returns the number of steps that the message may have. One more Step is
// ErrConflict.
func (m *MessageWriter) MaxSteps() int { return m.ref.MaxSteps }

// StepNumber returns the number of the last completed step; 0 = none.
func (m *MessageWriter) StepNumber() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ref.StepNumber
}

// Ended reports whether an earlier attempt finished the message: it need not be produced
// again.
func (m *MessageWriter) Ended() bool { return m.chunks == nil }

// Context is for the calls that produce the message, above all that of the model. It is
// derived from the handler's context. When the message is stopped it ends, within a
// heartbeat or at the next write, with ErrStopped as its cause. The handler's own
// context does not end then.
func (m *MessageWriter) Context() context.Context {
	if m.chunks == nil {
		return m.ctx
	}
	return m.chunks.Context()
}

// Text appends text. A character may be split between two calls. Bytes that are not
// UTF-8, and NUL, become U+FFFD.
func (m *MessageWriter) Text(s string) error { return m.appendText(ChunkText, s) }

// Reasoning appends text of the model's reasoning, like Text.
func (m *MessageWriter) Reasoning(s string) error { return m.appendText(ChunkReasoning, s) }

// ToolCall writes a call of a tool; input is any JSON value (at most 1 MiB).
func (m *MessageWriter) ToolCall(id, name string, input any) error {
	raw, err := jsonOf("/input", input)
	if err != nil {
		return err
	}
	return m.Write(Chunk{Type: ChunkToolCall, ToolCallID: id, ToolName: name, Input: raw})
}

// ToolResult writes the result of a tool; output is any JSON value (at most 1 MiB).
func (m *MessageWriter) ToolResult(id, name string, output any, isError bool) error {
	raw, err := jsonOf("/output", output)
	if err != nil {
		return err
	}
	return m.Write(Chunk{Type: ChunkToolResult, ToolCallID: id, ToolName: name, Output: raw, IsError: isError})
}

// Write writes chunks as they are: files, data, errors or chunks that a program built
// itself. A chunk that is too large is refused, and the message stays open.
func (m *MessageWriter) Write(chunks ...Chunk) error {
	for i := range chunks {
		c := &chunks[i]
		if n := max(len(c.Text), len(c.Input), len(c.Output), len(c.Data)); n > MaxPayloadBytes {
			return Invalid("/chunks", "one has %d bytes; at most %d are allowed", n, MaxPayloadBytes)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.chunks == nil {
		return nil
	}
	m.wrote = true
	return m.chunks.Write(append(m.flushIncomplete(), chunks...)...)
}

// Step ends a step and saves one checkpoint, from which the next attempt continues.
// snapshot is any JSON value (at most 1 MiB); nil = the message's content so far: text,
// reasoning, tool calls and their results. MessageStep is a step that a later attempt skips by itself.
func (m *MessageWriter) Step(ctx context.Context, snapshot any) (CheckpointRef, error) {
	raw, err := jsonOf("/snapshot", snapshot)
	if err != nil {
		return CheckpointRef{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.outside("Step"); err != nil {
		return CheckpointRef{}, err
	}
	return m.endStep(ctx, StepCall{Snapshot: raw})
}

// endStep ends a step. The caller holds mu.
func (m *MessageWriter) endStep(ctx context.Context, call StepCall) (CheckpointRef, error) {
	if m.chunks == nil {
		return CheckpointRef{}, nil
	}
	if err := m.chunks.Write(m.flushIncomplete()...); err != nil {
		return CheckpointRef{}, err
	}
	ref, err := m.chunks.Step(ctx, call)
	if err == nil {
		m.ref.StepNumber++
		m.wrote = false
	}
	return ref, err
}

// outside refuses a call inside of a MessageStep. The caller holds mu.
func (m *MessageWriter) outside(call string) error {
	if m.step == "" {
		return nil
	}
	return stepError(m.step, "%s is called before the step has ended; a MessageStep ends by itself", call)
}

// enterStep begins a MessageStep.
func (m *MessageWriter) enterStep(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.step != "":
		return stepError(name, "step %q of the message is running; the steps of a message come one after the other", m.step)
	case m.wrote:
		return stepError(name, "the message has words that no step has ended, and a later attempt would write them again: "+
			"write inside of steps, and let the error of a step pass")
	}
	m.step = name
	return nil
}

func (m *MessageWriter) leaveStep() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.step = ""
}

// endNamed saves the end of a MessageStep.
func (m *MessageWriter) endNamed(ctx context.Context, h *attemptState, n NewCheckpoint, args stepArgs) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	ref, err := m.endStep(ctx, StepCall{Name: n.Name, ArgsHash: n.ArgsHash, Snapshot: n.Snapshot, Metadata: n.Metadata})
	if err == nil && m.chunks != nil {
		n.Type, n.Metadata = IterationEnd, stepMetadata{Args: args.parts, MessageID: m.ref.ID}.json()
		h.remember(ref, n)
	}
	return err
}

// Finish ends the message; the item continues. usage is a JSON object, for example token
// counts; nil = none. A message that is not finished is finished together with its item.
func (m *MessageWriter) Finish(ctx context.Context, usage any) error {
	raw, err := jsonOf("/usage", usage)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.outside("Finish"); err != nil || m.chunks == nil {
		return err
	}
	if err := m.chunks.Write(m.flushIncomplete()...); err != nil {
		return err
	}
	return m.chunks.Finish(ctx, raw)
}

// appendText appends text. An incomplete character is kept until the rest of it arrives.
func (m *MessageWriter) appendText(kind, text string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.chunks == nil {
		return nil
	}
	var chunks []Chunk
	m.wrote = m.wrote || text != ""
	if kind != m.kind {
		chunks = m.flushIncomplete()
	}
	text = m.incomplete + text
	whole := text[:len(text)-incompleteBytes(text)]
	m.kind, m.incomplete = kind, text[len(whole):]
	if whole = strings.ReplaceAll(strings.ToValidUTF8(whole, "\uFFFD"), "\x00", "\uFFFD"); whole != "" {
		chunks = append(chunks, Chunk{Type: kind, Text: Words(whole)})
	}
	return m.chunks.Write(chunks...)
}

// flushIncomplete returns a replacement for an incomplete character that will not be completed.
func (m *MessageWriter) flushIncomplete() []Chunk {
	if m.incomplete == "" {
		return nil
	}
	m.incomplete = ""
	return []Chunk{{Type: m.kind, Text: "\uFFFD"}}
}

// incompleteBytes returns the number of bytes at the end of a text that begin an incomplete
// character.
func incompleteBytes(s string) int {
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

// jsonOf encodes a value as JSON; nil = no value.
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
