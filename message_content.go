package pawl

import (
	"slices"
	"strings"
)

// MessageContent is what a message says, for a reader that follows it: Apply each frame of
// FollowMessage, from the beginning of the message. It is what GetMessage would answer, without what was
// abandoned. The zero value is the content of a message without chunks.
type MessageContent struct {
	// Status is streaming until the frame of the end has come.
	Status MessageState
	chunks []numberedChunk
}

type numberedChunk struct {
	number int64
	Chunk
}

// Apply adds a frame: its chunks; or it removes those that were abandoned, or replaces all by a snapshot.
func (c *MessageContent) Apply(f MessageFrame) {
	if c.Status == "" {
		c.Status = MessageStreaming
	}
	for i := range f.Chunks {
		c.chunks = append(c.chunks, numberedChunk{f.Offset + int64(i), f.Chunks[i]})
	}
	if cut := f.Abandoned; cut != nil {
		c.chunks = slices.DeleteFunc(c.chunks, func(n numberedChunk) bool { return cut.From <= n.number && n.number < cut.To })
	}
	if f.Snapshot != nil {
		c.chunks = c.chunks[:0]
		parts, _ := f.Snapshot.Parts() // content that cannot be decoded has no chunks
		for _, p := range parts {
			if p.Status != PartAbandoned {
				c.chunks = append(c.chunks, numberedChunk{-1, p.chunk()})
			}
		}
		c.Status = f.Snapshot.Status
	}
	if f.End != nil {
		c.Status = f.End.Status
	}
}

// Text returns the text.
func (c *MessageContent) Text() string { return c.join(ChunkText) }

// Reasoning returns the text of the model's reasoning.
func (c *MessageContent) Reasoning() string { return c.join(ChunkReasoning) }

// Chunks returns all chunks that are not abandoned, in order.
func (c *MessageContent) Chunks() []Chunk {
	out := make([]Chunk, len(c.chunks))
	for i := range c.chunks {
		out[i] = c.chunks[i].Chunk
	}
	return out
}

func (c *MessageContent) join(kind string) string {
	var out strings.Builder
	for i := range c.chunks {
		if c.chunks[i].Type == kind {
			out.WriteString(string(c.chunks[i].Text))
		}
	}
	return out.String()
}

// chunk returns the part as a chunk.
func (p MessagePart) chunk() Chunk {
	c := Chunk{Type: strings.ReplaceAll(p.Type, "-", "_"), ToolCallID: p.ToolCallID, ToolName: p.ToolName, Input: p.Input, Output: p.Output,
		IsError: p.IsError, MediaType: p.MediaType, URL: p.URL, Data: p.Data}
	if p.Text != nil {
		c.Text = Words(*p.Text)
	}
	return c
}
