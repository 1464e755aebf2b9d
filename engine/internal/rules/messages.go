package rules

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/pawl-work/pawl"
)

// CheckStart checks the call that starts a message, and returns the message's content as a
// list of parts; "" = the message is written in chunks.
func CheckStart(c *pawl.StartCall) (content string, err error) {
	var f Fields
	f.Fence(c.Fence)
	f.role("/role", c.Role)
	f.Text("/thread", c.Thread, 0, pawl.MaxIDLen)
	f.Text("/model", c.Model, 0, pawl.MaxIDLen)
	f.Number("/max_steps", c.MaxSteps, 0, pawl.MaxSteps)
	f.Object("/metadata", &c.Metadata, pawl.MaxMetadataBytes)
	if len(c.Content) > 0 {
		content = f.content("/content", c.Content)
	}
	return content, f.Err("message")
}

// CheckOpen checks the call that opens a message of a task itself.
func CheckOpen(c *pawl.OpenCall) error {
	var f Fields
	f.Text("/task_id", c.TaskID, 1, pawl.MaxIDLen)
	f.role("/role", c.Role)
	f.Text("/thread", c.Thread, 0, pawl.MaxIDLen)
	f.Text("/model", c.Model, 0, pawl.MaxIDLen)
	f.Object("/metadata", &c.Metadata, pawl.MaxMetadataBytes)
	if c.OnConflict != "" && c.OnConflict != pawl.OnConflictReturn {
		f.Add("/on_conflict", "is %q%s", c.OnConflict, oneOf([]string{pawl.OnConflictReturn}))
	}
	return f.Err("open")
}

// MessageParts returns the content of a message that CheckTask has checked, as a list of
// parts.
func MessageParts(content json.RawMessage) string {
	var f Fields
	return f.content("", content)
}

// CheckAppend checks the call that appends chunks to a message.
func CheckAppend(c *pawl.AppendCall) error {
	var f Fields
	f.writer(c.MessageFence)
	if c.Offset < 0 {
		f.Add("/offset", "is %d; it must be 0 or more", c.Offset)
	}
	if n := len(c.Chunks); n == 0 || n > pawl.MaxChunksPerCall {
		f.Add("/chunks", "has %d chunks; 1 to %d are allowed", n, pawl.MaxChunksPerCall)
		return f.Err("append")
	}
	size := 0
	for i := range c.Chunks {
		size += len(c.Chunks[i].Text) + len(c.Chunks[i].Input) + len(c.Chunks[i].Output) + len(c.Chunks[i].Data)
		if f.chunk(fmt.Sprintf("/chunks/%d", i), &c.Chunks[i]); len(f) > 20 {
			break
		}
	}
	if size > pawl.MaxAppendBytes {
		f.Add("/chunks", "have %d bytes together; at most %d are allowed", size, pawl.MaxAppendBytes)
	}
	return f.Err("append")
}

// CheckFinish checks the call that ends a message.
func CheckFinish(c *pawl.FinishCall) error {
	var f Fields
	f.writer(c.MessageFence)
	f.Object("/usage", &c.Usage, pawl.MaxMetadataBytes)
	return f.Err("finish")
}

// CheckStop checks the call that stops a message.
func CheckStop(c *pawl.StopCall) error {
	var f Fields
	f.Text("/id", c.MessageID, 1, pawl.MaxIDLen)
	f.Text("/reason", c.Reason, 0, pawl.MaxReasonLen)
	return f.Err("stop")
}

// CheckStep checks the call that ends a step of a message.
func CheckStep(c *pawl.StepCall) error {
	var f Fields
	if c.Writer != "" {
		f.Add("/writer", "is for messages that a task has itself, and these have no steps: append checkpoints to the task")
		return f.Err("step")
	}
	f.writer(c.MessageFence)
	f.Name("/name", c.Name)
	f.Text("/args_hash", c.ArgsHash, 0, pawl.MaxKeyLen)
	f.JSON("/snapshot", c.Snapshot, pawl.MaxPayloadBytes)
	if c.Name != "" && len(c.Snapshot) == 0 {
		f.Add("/snapshot", "is required of a step with a name: what the step returned, or null")
	}
	f.Object("/metadata", &c.Metadata, pawl.MaxMetadataBytes)
	return f.Err("step")
}

// writer checks the members of the fencing token of a message's writer.
func (f *Fields) writer(m pawl.MessageFence) {
	if m.Writer != "" {
		f.Text("/id", m.MessageID, 1, pawl.MaxIDLen)
		if m.WorkerID != "" || m.Attempt != 0 {
			f.Add("/writer", "is given with worker_id or attempt; a message that a task has itself has no lease")
		}
		return
	}
	f.Fence(pawl.Fence{ItemID: m.MessageID, WorkerID: m.WorkerID, Attempt: m.Attempt})
}

// chunk checks that a chunk has what its type needs, and nothing else.
func (f *Fields) chunk(at string, c *pawl.Chunk) {
	if !slices.Contains(pawl.ChunkTypes, c.Type) {
		f.Add(at+"/type", "is %q%s", c.Type, oneOf(pawl.ChunkTypes))
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

// conversation checks the thread, messages and reply that a task is created with.
func (f *Fields) conversation(t *pawl.NewTask) {
	f.Text("/thread", t.Thread, 0, pawl.MaxIDLen)
	if len(t.Messages) > pawl.MaxMessages {
		f.Add("/messages", "has %d messages; at most %d are allowed", len(t.Messages), pawl.MaxMessages)
		return
	}
	for i := range t.Messages {
		at := fmt.Sprintf("/messages/%d", i)
		f.role(at+"/role", t.Messages[i].Role)
		f.content(at+"/content", t.Messages[i].Content)
		f.Object(at+"/metadata", &t.Messages[i].Metadata, pawl.MaxMetadataBytes)
	}
	if t.Reply == nil {
		return
	}
	f.Text("/reply/model", t.Reply.Model, 0, pawl.MaxIDLen)
	f.Number("/reply/max_steps", t.Reply.MaxSteps, 0, pawl.MaxSteps)
	f.Object("/reply/metadata", &t.Reply.Metadata, pawl.MaxMetadataBytes)
}

// role checks the role of a message.
func (f *Fields) role(pointer, role string) {
	if !slices.Contains(pawl.Roles, role) {
		f.Add(pointer, "is %q%s", role, oneOf(pawl.Roles))
	}
}

// content checks the content of a whole message, and returns it as a list of parts.
func (f *Fields) content(pointer string, raw json.RawMessage) string {
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
