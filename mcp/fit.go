package mcp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
)

// An answer is put before a model, which reads about 20,000 tokens at most. So it has at most
// pawl.MaxMCPAnswer bytes: a page ends early, with a cursor, and the largest bodies, such as
// payloads, are cut: a note says how large the body is and how to read it (see readTool).

const (
	// CutMember is the only member of an object in the place of a body that was cut: its size
	// in bytes, its beginning, and the arguments of work_read that read it.
	CutMember = "$cut"
	// CutMeta is the number of bodies that were cut, in the _meta of an answer.
	CutMeta = "io.github.pawl-work/cut"
)

const (
	minBody   = 2 << 10 // smaller bodies are not cut
	noteBytes = 1 << 10 // most of what a note needs
	beginning = 160     // bytes of a body that its note has
	readTool  = "work_read"
)

// cut is a note in the place of a body.
type cut struct {
	Bytes  int    `json:"bytes"`
	Begins string `json:"begins"`
	Read   readIn `json:"read"`
}

// body is a value of an answer that may be cut.
type body struct {
	start, end int
	path       []string // of names; in a list, the id of the element
}

// fit cuts the largest bodies of a tool's answer until it is short enough. It cuts none for a
// caller that may not call work_read. It returns how many it cut.
func (s *Server) fit(ctx context.Context, t tool, args, answer json.RawMessage) (json.RawMessage, int) {
	if len(answer) <= pawl.MaxMCPAnswer || t.Name == readTool || s.allows(ctx, api.Reader) != nil {
		return answer, 0
	}
	all := bodies(answer)
	slices.SortStableFunc(all, func(a, b body) int { return cmp.Compare(b.end-b.start, a.end-a.start) })
	type change struct {
		body
		note json.RawMessage
	}
	var changes []change
	for size := len(answer); size > pawl.MaxMCPAnswer && len(changes) < len(all); {
		b := all[len(changes)]
		value := answer[b.start:b.end]
		if len(value) < minBody {
			break
		}
		text := textOf(value)
		note, err := encode(map[string]cut{CutMember: {len(text), upTo(text, beginning), restOf(t, args, answer, b.path)}})
		if err != nil {
			break
		}
		size += len(note) - len(value)
		changes = append(changes, change{b, note})
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Compare(a.start, b.start) })
	var out bytes.Buffer
	at := 0
	for _, c := range changes {
		out.Write(answer[at:c.start])
		out.Write(c.note)
		at = c.end
	}
	out.Write(answer[at:])
	return out.Bytes(), len(changes)
}

// fitted returns the result of a call, with its answer as far as it fits.
func (s *Server) fitted(ctx context.Context, t tool, args, answer json.RawMessage, meta sdk.Meta) *sdk.CallToolResult {
	answer, n := s.fit(ctx, t, args, answer)
	if n > 0 {
		if meta == nil {
			meta = sdk.Meta{}
		}
		meta[CutMeta] = n
	}
	return &sdk.CallToolResult{Meta: meta, StructuredContent: answer, Content: []sdk.Content{&sdk.TextContent{Text: string(answer)}}}
}

// textOf returns a body as work_read gives it: a text as it is, other values as JSON.
func textOf(value json.RawMessage) string {
	var text string
	if len(value) > 0 && value[0] == '"' && json.Unmarshal(value, &text) == nil {
		return text
	}
	return string(value)
}

// upTo returns the beginning of a text, of at most n bytes and of whole characters.
func upTo(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// bodies returns the values of an answer that may be cut: the members of its records. A record
// is a member of the answer, an element of its lists or a value of its maps. A result and an
// error are bodies themselves.
func bodies(answer json.RawMessage) (out []body) {
	eachMember(answer, 0, func(name string, value json.RawMessage, at int) {
		switch {
		case name == "result" || name == "error" || value[0] != '{' && value[0] != '[':
			out = append(out, body{at, at + len(value), []string{name}})
		case name == "steps" || name == "signals":
			eachMember(value, at, func(key string, value json.RawMessage, at int) {
				out = append(out, members(value, at, name, key)...)
			})
		default:
			if value[0] == '{' {
				out = append(out, members(value, at, name)...)
				return
			}
			n := 0
			eachElement(value, at, func(value json.RawMessage, at int) {
				out = append(out, members(value, at, name, idOf(value, n))...)
				n++
			})
		}
	})
	return out
}

// members returns the members of a record, or what is there in its place.
func members(record json.RawMessage, at int, path ...string) (out []body) {
	if record[0] != '{' {
		return []body{{at, at + len(record), path}}
	}
	eachMember(record, at, func(name string, value json.RawMessage, at int) {
		out = append(out, body{at, at + len(value), append(slices.Clone(path), name)})
	})
	return out
}

// idOf names an element of a list: by its id, or else by its place.
func idOf(element json.RawMessage, n int) string {
	var of struct {
		ID string `json:"id"`
	}
	if json.Unmarshal(element, &of) == nil && of.ID != "" {
		return of.ID
	}
	return strconv.Itoa(n)
}

// eachMember calls fn with the members of an object that begins at an offset; for other values
// it does nothing.
func eachMember(object json.RawMessage, at int, fn func(name string, value json.RawMessage, at int)) {
	walk(object, at, '{', func(d *jsontext.Decoder) (string, error) {
		name, err := d.ReadToken()
		if err != nil {
			return "", err
		}
		return name.String(), nil
	}, fn)
}

func eachElement(list json.RawMessage, at int, fn func(value json.RawMessage, at int)) {
	walk(list, at, '[', func(*jsontext.Decoder) (string, error) { return "", nil },
		func(_ string, value json.RawMessage, at int) { fn(value, at) })
}

func walk(value json.RawMessage, at int, kind jsontext.Kind, name func(*jsontext.Decoder) (string, error),
	fn func(name string, value json.RawMessage, at int)) {
	d := jsontext.NewDecoder(bytes.NewBuffer(value), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if d.PeekKind() != kind {
		return
	}
	if _, err := d.ReadToken(); err != nil {
		return
	}
	for d.PeekKind() != '}' && d.PeekKind() != ']' {
		key, err := name(d)
		if err != nil {
			return
		}
		v, err := d.ReadValue()
		if err != nil {
			return
		}
		end := int(d.InputOffset())
		fn(key, value[end-len(v):end], at+end-len(v))
	}
}

// within reads a page whose rows have at most so many bytes together, even if their bodies are
// not cut short before: it reads the page anew with as many rows as fit, for its cursor. The
// first row is there however large it is.
func within[T any](bytes int, p pawl.Page, read func(pawl.Page) (pawl.List[T], error)) (pawl.List[T], error) {
	for {
		l, err := read(p)
		if err != nil {
			return l, err
		}
		n, err := fitting(bytes, l.Items)
		if err != nil || n == len(l.Items) {
			return l, err
		}
		p.Limit = n
	}
}

// fitting returns how many of the first rows have at most so many bytes when their bodies are
// cut; at least one, if there is one.
func fitting[T any](bytes int, rows []T) (int, error) {
	used := 0
	for n, row := range rows {
		raw, err := encode(row)
		if err != nil {
			return 0, err
		}
		if used += leastOf(raw); used > bytes && n > 0 {
			return n, nil
		}
	}
	return len(rows), nil
}

// leastOf returns the size of a record, or of several, whose bodies are cut.
func leastOf(record json.RawMessage) int {
	least := len(record) + 1
	all := members(record, 0)
	if record[0] == '[' {
		all = nil
		eachElement(record, 0, func(record json.RawMessage, at int) { all = append(all, members(record, at)...) })
	}
	for _, b := range all {
		if size := b.end - b.start; size >= minBody {
			least -= size - noteBytes
		}
	}
	return least
}
