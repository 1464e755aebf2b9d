package pawl

import (
	"encoding/json"
	"errors"
	"slices"
	"time"
	"unicode/utf8"
)

// Message is something that was said: by a user, whole at once, or by an agent,
// while it is being made. An open message is whole at any moment too: Content is
// what was said so far.
type Message struct {
	ID         string          `json:"id"`
	Namespace  string          `json:"namespace"`
	Thread     string          `json:"thread,omitempty"` // the conversation, in the caller's own words
	TaskID     string          `json:"task_id,omitempty"`
	ItemID     string          `json:"item_id,omitempty"`
	Attempt    int             `json:"attempt,omitempty"` // of the last one that wrote
	Role       string          `json:"role"`
	Status     MessageState    `json:"status"`
	Model      string          `json:"model,omitempty"`
	StepNumber int             `json:"step_number"` // of the last step that is done; 0 = none
	MaxSteps   int             `json:"max_steps"`
	Offset     int64           `json:"offset"`  // chunks accepted so far: the number of the next one
	Content    json.RawMessage `json:"content"` // a list of MessagePart
	Usage      json.RawMessage `json:"usage,omitempty"`
	Metadata   json.RawMessage `json:"metadata,omitempty"`
	CreatedAt  time.Time       `json:"created_at"`
	EndedAt    *time.Time      `json:"ended_at,omitempty"`
}

// Parts reads the content.
func (m Message) Parts() ([]MessagePart, error) {
	var parts []MessagePart
	err := json.Unmarshal(m.Content, &parts)
	return parts, err
}

// Text is the text of the message, without what was abandoned.
func (m Message) Text() string {
	parts, _ := m.Parts() // a text that is none has no words
	text := ""
	for _, p := range parts {
		if p.Type == ChunkText && p.Status != PartAbandoned && p.Text != nil {
			text += *p.Text
		}
	}
	return text
}

// The roles of messages.
const (
	RoleUser      = "user"
	RoleAssistant = "assistant"
	RoleSystem    = "system"
	RoleTool      = "tool"
)

// Roles is the closed list.
var Roles = []string{RoleUser, RoleAssistant, RoleSystem, RoleTool}

// MessagePart is one part of a message's content, as the agents' ecosystem
// writes it: text, reasoning, tool-call, tool-result, file, data, error.
type MessagePart struct {
	Type       string          `json:"type"`
	Text       *string         `json:"text,omitempty"` // text, reasoning, error
	ToolCallID string          `json:"toolCallId,omitempty"`
	ToolName   string          `json:"toolName,omitempty"`
	Input      json.RawMessage `json:"input,omitempty"`
	Output     json.RawMessage `json:"output,omitempty"`
	IsError    bool            `json:"isError,omitempty"`
	MediaType  string          `json:"mediaType,omitempty"`
	URL        string          `json:"url,omitempty"`
	Data       json.RawMessage `json:"data,omitempty"`
	Status     string          `json:"status,omitempty"` // streaming: it is open; abandoned: of a try that was cut off
}

// The statuses of parts of a message; what is whole and stands has none.
const (
	PartStreaming = "streaming"
	PartAbandoned = "abandoned"
)

// Chunk is one piece of a message, as its writer gives it. It has a number, for
// ever: the offset it was appended at.
type Chunk struct {
	Type       string          `json:"type"`
	Text       Words           `json:"text,omitempty"` // text, reasoning, error
	ToolCallID string          `json:"tool_call_id,omitempty"`
	ToolName   string          `json:"tool_name,omitempty"`
	Input      json.RawMessage `json:"input,omitempty"`  // of a tool_call
	Output     json.RawMessage `json:"output,omitempty"` // of a tool_result
	IsError    bool            `json:"is_error,omitempty"`
	MediaType  string          `json:"media_type,omitempty"`
	URL        string          `json:"url,omitempty"`  // of a file
	Data       json.RawMessage `json:"data,omitempty"` // of data
}

// The types of chunks.
const (
	ChunkText       = "text"
	ChunkReasoning  = "reasoning"
	ChunkToolCall   = "tool_call"
	ChunkToolResult = "tool_result"
	ChunkFile       = "file"
	ChunkData       = "data"
	ChunkError      = "error"
)

// ChunkTypes is the closed list.
var ChunkTypes = []string{ChunkText, ChunkReasoning, ChunkToolCall, ChunkToolResult, ChunkFile, ChunkData, ChunkError}

// Words is text that may be cut in the middle of a character where JSON can
// write that: as half of a surrogate pair, which is how programs that count in
// UTF-16 cut. Halves that meet again are whole again; readers never see one.
type Words string

// UnmarshalJSON reads a text; half of a surrogate pair becomes the three bytes
// that UTF-8 would have for it.
func (w *Words) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	*w = Words(s)
	if len(b) < 2 || !slices.Contains([]byte(s), 0xEF) { // no U+FFFD in it: json mended nothing
		return nil
	}
	var out []byte
	for rest := b[1 : len(b)-1]; len(rest) > 0; {
		n := unescaped(rest)
		if h := halfAt(rest); h != 0 {
			if low := halfAt(rest[6:]); h < 0xDC00 && low >= 0xDC00 {
				n = 12
			} else {
				out = append(out, 0xE0|byte(h>>12), 0x80|byte(h>>6&0x3F), 0x80|byte(h&0x3F))
				rest = rest[6:]
				continue
			}
		}
		if err := json.Unmarshal([]byte(`"`+string(rest[:n])+`"`), &s); err != nil {
			return err
		}
		out, rest = append(out, s...), rest[n:]
	}
	*w = Words(out)
	return nil
}

// unescaped is the length of what stands before the next escape, or of it.
func unescaped(b []byte) int {
	if b[0] != '\\' {
		if n := slices.Index(b, '\\'); n >= 0 {
			return n
		}
		return len(b)
	}
	if b[1] == 'u' {
		return 6
	}
	return 2
}

// halfAt is the surrogate whose escape begins a JSON text, 0 if none does.
func halfAt(b []byte) rune {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0
	}
	var r rune
	for _, c := range b[2:6] {
		switch {
		case c >= '0' && c <= '9':
			r = r<<4 | rune(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			r = r<<4 | rune(c|0x20-'a'+10)
		}
	}
	if r < 0xD800 || r > 0xDFFF {
		return 0
	}
	return r
}

// MarshalJSON writes halves of surrogate pairs as such, and refuses other bytes
// that are not UTF-8.
func (w Words) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(w)) {
		return json.Marshal(string(w))
	}
	out := []byte{'"'}
	for rest := string(w); rest != ""; {
		n := 0
		for n < len(rest) {
			r, size := utf8.DecodeRuneInString(rest[n:])
			if r == utf8.RuneError && size == 1 {
				break
			}
			n += size
		}
		b, err := json.Marshal(rest[:n])
		if err != nil {
			return nil, err
		}
		out, rest = append(out, b[1:len(b)-1]...), rest[n:]
		if rest == "" {
			break
		}
		if !isHalf(rest) {
			return nil, errors.New("is not valid UTF-8")
		}
		const hex = "0123456789abcdef"
		h := rune(rest[0]&0xF)<<12 | rune(rest[1]&0x3F)<<6 | rune(rest[2]&0x3F)
		out, rest = append(out, '\\', 'u', hex[h>>12], hex[h>>8&0xF], hex[h>>4&0xF], hex[h&0xF]), rest[3:]
	}
	return append(out, '"'), nil
}

// isHalf says that a text begins with half of a surrogate pair.
func isHalf(s string) bool {
	return len(s) >= 3 && s[0] == 0xED && s[1] >= 0xA0 && s[1] <= 0xBF && s[2] >= 0x80 && s[2] <= 0xBF
}

// Valid says that the text is UTF-8, but for halves of surrogate pairs.
func (w Words) Valid() bool {
	for s := string(w); ; {
		n := 0
		for n < len(s) {
			r, size := utf8.DecodeRuneInString(s[n:])
			if r == utf8.RuneError && size == 1 {
				break
			}
			n += size
		}
		switch s = s[n:]; {
		case s == "":
			return true
		case !isHalf(s):
			return false
		}
		s = s[3:]
	}
}

// NewMessage is a message that is whole when it is made, given with its task.
type NewMessage struct {
	Role     string          `json:"role"`
	Content  json.RawMessage `json:"content"` // a text, or a list of parts
	Metadata json.RawMessage `json:"metadata,omitempty"`
}

// Reply asks for an empty open message with a task of one item: whoever claims
// the item appends to it.
type Reply struct {
	Model    string          `json:"model,omitempty"`
	MaxSteps int             `json:"max_steps,omitempty"` // 0 = 10
	Metadata json.RawMessage `json:"metadata,omitempty"`
}

// StartCall begins a message under an item's lease. One with Content is whole at
// once; an item has one open message at most.
type StartCall struct {
	Fence
	Role     string          `json:"role"`
	Thread   string          `json:"thread,omitempty"` // "" = the task's
	Model    string          `json:"model,omitempty"`
	MaxSteps int             `json:"max_steps,omitempty"` // 0 = 10
	Content  json.RawMessage `json:"content,omitempty"`   // a text, or a list of parts
	Metadata json.RawMessage `json:"metadata,omitempty"`
}

// MessageFence names a message and the claim of its item.
type MessageFence struct {
	MessageID string `json:"id"`
	WorkerID  string `json:"worker_id"`
	Attempt   int    `json:"attempt"`
}

// AppendCall adds chunks to an open message. Offset is how many chunks the
// message has had accepted, by whichever attempt. What was accepted already may
// be sent again: nothing is written twice. All of a call is accepted, or nothing.
type AppendCall struct {
	MessageFence
	Offset int64   `json:"offset"`
	Chunks []Chunk `json:"chunks"`
}

// Appended says how many chunks the message has now.
type Appended struct {
	Offset int64 `json:"offset"`
}

// StepCall ends a step of an open message: one checkpoint iteration_end, named
// step:N, with the snapshot, or without one with what the message says so far. A
// message that has made its max_steps is refused one more.
type StepCall struct {
	MessageFence
	Snapshot json.RawMessage `json:"snapshot,omitempty"`
}

// FinishCall ends an open message; its item goes on.
type FinishCall struct {
	MessageFence
	Usage json.RawMessage `json:"usage,omitempty"` // a JSON object, e.g. of token counts
}

// StopCall stops an open message, without a lease: what was said stays. Its
// worker learns at the next append or heartbeat, and completes the item.
type StopCall struct {
	MessageID string `json:"id"`
	Reason    string `json:"reason,omitempty"`
}

// OpenMessage is the message that the next attempt goes on with: at Offset, after
// the step StepNumber. What lies between that step and Offset is kept and marked
// abandoned with the first write.
type OpenMessage struct {
	ID         string     `json:"id"`
	Offset     int64      `json:"offset"`
	StepNumber int        `json:"step_number"`
	ToolCalls  []ToolCall `json:"tool_calls,omitempty"` // in a resume: of the abandoned steps too
}

// MessageRef says how far a message of an item came that was said piece by piece.
type MessageRef struct {
	ID         string       `json:"id"`
	Status     MessageState `json:"status"`
	Offset     int64        `json:"offset"`
	StepNumber int          `json:"step_number"`
	Model      string       `json:"model,omitempty"`
	MaxSteps   int          `json:"max_steps"`
}

// ToolCall says how far a call of a tool came: Done when its result is there,
// else it was only begun.
type ToolCall struct {
	ToolCallID string `json:"tool_call_id"`
	ToolName   string `json:"tool_name"`
	Done       bool   `json:"done"`
}

// Cut is a stretch of chunks that stands no more: From ≤ number < To, said by an
// attempt that was cut off in the middle of a step.
type Cut struct {
	From    int64 `json:"from"`
	To      int64 `json:"to"`
	Attempt int   `json:"attempt"`
}

// MessageFrame is one piece of what a reader of a message gets: chunks, or one of
// the others.
type MessageFrame struct {
	Offset    int64       // number of the first chunk
	Chunks    []Chunk     // nil = none
	Abandoned *Cut        // what was said there stands no more
	Snapshot  *Message    // the whole, in place of chunks that are gone
	End       *MessageEnd // the last frame
}

// Last is the number of the frame's last chunk.
func (f MessageFrame) Last() int64 { return f.Offset + int64(len(f.Chunks)) - 1 }

// MessageEnd says how a message ended.
type MessageEnd struct {
	Status MessageState `json:"status"`
	Offset int64        `json:"offset"` // chunks in all
}

// MessageFilter selects messages, oldest first.
type MessageFilter struct {
	Thread   string
	TaskID   string
	ItemID   string
	Statuses []MessageState
	Page
}
