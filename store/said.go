package store

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/pawl-work/pawl"
)

// said is how far a message had been written when a step ended. The step's checkpoint
// stores it in place of a copy of the message; the snapshot that readers get is put
// together from the message. Parts that were cut off do not count.
type said struct {
	Offset      int64 // chunks of the message
	Text        int   // bytes of its text
	Reasoning   int   // bytes of its reasoning
	ToolCalls   int
	ToolResults int
	Bytes       int    // at least those of the snapshot's JSON
	joiner      Joiner // holds half of a character if the step ended within one
}

// saidOf reads what String wrote; "" is a message without a step.
func saidOf(text Text) (s said, err error) {
	if text == "" {
		return s, nil
	}
	_, err = fmt.Sscanf(string(text), "%d %d %d %d %d %d", &s.Offset, &s.Text, &s.Reasoning, &s.ToolCalls, &s.ToolResults, &s.Bytes)
	if words := strings.Fields(string(text)); err == nil && len(words) == 8 {
		s.joiner.kind = words[6]
		_, err = fmt.Sscanf(words[7], "%x", &s.joiner.half)
	}
	if err != nil {
		err = &pawl.Error{Code: pawl.CodeInternal, Op: "message", Message: fmt.Sprintf("checkpoints.said is %q", text), Err: err}
	}
	return s, err
}

// String returns the value of the column.
func (s *said) String() string {
	text := fmt.Sprintf("%d %d %d %d %d %d", s.Offset, s.Text, s.Reasoning, s.ToolCalls, s.ToolResults, s.Bytes)
	if s.joiner.half != "" {
		text += fmt.Sprintf(" %s %x", s.joiner.kind, s.joiner.half)
	}
	return text
}

// add counts a chunk.
func (s *said) add(c *pawl.Chunk) {
	switch c.Type {
	case pawl.ChunkText:
		s.Text += len(c.Text)
	case pawl.ChunkReasoning:
		s.Reasoning += len(c.Text)
	case pawl.ChunkToolCall:
		s.ToolCalls++
	case pawl.ChunkToolResult:
		s.ToolResults++
	default:
		return
	}
	b, _ := json.Marshal(c) // it was checked when it was received
	s.Bytes += len(b)
}

// saidUntilStep returns how far an open message has been written. It reads the chunks
// after the last step only.
func saidUntilStep(ctx context.Context, tx Tx, m *MessageRow) (s said, err error) {
	model, _ := json.Marshal(m.Model)
	s.Bytes = 160 + len(model) // without words
	if m.StepNumber > 0 {
		var last Text
		if _, err := Row(ctx, tx, []any{&last}, messageSQL["said until step"], m.ID); err != nil {
			return s, err
		}
		if s, err = saidOf(last); err != nil {
			return s, err
		}
	}
	r := chunkReader{next: m.StepOffset}
	if s.Offset == m.StepOffset { // otherwise a step that was cut off is between them
		r.joiner = s.joiner
	}
	err = r.each(ctx, tx, m.ID, nil, s.add)
	if err == nil && r.next < m.Offset {
		err = chunksMissing(m.ID)
	}
	s.Offset, s.joiner = r.next, r.joiner
	return s, err
}

// words is what a message says, without parts that were cut off.
type words struct {
	text, reasoning     string
	toolCalls, toolDone []pawl.Chunk
}

// wordsOf reads what a message says: from its content, or from its chunks while it has
// none.
func wordsOf(ctx context.Context, tx Tx, m *MessageRow) (words, error) {
	var text, reasoning strings.Builder
	w := words{toolCalls: []pawl.Chunk{}, toolDone: []pawl.Chunk{}}
	add := func(c *pawl.Chunk) {
		switch c.Type {
		case pawl.ChunkText:
			text.WriteString(string(c.Text))
		case pawl.ChunkReasoning:
			reasoning.WriteString(string(c.Text))
		case pawl.ChunkToolCall:
			w.toolCalls = append(w.toolCalls, *c)
		case pawl.ChunkToolResult:
			w.toolDone = append(w.toolDone, *c)
		}
	}
	var err error
	if m.Kept != "" {
		err = eachPart([]byte(m.Kept), add)
	} else {
		n, cuts := int64(0), m.Cuts
		r := chunkReader{}
		err = r.each(ctx, tx, m.ID, m.Cuts, func(c *pawl.Chunk) {
			for len(cuts) > 0 && n >= cuts[0].To {
				cuts = cuts[1:]
			}
			if len(cuts) == 0 || n < cuts[0].From {
				add(c)
			}
			n++
		})
	}
	w.text, w.reasoning = text.String(), reasoning.String()
	return w, err
}

// eachPart passes the parts of a content that were not cut off to fn, as chunks.
func eachPart(content []byte, fn func(c *pawl.Chunk)) error {
	var parts []pawl.MessagePart
	if err := json.Unmarshal(content, &parts); err != nil {
		return &pawl.Error{Code: pawl.CodeInternal, Op: "message", Message: "the content of a message cannot be read", Err: err}
	}
	for _, p := range parts {
		if p.Status == pawl.PartAbandoned {
			continue
		}
		c := pawl.Chunk{Type: strings.ReplaceAll(p.Type, "-", "_"), ToolCallID: p.ToolCallID, ToolName: p.ToolName, Input: p.Input,
			Output: p.Output, IsError: p.IsError}
		if p.Text != nil {
			c.Text = pawl.Words(*p.Text)
		}
		fn(&c)
	}
	return nil
}

// snapshot returns the snapshot of a step: what its message said until then.
func (w *words) snapshot(m *MessageRow, step int, s *said) (json.RawMessage, error) {
	if s.Text > len(w.text) || s.Reasoning > len(w.reasoning) || s.ToolCalls > len(w.toolCalls) || s.ToolResults > len(w.toolDone) {
		return nil, chunksMissing(m.ID)
	}
	return json.Marshal(struct {
		StepNumber  int          `json:"step_number"`
		Text        string       `json:"text"`
		Reasoning   string       `json:"reasoning"`
		ToolCalls   []pawl.Chunk `json:"tool_calls"`
		ToolResults []pawl.Chunk `json:"tool_results"`
		Model       string       `json:"model"`
		MaxSteps    int          `json:"max_steps"`
	}{step, w.text[:s.Text], w.reasoning[:s.Reasoning], w.toolCalls[:s.ToolCalls], w.toolDone[:s.ToolResults], m.Model, m.MaxSteps})
}

func chunksMissing(messageID string) error {
	return &pawl.Error{Code: pawl.CodeInternal, Op: "message", Message: "chunks of message " + messageID + " are missing"}
}

// CheckpointRow is a checkpoint as it is stored. The snapshot of a message's step may be
// empty until ReadSnapshots has filled it in.
type CheckpointRow struct {
	pawl.Checkpoint
	namespace, message string
	said               *said  // of a step: how to make the snapshot; nil = it is elsewhere
	blob               []byte // the address of the snapshot; nil = it is elsewhere
	size               int64  // of the blob's text
}

// SnapshotSize returns the size of the snapshot in bytes, also before it is read.
func (c *CheckpointRow) SnapshotSize() int {
	switch {
	case c.said != nil:
		return c.said.Bytes
	case c.blob != nil:
		return int(c.size)
	}
	return len(c.Snapshot)
}

// ReadSnapshots fills in the snapshots that are not in the rows. It reads each message
// once.
func ReadSnapshots(ctx context.Context, tx Tx, rows []CheckpointRow) error {
	read := map[string]*words{}
	heads := map[string]*MessageRow{}
	for i := range rows {
		c := &rows[i]
		if c.blob != nil {
			text, err := ReadBlob(ctx, tx, c.namespace, c.blob)
			if err != nil {
				return err
			}
			c.Snapshot, c.blob = text, nil
		}
		if c.said == nil {
			continue
		}
		m := heads[c.message]
		if m == nil {
			row, err := GetMessage(ctx, tx, c.namespace, c.message)
			if err != nil {
				return err
			}
			w, err := wordsOf(ctx, tx, &row)
			if err != nil {
				return err
			}
			m, heads[c.message], read[c.message] = &row, &row, &w
		}
		step := 0
		_, err := fmt.Sscanf(c.Name, "step:%d", &step)
		if err == nil {
			c.Snapshot, err = read[c.message].snapshot(m, step, c.said)
		}
		if err != nil {
			return err
		}
		c.said = nil
	}
	return nil
}
