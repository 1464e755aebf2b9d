package pawl

import (
	"encoding/json"
	"errors"
	"slices"
	"time"
	"unicode/utf8"
)

// Message is one message of a conversation: of a user, complete at once, or of an agent,
// written piece by piece. Content of an open message is what was written so far.
type Message struct {
	ID         string          `json:"id"`
	Namespace  string          `json:"namespace"`
	Thread     string          `json:"thread,omitempty"` // the conversation; any text of the caller
	TaskID     string          `json:"task_id,omitempty"`
	ItemID     string          `json:"item_id,omitempty"`
	Attempt    int             `json:"attempt,omitempty"` // the last attempt that wrote; without an item, the number of writers
	Role       string          `json:"role"`
	Status     MessageState    `json:"status"`
	Model      string          `json:"model,omitempty"`
	StepNumber int             `json:"step_number"` // the last completed step; 0 = none
	MaxSteps   int             `json:"max_steps"`
	Offset     int64           `json:"offset"`  // number of chunks accepted; the number of the next chunk
	Content    json.RawMessage `json:"content"` // a list of MessagePart
	Usage      json.RawMessage `json:"usage,omitempty"`
	Metadata   json.RawMessage `json:"metadata,omitempty"`
	CreatedAt  time.Time       `json:"created_at"`
	UpdatedAt  time.Time       `json:"updated_at"` // when its newest chunk was accepted, or it ended; without either, CreatedAt
	EndedAt    *time.Time      `json:"ended_at,omitempty"`
	// CheckpointID is the checkpoint of its last completed step. "" = no step was completed.
	CheckpointID string `json:"checkpoint_id,omitempty"`
	// Epoch is the epoch of the feed in which it was read; see FeedPosition and InEpoch.
	Epoch int64 `json:"epoch,omitempty"`
}

// Parts decodes the content.
func (m Message) Parts() ([]MessagePart, error) {
	var parts []MessagePart
	err := json.Unmarshal(m.Content, &parts)
	return parts, err
}

// Text is the text of the message without abandoned parts.
func (m Message) Text() string {
	parts, _ := m.Parts() // content that cannot be decoded has no text
	text := ""
	for _, p := range parts {
		if p.Type == ChunkText && p.Status != PartAbandoned && p.Text != nil {
			text += *p.Text
		}
	}
	return text
}

// The words of messages.
const (
	// The roles of messages.
	RoleUser      = "user"
	RoleAssistant = "assistant"
	RoleSystem    = "system"
	RoleTool      = "tool"

	// The statuses of message parts; a complete and valid part has none.
	PartStreaming = "streaming"
	PartAbandoned = "abandoned"

	// The types of chunks.
	ChunkText       = "text"
	ChunkReasoning  = "reasoning"
	ChunkToolCall   = "tool_call"
	ChunkToolResult = "tool_result"
	ChunkFile       = "file"
	ChunkData       = "data"
	ChunkError      = "error"
)

// MessagePart is one part of a message's content, in the form of the AI SDK: text,
// reasoning, tool-call, tool-result, file, data, error.
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
	Status     string          `json:"status,omitempty"` // streaming: still being written; abandoned: written by a step that was interrupted
}

// Chunk is one piece of a message, as it was appended. Its number is the offset at which
// it was appended and never changes.
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

// Words is text that may be cut in the middle of a character in a way that JSON can
// express: as half of a surrogate pair, because programs that count in UTF-16 cut there.
// Two halves that follow each other are joined; readers never see a half.
type Words string

// UnmarshalJSON decodes a string. Half of a surrogate pair becomes the three bytes that
// UTF-8 would use for it.
func (w *Words) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	*w = Words(s)
	if len(b) < 2 || !slices.Contains([]byte(s), 0xEF) { // no U+FFFD: json replaced nothing
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

// unescaped is the length of the text before the next escape, or of the escape.
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

// halfAt returns the surrogate whose escape begins a JSON text; 0 if none does.
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

// MarshalJSON encodes halves of surrogate pairs as escapes, and refuses other bytes that
// are not UTF-8.
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

// isHalf reports whether a text begins with half of a surrogate pair.
func isHalf(s string) bool {
	return len(s) >= 3 && s[0] == 0xED && s[1] >= 0xA0 && s[1] <= 0xBF && s[2] >= 0x80 && s[2] <= 0xBF
}

// Valid reports whether the text is UTF-8, apart from halves of surrogate pairs.
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

// NewMessage is a complete message, created with its task.
type NewMessage struct {
	Role     string          `json:"role"`
	Content  json.RawMessage `json:"content"` // a text, or a list of parts
	Metadata json.RawMessage `json:"metadata,omitempty"`
}

// Reply asks for an empty open message for a task of one item. The worker that claims
// the item appends to it.
type Reply struct {
	Model    string          `json:"model,omitempty"`
	MaxSteps int             `json:"max_steps,omitempty"` // 0 = 10
	Metadata json.RawMessage `json:"metadata,omitempty"`
}

// StartCall starts a message under an item's lease. With Content the message is complete
// at once. An item has at most one open message.
type StartCall struct {
	Fence
	Role     string          `json:"role"`
	Thread   string          `json:"thread,omitempty"` // "" = the task's
	Model    string          `json:"model,omitempty"`
	MaxSteps int             `json:"max_steps,omitempty"` // 0 = 10
	Content  json.RawMessage `json:"content,omitempty"`   // a text, or a list of parts
	Metadata json.RawMessage `json:"metadata,omitempty"`
}

// OpenCall opens a message that a task has itself: it is written with the answer's writer token,
// without a lease. The task must not have ended. Several programs can write one message: each
// opens it with OnConflictReturn and gets a token of its own.
type OpenCall struct {
	TaskID   string          `json:"task_id"`
	Role     string          `json:"role"`
	Thread   string          `json:"thread,omitempty"` // "" = the task's
	Model    string          `json:"model,omitempty"`
	Metadata json.RawMessage `json:"metadata,omitempty"`
	// OnConflict says what happens if the task itself has a message of the thread already:
	// OnConflictReturn opens that one, "" another one.
	OnConflict string `json:"on_conflict,omitempty"`
}

// OpenedMessage is a message that a task has itself. Writer is valid until the message ends. It
// is empty if the message has ended.
type OpenedMessage struct {
	Message
	Writer string `json:"writer,omitempty"`
}

// MessageFence identifies a message and the claim of its item; or, with Writer alone, the writer
// of a message that a task has itself.
type MessageFence struct {
	MessageID string `json:"id"`
	WorkerID  string `json:"worker_id,omitempty"`
	Attempt   int    `json:"attempt,omitempty"`
	Writer    string `json:"writer,omitempty"` // the token of an OpenedMessage
}

// AppendCall adds chunks to an open message. Offset is the number of chunks that the
// message has accepted, from all attempts and writers. Chunks that were accepted may be sent
// again by the attempt or writer that sent them: they are not stored twice. A call is accepted as
// a whole or not at all.
type AppendCall struct {
	MessageFence
	Offset int64   `json:"offset"`
	Chunks []Chunk `json:"chunks"`
}

// Appended is the number of chunks after an append.
type Appended struct {
	Offset int64 `json:"offset"`
}

// StepCall ends a step of an open message. It saves one checkpoint iteration_end with the
// snapshot; without one, with the message's content so far. A step beyond max_steps is
// refused. A message that a task has itself has no steps.
type StepCall struct {
	MessageFence
	Name     string          `json:"name,omitempty"`      // of the checkpoint, which then needs a snapshot; "" = step:N
	ArgsHash string          `json:"args_hash,omitempty"` // hash of the step's arguments
	Snapshot json.RawMessage `json:"snapshot,omitempty"`
	// Metadata is an object; its members message_id, step_number and offset are those of the message.
	Metadata json.RawMessage `json:"metadata,omitempty"`
}

// FinishCall ends an open message; its item continues.
type FinishCall struct {
	MessageFence
	Usage json.RawMessage `json:"usage,omitempty"` // a JSON object, e.g. of token counts
}

// StopCall stops an open message, without a lease. Its content stays. The worker learns
// of it by its next append or heartbeat, and completes the item.
type StopCall struct {
	MessageID string `json:"id"`
	Reason    string `json:"reason,omitempty"`
}

// OpenMessage is the message that the next attempt continues: at Offset, after step
// StepNumber. The chunks between that step and Offset stay, and the first write marks
// them as abandoned.
type OpenMessage struct {
	ID         string     `json:"id"`
	Offset     int64      `json:"offset"`
	StepNumber int        `json:"step_number"`
	ToolCalls  []ToolCall `json:"tool_calls,omitempty"` // in a resume: of abandoned steps too
}

// MessageRef says how far a message of an item was written.
type MessageRef struct {
	ID         string       `json:"id"`
	Status     MessageState `json:"status"`
	Offset     int64        `json:"offset"`
	StepNumber int          `json:"step_number"`
	Model      string       `json:"model,omitempty"`
	MaxSteps   int          `json:"max_steps"`
}

// ToolCall is one call of a tool. Done: its result was written; otherwise it was only
// started.
type ToolCall struct {
	ToolCallID string `json:"tool_call_id"`
	ToolName   string `json:"tool_name"`
	Done       bool   `json:"done"`
}

// Cut is a range of abandoned chunks: From ≤ number < To, written by an attempt that was
// interrupted within a step.
type Cut struct {
	From    int64 `json:"from"`
	To      int64 `json:"to"`
	Attempt int   `json:"attempt"`
}

// MessageFrame is one piece of what a reader of a message receives: chunks, or one of
// the other members.
type MessageFrame struct {
	Epoch     int64   // of the numbers: pass it on with InEpoch to continue after one of them
	Offset    int64   // number of the first chunk
	Chunks    []Chunk // nil = none
	Abandoned *Cut    // these chunks are abandoned
	// Snapshot is the whole message, in place of what was read before: its chunks have been removed, or the database
	// went back in time, so that chunks that were read may be lost and their numbers given to others.
	Snapshot *Message
	End      *MessageEnd // the last frame
	// Begin is in the first frame of an engine: the state of the message, and how many chunks it has so far.
	Begin *MessageEnd
}

// Last is the number of the frame's last chunk.
func (f MessageFrame) Last() int64 { return f.Offset + int64(len(f.Chunks)) - 1 }

// MessageEnd says how a message ended.
type MessageEnd struct {
	Status MessageState `json:"status"`
	Offset int64        `json:"offset"` // number of all chunks
}

// MessageFilter selects messages, oldest first.
type MessageFilter struct {
	Thread   string
	TaskID   string
	ItemID   string
	Statuses []MessageState
	// Stalled selects those that are open, to which nothing was appended for MessageStalls, and whose item no worker
	// holds: their worker is gone and no other has taken the item up, or the item waits. Messages without an item are none.
	Stalled bool
	Desc    bool // newest first
	Page
}
