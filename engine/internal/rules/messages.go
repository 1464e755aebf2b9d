package rules

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/pawl-work/pawl"
)

// The roles of messages, and the types of chunks.
var (
	roles      = []string{pawl.RoleUser, pawl.RoleAssistant, pawl.RoleSystem, pawl.RoleTool}
	chunkTypes = []string{pawl.ChunkText, pawl.ChunkReasoning, pawl.ChunkToolCall, pawl.ChunkToolResult, pawl.ChunkFile, pawl.ChunkData,
		pawl.ChunkError}
)

// Writer checks the members of the fencing token of a message's writer.
func (f *Fields) Writer(m pawl.MessageFence) {
	if m.Writer != "" {
		f.Text("/id", m.MessageID, 1, pawl.MaxIDLen)
		if m.WorkerID != "" || m.Attempt != 0 {
			f.Add("/writer", "is given with worker_id or attempt; a message that a task has itself has no lease")
		}
		return
	}
	f.Fence(pawl.Fence{ItemID: m.MessageID, WorkerID: m.WorkerID, Attempt: m.Attempt})
}

// Chunk checks that a chunk has what its type needs, and nothing else.
func (f *Fields) Chunk(at string, c *pawl.Chunk) {
	if !slices.Contains(chunkTypes, c.Type) {
		f.Add(at+"/type", "is %q%s", c.Type, OneOf(chunkTypes))
		return
	}
	text := c.Type == pawl.ChunkText || c.Type == pawl.ChunkReasoning || c.Type == pawl.ChunkError
	tool := c.Type == pawl.ChunkToolCall || c.Type == pawl.ChunkToolResult
	for _, m := range []struct {
		name         string
		there, fits  bool
		isMissing    bool
		whyIsMissing string
	}{
		{"text", c.Text != "", text, false, ""},
		{"tool_call_id", c.ToolCallID != "", tool, tool && c.ToolCallID == "", "is required"},
		{"tool_name", c.ToolName != "", tool, c.Type == pawl.ChunkToolCall && c.ToolName == "", "is required"},
		{"input", len(c.Input) > 0, c.Type == pawl.ChunkToolCall, false, ""},
		{"output", len(c.Output) > 0, c.Type == pawl.ChunkToolResult, false, ""},
		{"is_error", c.IsError, c.Type == pawl.ChunkToolResult, false, ""},
		{"media_type", c.MediaType != "", c.Type == pawl.ChunkFile, c.Type == pawl.ChunkFile && c.MediaType == "", "is required"},
		{"url", c.URL != "", c.Type == pawl.ChunkFile, c.Type == pawl.ChunkFile && c.URL == "", "is required: files live elsewhere"},
		{"data", len(c.Data) > 0, c.Type == pawl.ChunkData, c.Type == pawl.ChunkData && len(c.Data) == 0, "is required"},
	} {
		switch {
		case m.there && !m.fits:
			f.Add(at+"/"+m.name, "is not for a chunk of type %s", c.Type)
		case m.isMissing:
			f.Add(at+"/"+m.name, "%s", m.whyIsMissing)
		}
	}
	switch n := len(c.Text); {
	case n > pawl.MaxPayloadBytes:
		f.Add(at+"/text", "has %d bytes; at most %d are allowed", n, pawl.MaxPayloadBytes)
	case !c.Text.Valid():
		f.Add(at+"/text", "is not valid UTF-8")
	case slices.Contains([]byte(c.Text), 0):
		f.Add(at+"/text", "contains a NUL character")
	}
	f.Text(at+"/tool_call_id", c.ToolCallID, 0, pawl.MaxIDLen)
	f.Text(at+"/tool_name", c.ToolName, 0, pawl.MaxIDLen)
	f.Text(at+"/media_type", c.MediaType, 0, pawl.MaxIDLen)
	f.Text(at+"/url", c.URL, 0, pawl.MaxReasonLen)
	f.Halved(at+"/input", c.Input, pawl.MaxPayloadBytes)
	f.Halved(at+"/output", c.Output, pawl.MaxPayloadBytes)
	f.Halved(at+"/data", c.Data, pawl.MaxPayloadBytes)
}

// Conversation checks the thread, messages and reply that a task is created with.
func (f *Fields) Conversation(t *pawl.NewTask) {
	f.Text("/thread", t.Thread, 0, pawl.MaxIDLen)
	if len(t.Messages) > pawl.MaxMessages {
		f.Add("/messages", "has %d messages; at most %d are allowed", len(t.Messages), pawl.MaxMessages)
		return
	}
	for i := range t.Messages {
		at := fmt.Sprintf("/messages/%d", i)
		f.Role(at+"/role", t.Messages[i].Role)
		f.Content(at+"/content", t.Messages[i].Content)
		f.Object(at+"/metadata", &t.Messages[i].Metadata, pawl.MaxMetadataBytes)
	}
	if t.Reply == nil {
		return
	}
	f.Text("/reply/model", t.Reply.Model, 0, pawl.MaxIDLen)
	f.Number("/reply/max_steps", t.Reply.MaxSteps, 0, pawl.MaxSteps)
	f.Object("/reply/metadata", &t.Reply.Metadata, pawl.MaxMetadataBytes)
}

// Role checks the role of a message.
func (f *Fields) Role(pointer, role string) {
	if !slices.Contains(roles, role) {
		f.Add(pointer, "is %q%s", role, OneOf(roles))
	}
}

// Content checks the content of a whole message, and returns it as a list of parts.
func (f *Fields) Content(pointer string, raw json.RawMessage) string {
	first := bytes.TrimLeft(raw, " \t\r\n")
	if len(first) == 0 {
		f.Add(pointer, "is required")
		return ""
	}
	n := len(*f)
	if f.JSON(pointer, raw, pawl.MaxPayloadBytes); len(*f) > n {
		return ""
	}
	switch first[0] {
	case '"':
		return `[{"type":"text","text":` + string(bytes.TrimSpace(raw)) + `}]`
	case '[':
		var parts []struct {
			Type string `json:"type"`
		}
		err := json.Unmarshal(raw, &parts)
		for i := range parts {
			if parts[i].Type == "" {
				f.Add(fmt.Sprintf("%s/%d/type", pointer, i), "is required")
			}
		}
		if err == nil {
			return string(raw)
		}
	}
	f.Add(pointer, "must be a text or a list of parts, each with its type")
	return ""
}
