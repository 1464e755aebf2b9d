package store

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/pawl-work/pawl"
)

// EncodeChunks encodes the chunks of one append as they are stored: a JSON list. Nearly
// all chunks are plain text, and there are many. Those are written and read without
// encoding/json, at a tenth of its cost.
func EncodeChunks(chunks []pawl.Chunk) (string, error) {
	if slices.ContainsFunc(chunks, func(c pawl.Chunk) bool { return !plain(&c) }) {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		err := enc.Encode(chunks)
		return strings.TrimSuffix(b.String(), "\n"), err
	}
	var b strings.Builder
	for i := range chunks {
		b.WriteString(between[min(i, 1)])
		b.WriteString(chunks[i].Type)
		b.WriteString(thenText)
		b.WriteString(string(chunks[i].Text))
	}
	b.WriteString(atEnd)
	return b.String(), nil
}

// The JSON between the texts of plain chunks.
const (
	thenText = `","text":"`
	atEnd    = `"}]`
)

var between = [2]string{`[{"type":"`, `"},{"type":"`}

// worded are the types of chunks that have a text.
var worded = []string{pawl.ChunkText, pawl.ChunkReasoning, pawl.ChunkError}

// plain says whether a chunk consists of text that JSON writes unchanged.
func plain(c *pawl.Chunk) bool {
	for i := range len(c.Text) {
		if c.Text[i] < ' ' || c.Text[i] == '"' || c.Text[i] == '\\' {
			return false
		}
	}
	return slices.Contains(worded, c.Type) && c.ToolCallID == "" && c.ToolName == "" && c.Input == nil && c.Output == nil && !c.IsError &&
		c.MediaType == "" && c.URL == "" && c.Data == nil && utf8.ValidString(string(c.Text))
}

// Decode returns the chunks of a row, as they were given.
func (r *ChunkRow) Decode() ([]pawl.Chunk, error) { return r.decode(make([]pawl.Chunk, 0, r.Count)) }

// decode is Decode into a slice that the caller uses again.
func (r *ChunkRow) decode(into []pawl.Chunk) ([]pawl.Chunk, error) {
	if chunks := r.words(into[:0]); chunks != nil {
		return chunks, nil
	}
	var chunks []pawl.Chunk
	if err := json.Unmarshal([]byte(r.Body), &chunks); err != nil || len(chunks) != r.Count {
		return nil, &pawl.Error{Code: pawl.CodeInternal, Op: "message", Message: "chunks cannot be read", Err: err}
	}
	return chunks, nil
}

// words reads a row of plain chunks. It returns nil for any other row.
func (r *ChunkRow) words(chunks []pawl.Chunk) []pawl.Chunk {
	rest, found := strings.CutPrefix(r.Body, between[0])
	for found {
		kind, said, _ := strings.Cut(rest, thenText)
		at, n := slices.Index(worded, kind), strings.IndexByte(said, '"')
		if at < 0 || n < 0 || strings.IndexByte(said[:n], '\\') >= 0 {
			return nil
		}
		chunks = append(chunks, pawl.Chunk{Type: worded[at], Text: pawl.Words(said[:n])})
		if said[n:] == atEnd && len(chunks) == r.Count {
			return chunks
		}
		rest, found = strings.CutPrefix(said[n:], between[1])
	}
	return nil
}
