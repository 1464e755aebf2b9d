package store

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/pawl-work/pawl"
)

// Joiner joins characters that were split between two chunks: the first half of a
// character moves to the chunk with the second half. It takes a message's chunks one after
// another.
type Joiner struct {
	half string // of a surrogate pair, as UTF-8 would write it
	kind string
}

// Next returns the chunk in the form that readers get.
func (j *Joiner) Next(c pawl.Chunk) pawl.Chunk {
	if c.Text == "" || j.half == "" && utf8.ValidString(string(c.Text)) {
		if c.Text != "" || c.Type != j.kind {
			j.half = ""
		}
		return c
	}
	text := string(c.Text)
	if c.Type == j.kind {
		text = j.half + text
	}
	j.half, j.kind = "", c.Type
	var out strings.Builder
	for text != "" {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r != utf8.RuneError || size > 1:
			out.WriteString(text[:size])
		case halfOf(text) == 0:
			out.WriteRune(utf8.RuneError)
		case halfOf(text) < 0xDC00 && halfOf(text[3:]) >= 0xDC00:
			out.WriteRune((halfOf(text)-0xD800)<<10 + (halfOf(text[3:]) - 0xDC00) + 0x10000)
			size = 6
		case halfOf(text) < 0xDC00 && len(text) == 3:
			j.half, size = text, 3
		default:
			out.WriteRune(utf8.RuneError)
			size = 3
		}
		text = text[size:]
	}
	c.Text = pawl.Words(out.String())
	return c
}

// halfOf returns the surrogate that the text begins with, or 0 if it begins with none.
func halfOf(s string) rune {
	if len(s) < 3 || s[0] != 0xED || s[1] < 0xA0 || s[1] > 0xBF || s[2] < 0x80 || s[2] > 0xBF {
		return 0
	}
	return rune(s[0]&0xF)<<12 | rune(s[1]&0x3F)<<6 | rune(s[2]&0x3F)
}

// chunkReader reads the chunks of a message one after another. next is the number of the
// next chunk: at first one with which an append or a step began.
type chunkReader struct {
	next   int64
	joiner Joiner
}

// each passes the chunks from next on to fn.
func (r *chunkReader) each(ctx context.Context, tx Tx, id string, cuts []pawl.Cut, fn func(c *pawl.Chunk)) error {
	var chunks []pawl.Chunk
	for {
		rows, err := Chunks(ctx, tx, id, r.next, 10_000)
		if err != nil {
			return err
		}
		for i := range rows {
			if rows[i].Seq < r.next { // the last row before, at the end of the message
				continue
			}
			if chunks, err = rows[i].decode(chunks); err != nil {
				return err
			}
			if slices.ContainsFunc(cuts, func(c pawl.Cut) bool { return c.To == rows[i].Seq }) {
				r.joiner = Joiner{}
			}
			for k := range chunks {
				c := r.joiner.Next(chunks[k])
				fn(&c)
			}
			r.next = rows[i].Seq + int64(rows[i].Count)
		}
		if len(rows) < 10_000 {
			return nil
		}
	}
}

// content builds a message's content from its chunks. Consecutive chunks of the same type
// become one part.
type content struct {
	cuts  []pawl.Cut
	n     int64 // chunks so far
	parts []pawl.MessagePart
	text  strings.Builder // of the last part
}

func (f *content) add(c *pawl.Chunk) {
	n := f.n
	f.n++
	for len(f.cuts) > 0 && n >= f.cuts[0].To {
		f.cuts = f.cuts[1:]
	}
	status, begins := "", false
	if len(f.cuts) > 0 && n >= f.cuts[0].From {
		status, begins = pawl.PartAbandoned, n == f.cuts[0].From
	}
	if last := len(f.parts) - 1; last < 0 || begins || f.parts[last].Text == nil || c.Type == pawl.ChunkError ||
		f.parts[last].Type != c.Type || f.parts[last].Status != status {
		f.flush()
		p := part(c)
		p.Status = status
		f.parts = append(f.parts, p)
	}
	f.text.WriteString(string(c.Text))
}

func (f *content) flush() {
	if n := len(f.parts); n > 0 && f.parts[n-1].Text != nil {
		*f.parts[n-1].Text = f.text.String()
	}
	f.text.Reset()
}

// json returns the content as it is stored. open says that more chunks may follow.
func (f *content) json(open bool) string {
	f.flush()
	parts := f.parts
	if n := len(parts); open && n > 0 && parts[n-1].Text != nil && parts[n-1].Status == "" {
		parts[n-1].Status = pawl.PartStreaming
	} else if open && (n == 0 || parts[n-1].Status == pawl.PartAbandoned) {
		parts = append(parts, pawl.MessagePart{Type: pawl.ChunkText, Text: new(string), Status: pawl.PartStreaming})
	}
	if parts == nil {
		return "[]"
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(parts) // the parts were checked when they were received
	return strings.TrimSuffix(b.String(), "\n")
}

// part converts a chunk to the part format that other agent software uses.
func part(c *pawl.Chunk) pawl.MessagePart {
	p := pawl.MessagePart{Type: strings.ReplaceAll(c.Type, "_", "-"), ToolCallID: c.ToolCallID, ToolName: c.ToolName, Input: c.Input,
		Output:  c.Output,
		IsError: c.IsError, MediaType: c.MediaType, URL: c.URL, Data: c.Data}
	if c.Type == pawl.ChunkText || c.Type == pawl.ChunkReasoning || c.Type == pawl.ChunkError {
		p.Text = new(string)
	}
	return p
}

// Content returns the content of a message. For an open message it is built from the
// chunks so far.
func Content(ctx context.Context, tx Tx, m *MessageRow) (string, error) {
	if m.Kept != "" {
		return string(m.Kept), nil
	}
	f := content{cuts: m.Cuts}
	r := chunkReader{}
	err := r.each(ctx, tx, m.ID, m.Cuts, f.add)
	if err == nil && r.next < m.Offset {
		err = chunksMissing(m.ID)
	}
	return f.json(m.Status == pawl.MessageStreaming), err
}

// ToolCalls returns the state of a message's tool calls, in the order in which they began.
func ToolCalls(ctx context.Context, tx Tx, id string) ([]pawl.ToolCall, error) {
	var out []pawl.ToolCall
	at := map[string]int{}
	err := new(chunkReader).each(ctx, tx, id, nil, func(c *pawl.Chunk) {
		n, known := at[c.ToolCallID]
		switch {
		case c.Type == pawl.ChunkToolCall && !known:
			at[c.ToolCallID] = len(out)
			out = append(out, pawl.ToolCall{ToolCallID: c.ToolCallID, ToolName: c.ToolName})
		case c.Type == pawl.ChunkToolResult && known:
			out[n].Done = true
		}
	})
	return out, err
}
