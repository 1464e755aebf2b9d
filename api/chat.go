package api

import (
	"encoding/json"

	"github.com/pawl-work/pawl"
)

// Chat is what a client of the AI SDK sends: a conversation and its last message. It accepts
// members that it does not name; they belong to the application.
type Chat struct {
	ID        string      // the id of the conversation: Pawl's thread
	Messages  []UIMessage // all messages of the conversation, or only the last
	Trigger   string      // what the client does; "" is read as ChatSubmit
	MessageID string      // the message that is sent or generated again
	// Rest is the whole body without its messages, for the worker that writes the reply.
	Rest map[string]json.RawMessage
}

// These are the triggers of a Chat.
const (
	ChatSubmit     = "submit-message"
	ChatRegenerate = "regenerate-message"
)

// UnmarshalJSON reads a chat. A single message may be given as message.
func (c *Chat) UnmarshalJSON(b []byte) error {
	var known struct {
		ID        string      `json:"id"`
		Messages  []UIMessage `json:"messages"`
		Message   *UIMessage  `json:"message"`
		Trigger   string      `json:"trigger"`
		MessageID string      `json:"messageId"`
	}
	if err := json.Unmarshal(b, &known); err != nil {
		return err
	}
	*c = Chat{ID: known.ID, Messages: known.Messages, Trigger: known.Trigger, MessageID: known.MessageID}
	if known.Message != nil {
		c.Messages = append(c.Messages, *known.Message)
	}
	if c.Trigger == "" {
		c.Trigger = ChatSubmit
	}
	if err := json.Unmarshal(b, &c.Rest); err != nil {
		return err
	}
	delete(c.Rest, "messages")
	delete(c.Rest, "message")
	return nil
}

// UIMessage is a message in the form that the AI SDK's clients use.
type UIMessage struct {
	ID       string            `json:"id"`
	Role     string            `json:"role"`
	Metadata json.RawMessage   `json:"metadata,omitempty"`
	Parts    []json.RawMessage `json:"parts"`
}

// ChatMark is the member chat of a message's metadata. Pawl sets it on messages that came
// through the chat interface.
type ChatMark struct {
	ID       string          `json:"id,omitempty"`       // the id that the client gave it
	ReplyTo  string          `json:"reply_to,omitempty"` // of a reply: the id of the message that it answers
	Metadata json.RawMessage `json:"metadata,omitempty"` // the client's own
}

// MarkOf reads the mark of a message. A message that did not come through the chat interface
// has none.
func MarkOf(m pawl.Message) ChatMark {
	var marked struct {
		Chat ChatMark `json:"chat"`
	}
	_ = json.Unmarshal(m.Metadata, &marked) // metadata of another shape is the application's
	return marked.Chat
}

// UIStreamHeader tells clients that a stream is the AI SDK's UI message stream;
// UIStreamVersion is its value.
const (
	UIStreamHeader  = "X-Vercel-Ai-Ui-Message-Stream"
	UIStreamVersion = "v1"
)
