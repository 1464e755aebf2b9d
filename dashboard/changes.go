package dashboard

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// change is a difference between two JSON values at one place. Of a text of several lines, Lines has what differs.
type change struct {
	Path     string // a JSON pointer; "" = the whole value
	Op       string // add, remove or replace
	Old, New string
	Lines    []diffLine
}

// The bounds of a comparison by fields: bytes of both values, differences that are shown, lines of texts, and levels.
const (
	maxChanged      = 4 * maxPayload
	maxChanges      = 200
	maxChangedLines = 2000 // of all texts
	maxChangedDepth = 40
)

// changes collects differences.
type changes struct {
	List  []change
	lines int // that were compared
	more  bool
}

// Compared is the difference field by field; nil if the values are too large, or no JSON, for that.
func (c *diff) Compared() *changes {
	if len(c.Before)+len(c.After) > maxChanged || depthOf(c.Before) > maxChangedDepth || depthOf(c.After) > maxChangedDepth {
		return nil
	}
	before, had := decoded(c.Before)
	after, has := decoded(c.After)
	if !had || !has {
		return nil
	}
	var all changes
	if all.between("", before, after); all.more {
		return nil
	}
	return &all
}

func decoded(raw json.RawMessage) (v any, ok bool) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber() // digits stay as they are
	return v, d.Decode(&v) == nil
}

func (c *changes) add(d change) {
	if len(c.List) >= maxChanges {
		c.more = true
		return
	}
	c.List = append(c.List, d)
}

// between adds the differences of two values at a path.
func (c *changes) between(path string, a, b any) {
	switch a := a.(type) {
	case map[string]any:
		if b, is := b.(map[string]any); is {
			c.members(path, a, b)
			return
		}
	case []any:
		if b, is := b.([]any); is {
			c.elements(path, a, b)
			return
		}
	case string:
		if b, is := b.(string); is && a != b && strings.Contains(a+b, "\n") {
			old, new := strings.Split(a, "\n"), strings.Split(b, "\n")
			if c.lines += len(old) + len(new); c.lines > maxChangedLines || len(c.List) >= maxChanges {
				c.more = true
				return
			}
			c.add(change{Path: path, Op: "replace", Lines: compareLines(old, new)})
			return
		}
	}
	if !reflect.DeepEqual(a, b) {
		c.add(change{Path: path, Op: "replace", Old: c.written(a), New: c.written(b)})
	}
}

func (c *changes) members(path string, a, b map[string]any) {
	names := slices.Sorted(maps.Keys(a))
	for name := range b {
		if _, both := a[name]; !both {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		old, had := a[name]
		new, has := b[name]
		at := path + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
		switch {
		case !had:
			c.add(change{Path: at, Op: "add", New: c.written(new)})
		case !has:
			c.add(change{Path: at, Op: "remove", Old: c.written(old)})
		default:
			c.between(at, old, new)
		}
	}
}

// elements compares lists. What is the same at both ends is left out; the rest is compared place by place, and what one list has
// more was added or removed.
func (c *changes) elements(path string, a, b []any) {
	from := 0
	for len(a) > 0 && len(b) > 0 && reflect.DeepEqual(a[0], b[0]) {
		a, b, from = a[1:], b[1:], from+1
	}
	for len(a) > 0 && len(b) > 0 && reflect.DeepEqual(a[len(a)-1], b[len(b)-1]) {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	for i := range max(len(a), len(b)) {
		at := path + "/" + strconv.Itoa(from+i)
		switch {
		case i >= len(a):
			c.add(change{Path: at, Op: "add", New: c.written(b[i])})
		case i >= len(b):
			c.add(change{Path: at, Op: "remove", Old: c.written(a[i])})
		default:
			c.between(at, a[i], b[i])
		}
	}
}

// written is a value for a page: a text as it is, another value as JSON. One that is too long for it is not told whole.
func (c *changes) written(v any) string {
	text, is := v.(string)
	if !is {
		raw, _ := json.Marshal(v) // what was read as JSON is JSON
		c.more = c.more || len(raw) > maxPayloadInList
		return pretty(maxPayloadInList, raw)
	}
	c.more = c.more || len(text) > maxPayloadInList
	return cut(maxPayloadInList, text)
}
