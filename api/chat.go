package api

import (
	"encoding/json"

	"github.com/pawl-work/pawl"
)

// Chat is what a client of the AI SDK sends: a conversation and what was said in
// it last. It takes members that it does not name, which are the application's.
type Chat struct {
	ID        string      // of the conversation: Pawl's thread
	Messages  []UIMessage // all that was said, or only what was said last
	Trigger   string      // what the client does; ChatSubmit without it
	MessageID string      // of what is said again, or made again
	// Rest is the whole but its messages, for whoever writes the reply.
	Rest map[string]json.RawMessage
}

// The triggers of a Chat.
const (
	ChatSubmit     = "submit-message"
	ChatRegenerate = "regenerate-message"
)

// UnmarshalJSON reads a chat; its one message may be called message.
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

// UIMessage is a message as the AI SDK's clients hold it.
type UIMessage struct {
	ID       string            `json:"id"`
	Role     string            `json:"role"`
	Metadata json.RawMessage   `json:"metadata,omitempty"`
	Parts    []json.RawMessage `json:"parts"`
}

// ChatMark is what Pawl keeps in a message's metadata, as its member chat, of a
// message that came by this door.
type ChatMark struct {
	ID       string          `json:"id,omitempty"`       // that its client has given it
	ReplyTo  string          `json:"reply_to,omitempty"` // of a reply: the ID of what it answers
	Metadata json.RawMessage `json:"metadata,omitempty"` // its client's own
}

// MarkOf reads the mark of a message; one that did not come by this door has none.
func MarkOf(m pawl.Message) ChatMark {
	var marked struct {
		Chat ChatMark `json:"chat"`
	}
	_ = json.Unmarshal(m.Metadata, &marked) // of another shape: it is somebody else's
	return marked.Chat
}

// The header by which clients know the AI SDK's UI message stream, and its version.
const (
	UIStreamHeader  = "X-Vercel-Ai-Ui-Message-Stream"
	UIStreamVersion = "v1"
)
