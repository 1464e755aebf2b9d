package messages

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/rules"
)

// checkStart checks the call that starts a message, and returns the message's content as a
// list of parts; "" = the message is written in chunks.
func checkStart(c *pawl.StartCall) (content string, err error) {
	var f rules.Fields
	f.Fence(c.Fence)
	f.Role("/role", c.Role)
	f.Text("/thread", c.Thread, 0, pawl.MaxIDLen)
	f.Text("/model", c.Model, 0, pawl.MaxIDLen)
	f.Number("/max_steps", c.MaxSteps, 0, pawl.MaxSteps)
	f.Object("/metadata", &c.Metadata, pawl.MaxMetadataBytes)
	if len(c.Content) > 0 {
		content = f.Content("/content", c.Content)
	}
	return content, f.Err("message")
}

// checkOpen checks the call that opens a message of a task itself.
func checkOpen(c *pawl.OpenCall) error {
	var f rules.Fields
	f.Text("/task_id", c.TaskID, 1, pawl.MaxIDLen)
	f.Role("/role", c.Role)
	f.Text("/thread", c.Thread, 0, pawl.MaxIDLen)
	f.Text("/model", c.Model, 0, pawl.MaxIDLen)
	f.Object("/metadata", &c.Metadata, pawl.MaxMetadataBytes)
	if c.OnConflict != "" && c.OnConflict != pawl.OnConflictReturn {
		f.Add("/on_conflict", "is %q%s", c.OnConflict, rules.OneOf([]string{pawl.OnConflictReturn}))
	}
	return f.Err("open")
}

// messageParts returns the content of a message that checkTask has checked, as a list of
// parts.
func messageParts(content json.RawMessage) string {
	var f rules.Fields
	return f.Content("", content)
}

// checkChunks checks the call that appends chunks to a message.
func checkChunks(c *pawl.AppendCall) error {
	var f rules.Fields
	f.Writer(c.MessageFence)
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
		if f.Chunk(fmt.Sprintf("/chunks/%d", i), &c.Chunks[i]); len(f) > 20 {
			break
		}
	}
	if size > pawl.MaxAppendBytes {
		f.Add("/chunks", "have %d bytes together; at most %d are allowed", size, pawl.MaxAppendBytes)
	}
	return f.Err("append")
}

// checkFinish checks the call that ends a message.
func checkFinish(c *pawl.FinishCall) error {
	var f rules.Fields
	f.Writer(c.MessageFence)
	f.Object("/usage", &c.Usage, pawl.MaxMetadataBytes)
	return f.Err("finish")
}

// checkStop checks the call that stops a message.
func checkStop(c *pawl.StopCall) error {
	var f rules.Fields
	f.Text("/id", c.MessageID, 1, pawl.MaxIDLen)
	f.Text("/reason", c.Reason, 0, pawl.MaxReasonLen)
	return f.Err("stop")
}

// checkStep checks the call that ends a step of a message.
func checkStep(c *pawl.StepCall) error {
	var f rules.Fields
	if c.Writer != "" {
		f.Add("/writer", "is for messages that a task has itself, and these have no steps: append checkpoints to the task")
		return f.Err("step")
	}
	f.Writer(c.MessageFence)
	f.Name("/name", c.Name)
	f.Text("/args_hash", c.ArgsHash, 0, pawl.MaxKeyLen)
	f.JSON("/snapshot", c.Snapshot, pawl.MaxPayloadBytes)
	if c.Name != "" && len(c.Snapshot) == 0 {
		f.Add("/snapshot", "is required of a step with a name: what the step returned, or null")
	}
	f.Object("/metadata", &c.Metadata, pawl.MaxMetadataBytes)
	return f.Err("step")
}

// checkMessageFilter checks the filter of a list of messages, and its page.
func checkMessageFilter(q *pawl.MessageFilter) error {
	var f rules.Fields
	for i, s := range q.Statuses {
		if !slices.ContainsFunc(pawl.MessageStates, func(x pawl.StateInfo) bool { return x.Name == string(s) }) {
			f.Add(fmt.Sprintf("/status/%d", i), "%q is no status of a message", s)
		}
	}
	return cmp.Or(rules.CheckPage(&q.Page), f.Err("list"))
}
