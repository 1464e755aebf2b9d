// Package jsonscan reads valid JSON texts in one pass: the cost is linear in the
// text, however deep it is nested. It recurses, so callers bound the depth first.
package jsonscan

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Depth returns how deep objects and lists are nested in a text. The text need not be valid
// JSON.
func Depth(raw []byte) int {
	depth, deepest := 0, 0
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			i = endOfString(raw, i) - 1
		case '{', '[':
			depth++
			deepest = max(deepest, depth)
		case '}', ']':
			depth--
		}
	}
	return deepest
}

// End returns the length of the value that a text begins with. The text need not be valid JSON.
func End(raw []byte) int { return min(skip(raw, 0), len(raw)) }

// WithoutControls returns the text with blanks for the control characters in its strings.
func WithoutControls(raw []byte) []byte {
	out := bytes.Clone(raw)
	for i := 0; i < len(out); i++ {
		if out[i] != '"' {
			continue
		}
		end := min(endOfString(out, i), len(out))
		for ; i < end; i++ {
			if out[i] < ' ' {
				out[i] = ' '
			}
		}
		i = end - 1
	}
	return out
}

// BadString returns the JSON Pointer of the first string that is not UTF-8, contains NUL or has half of
// a surrogate pair, and what is wrong with it. The reason is "" if there is no such string.
func BadString(raw []byte) (pointer, reason string) { return badString(raw, hasHalf(raw)) }

// BadStringHalved is BadString without the check for halves of surrogate pairs.
func BadStringHalved(raw []byte) (pointer, reason string) { return badString(raw, false) }

func badString(raw []byte, halves bool) (pointer, reason string) {
	if !halves && utf8.Valid(raw) && !bytes.Contains(raw, []byte(`\u0000`)) {
		return "", ""
	}
	f := &fault{halves: halves}
	f.look(raw, 0)
	return string(f.path), f.reason
}

// fault is a search for a bad string; path leads to the current value.
type fault struct {
	path   []byte
	reason string
	halves bool // halves of surrogate pairs are refused
}

func (f *fault) look(raw []byte, i int) int {
	return members(raw, i, func(name []byte, index, at int) (end int) {
		before := len(f.path)
		switch {
		case name == nil:
			f.path = strconv.AppendInt(append(f.path, '/'), int64(index), 10)
		case !utf8.Valid(name):
			f.reason = "has a name that is not valid UTF-8"
			return -1
		default:
			f.path = append(append(f.path, '/'), escape.Replace(unquote(name))...)
			if hasNUL(name) {
				f.reason = "its name contains a NUL character"
				return -1
			}
			if f.halves && hasHalf(name) {
				f.reason = "its name has half of a surrogate pair"
				return -1
			}
		}
		if end = f.look(raw, at); end >= 0 {
			f.path = f.path[:before]
		}
		return end
	}, func(text []byte) bool {
		switch {
		case text[0] != '"':
		case !utf8.Valid(text):
			f.reason = "is not valid UTF-8"
		case hasNUL(text):
			f.reason = "contains a NUL character"
		case f.halves && hasHalf(text):
			f.reason = "has half of a surrogate pair: such text is no Unicode"
		}
		return f.reason == ""
	})
}

// Select returns the values that JSON Pointers (RFC 6901) name in a text; nil for a pointer
// without a value. If a name is in an object twice, the last one counts.
func Select(raw []byte, pointers []string) []json.RawMessage {
	s := &selection{raw: raw, out: make([]json.RawMessage, len(pointers))}
	var all []wanted
	for i, p := range pointers {
		switch {
		case len(raw) == 0:
		case p == "":
			s.out[i] = raw
		case p[0] == '/':
			all = append(all, want(i, p))
		}
	}
	if len(all) > 0 {
		s.look(0, all)
	}
	return s.out
}

type selection struct {
	raw []byte
	out []json.RawMessage
}

// wanted is the rest of a pointer, from some value on.
type wanted struct {
	which int
	path  []string
}

func want(which int, pointer string) wanted {
	w := wanted{which, strings.Split(pointer[1:], "/")}
	for i, token := range w.path {
		w.path[i] = unescape.Replace(token)
	}
	return w
}

// look finds the wanted values inside the value at i.
func (s *selection) look(i int, from []wanted) int {
	return members(s.raw, i, func(name []byte, index, at int) (end int) {
		var here, below []wanted
		number := ""
		if name == nil {
			number = strconv.Itoa(index)
		}
		for _, w := range from {
			if name != nil && !is(name, w.path[0]) || name == nil && w.path[0] != number {
				continue
			}
			s.out[w.which] = nil // an earlier member with the same name does not count
			if len(w.path) == 1 {
				here = append(here, w)
			} else {
				below = append(below, wanted{w.which, w.path[1:]})
			}
		}
		if len(below) > 0 {
			end = s.look(at, below)
		} else {
			end = skip(s.raw, at)
		}
		for _, w := range here {
			s.out[w.which] = s.raw[at:end]
		}
		return end
	}, func([]byte) bool { return true })
}

// members calls each for every member of the object or list at i, and scalar for any other
// value. each returns the index after the member's value, or -1 to stop. members returns the
// index after the value at i, or -1 if it was stopped.
func members(raw []byte, i int, each func(name []byte, index, at int) int, scalar func(text []byte) bool) int {
	i = space(raw, i)
	if raw[i] != '{' && raw[i] != '[' {
		end := skip(raw, i)
		if !scalar(raw[i:end]) {
			return -1
		}
		return end
	}
	object := raw[i] == '{'
	i = space(raw, i+1)
	for index := 0; raw[i] != '}' && raw[i] != ']'; index++ {
		var name []byte
		if object {
			end := endOfString(raw, i)
			name, i = raw[i:end], space(raw, end)+1 // after the colon
		}
		if i = each(name, index, space(raw, i)); i < 0 {
			return -1
		}
		if i = space(raw, i); raw[i] == ',' {
			i = space(raw, i+1)
		}
	}
	return i + 1
}

// skip returns the index after the value at i.
func skip(raw []byte, i int) int {
	for depth := 0; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			i = endOfString(raw, i) - 1
		case '{', '[':
			depth++
			continue
		case '}', ']':
			depth--
		default:
			if depth > 0 {
				continue
			}
			for i+1 < len(raw) && !bytes.ContainsRune([]byte(" \t\r\n,]}"), rune(raw[i+1])) {
				i++
			}
		}
		if depth == 0 {
			return i + 1
		}
	}
	return i
}

func space(raw []byte, i int) int {
	for i < len(raw) && (raw[i] == ' ' || raw[i] == '\t' || raw[i] == '\r' || raw[i] == '\n') {
		i++
	}
	return i
}

// endOfString returns the index after the string that begins at i.
func endOfString(raw []byte, i int) int {
	for i++; i < len(raw); i++ {
		switch raw[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(raw)
}

// hasNUL reports whether a string contains the escape of a NUL. After an even number of
// backslashes the same letters are text.
func hasNUL(text []byte) bool {
	for i := 0; i+5 < len(text); i++ {
		if text[i] != '\\' {
			continue
		}
		if string(text[i+1:i+6]) == "u0000" {
			return true
		}
		i++
	}
	return false
}

// is reports whether a name in the text equals key.
func is(name []byte, key string) bool {
	if bytes.IndexByte(name, '\\') < 0 {
		return string(name[1:len(name)-1]) == key
	}
	return unquote(name) == key
}

func unquote(name []byte) string {
	if bytes.IndexByte(name, '\\') < 0 {
		return string(name[1 : len(name)-1])
	}
	var s string
	_ = json.Unmarshal(name, &s) // it is part of a valid text
	return s
}

var (
	escape   = strings.NewReplacer("~", "~0", "/", "~1")
	unescape = strings.NewReplacer("~1", "/", "~0", "~")
)

// hasHalf reports whether an escape in a JSON text is half of a surrogate pair.
func hasHalf(raw []byte) bool {
	if !bytes.Contains(raw, []byte(`\u`)) {
		return false
	}
	high := false // the escape before was the first half
	for i := 0; i < len(raw); i++ {
		unit := uint64(0)
		if raw[i] == '\\' && i+5 < len(raw) && raw[i+1] == 'u' {
			unit, _ = strconv.ParseUint(string(raw[i+2:i+6]), 16, 16)
			i += 5
		} else if raw[i] == '\\' {
			i++
		}
		low := unit >= 0xDC00 && unit < 0xE000
		if high != low {
			return true
		}
		high = unit >= 0xD800 && unit < 0xDC00
	}
	return high
}
