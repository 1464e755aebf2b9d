package dashboard

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/pawl-work/pawl/internal/jsonscan"
)

// diff is the diff of an event or a result; its operations are those of RFC 6902.
type diff struct {
	Summary       string
	Before, After json.RawMessage
	Operations    operations
}

// maxOperations is how many operations of a diff are shown.
const maxOperations = 200

// operations are the first operations of a diff.
type operations struct {
	List []operation
	More bool
}

// UnmarshalJSON reads the first operations alone: a diff may have hundreds of thousands.
func (o *operations) UnmarshalJSON(raw []byte) error {
	list := json.NewDecoder(bytes.NewReader(raw))
	if begin, err := list.Token(); err != nil || begin != json.Delim('[') {
		return err
	}
	for len(o.List) < maxOperations && list.More() {
		var op operation
		if err := list.Decode(&op); err != nil {
			return err
		}
		o.List = append(o.List, op)
	}
	o.More = list.More()
	return nil
}

type operation struct {
	Op, Path, From string
	Value          json.RawMessage
	Old            json.RawMessage `json:"-"` // the value at the path before
}

// parseDiff parses a diff; nil if raw is not one.
func parseDiff(raw json.RawMessage) *diff {
	var c diff
	if json.Unmarshal(raw, &c) != nil || c.Before == nil && c.After == nil && len(c.Operations.List) == 0 {
		return nil
	}
	paths := make([]string, len(c.Operations.List))
	for i, op := range c.Operations.List {
		paths[i] = op.Path
	}
	for i, old := range jsonscan.Select(c.Before, paths) {
		c.Operations.List[i].Old = old
	}
	return &c
}

// diffLine is a line of a comparison: Op is "add", "remove" or "" for both.
type diffLine struct{ Op, Text string }

// maxCompared bounds the lines of each side: the work grows with their product.
const maxCompared = 1000

// Lines compares before with after, line by line.
func (c *diff) Lines() []diffLine { return compareLines(textLines(c.Before), textLines(c.After)) }

// compareLines compares texts line by line.
func compareLines(a, b []string) []diffLine {
	var out, tail []diffLine
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		out, a, b = append(out, diffLine{"", a[0]}), a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		tail, a, b = append(tail, diffLine{"", a[len(a)-1]}), a[:len(a)-1], b[:len(b)-1]
	}
	out = append(out, compare(a, b)...)
	for i := range tail {
		out = append(out, tail[len(tail)-1-i])
	}
	return out
}

// compare is a diff by the longest common subsequence of lines. For texts over
// maxCompared it removes all lines of the first and adds all of the second.
func compare(a, b []string) (out []diffLine) {
	common := make([][]int, len(a)+1) // common[i][j] = how many lines a[i:] and b[j:] share
	if len(a) <= maxCompared && len(b) <= maxCompared {
		for i := len(a); i >= 0; i-- {
			common[i] = make([]int, len(b)+1)
			for j := len(b) - 1; i < len(a) && j >= 0; j-- {
				if common[i][j] = max(common[i+1][j], common[i][j+1]); a[i] == b[j] {
					common[i][j] = common[i+1][j+1] + 1
				}
			}
		}
	} else {
		common = nil
	}
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case common != nil && i < len(a) && j < len(b) && a[i] == b[j]:
			out, i, j = append(out, diffLine{"", a[i]}), i+1, j+1
		case i < len(a) && (j == len(b) || common == nil || common[i+1][j] >= common[i][j+1]):
			out, i = append(out, diffLine{"remove", a[i]}), i+1
		default:
			out, j = append(out, diffLine{"add", b[j]}), j+1
		}
	}
	return out
}

// textLines are the lines of a string value, or of indented JSON; strings in the JSON
// are broken at their line breaks.
func textLines(raw json.RawMessage) []string {
	var text string
	if raw == nil {
		return nil
	}
	if json.Unmarshal(raw, &text) != nil {
		var b bytes.Buffer
		if text = string(raw); len(raw) <= maxPayload && depthOf(raw) <= maxIndent && json.Indent(&b, raw, "", "  ") == nil {
			text = breakLines(b.String())
		}
	}
	if len(text) > 4*maxPayload {
		text = strings.ToValidUTF8(text[:4*maxPayload], "") + "\n… " + strconv.Itoa(len(raw)) + " bytes in all"
	}
	return strings.Split(text, "\n")
}

// breakLines adds a line break after each \n in the strings of a JSON text.
func breakLines(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		b.WriteByte(text[i])
		if text[i] == '\\' && i+1 < len(text) {
			i++
			if b.WriteByte(text[i]); text[i] == 'n' {
				b.WriteByte('\n')
			}
		}
	}
	return b.String()
}
