package schema

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	maxDepth    = 500  // levels of a value that is checked
	maxNumber   = 1000 // characters of a number
	maxExponent = 1000 // positive or negative; larger ones make exact arithmetic too expensive
)

// refusal says why a text cannot be checked, and where (a JSON Pointer).
type refusal struct{ pointer, message string }

// decode parses JSON and keeps numbers as they are written. It refuses duplicate
// members, because parsers differ in which one they use. encoding/json cannot refuse
// them, and would take most of the time of a check.
func decode(raw []byte) (any, *refusal) {
	if !utf8.Valid(raw) {
		return nil, &refusal{"", "is not valid UTF-8"}
	}
	d := decoder{text: string(raw)} // decoded strings and numbers share its memory
	v, ok := d.value()
	if ok {
		if d.space(); d.at < len(d.text) {
			ok = d.fail("is followed by something else")
		}
	}
	if !ok {
		return nil, &refusal{pointer(d.path), d.message}
	}
	return v, nil
}

type decoder struct {
	text    string
	at      int
	path    []string // to the current value
	message string
}

func (d *decoder) fail(why string) bool {
	d.message = why
	return false
}

const notJSON = "is not valid JSON"

func (d *decoder) space() {
	for d.at < len(d.text) && (d.text[d.at] == ' ' || d.text[d.at] == '\n' || d.text[d.at] == '\t' || d.text[d.at] == '\r') {
		d.at++
	}
}

// next skips white space and takes c if it is there.
func (d *decoder) next(c byte) bool {
	d.space()
	if d.at < len(d.text) && d.text[d.at] == c {
		d.at++
		return true
	}
	return false
}

func (d *decoder) value() (any, bool) {
	d.space()
	if d.at == len(d.text) {
		return nil, d.fail(notJSON)
	}
	switch c := d.text[d.at]; c {
	case '{':
		return d.object()
	case '[':
		return d.array()
	case '"':
		s, ok := d.str()
		return s, ok
	case 't':
		return true, d.word("true")
	case 'f':
		return false, d.word("false")
	case 'n':
		return nil, d.word("null")
	}
	return d.number()
}

func (d *decoder) word(w string) bool {
	if !strings.HasPrefix(d.text[d.at:], w) {
		return d.fail(notJSON)
	}
	d.at += len(w)
	return true
}

// enter goes one level deeper.
func (d *decoder) enter() bool {
	d.at++
	if len(d.path) == maxDepth {
		d.path = nil
		return d.fail(fmt.Sprintf("is nested deeper than %d levels", maxDepth))
	}
	d.path = append(d.path, "")
	return true
}

func (d *decoder) object() (any, bool) {
	if !d.enter() {
		return nil, false
	}
	out := map[string]any{}
	for more := !d.next('}'); more; {
		if d.space(); d.at == len(d.text) || d.text[d.at] != '"' {
			d.path = d.path[:len(d.path)-1]
			return nil, d.fail(notJSON)
		}
		key, ok := d.str()
		d.path[len(d.path)-1] = key
		if !ok || !d.next(':') {
			return nil, d.fail(notJSON)
		}
		v, ok := d.value()
		if !ok {
			return nil, false
		}
		before := len(out)
		if out[key] = v; len(out) == before {
			return nil, d.fail("is there more than once")
		}
		if more = d.next(','); !more && !d.next('}') {
			return nil, d.fail(notJSON)
		}
	}
	d.path = d.path[:len(d.path)-1]
	return out, true
}

func (d *decoder) array() (any, bool) {
	if !d.enter() {
		return nil, false
	}
	out := []any{}
	for more := !d.next(']'); more; {
		depth := len(d.path)
		v, ok := d.value()
		if !ok {
			if len(d.path) >= depth {
				d.path[depth-1] = strconv.Itoa(len(out))
			}
			return nil, false
		}
		out = append(out, v)
		if more = d.next(','); !more && !d.next(']') {
			return nil, d.fail(notJSON)
		}
	}
	d.path = d.path[:len(d.path)-1]
	return out, true
}

// str reads a string.
func (d *decoder) str() (string, bool) {
	from := d.at + 1
	for i := from; i < len(d.text); i++ {
		switch c := d.text[i]; {
		case c == '"':
			d.at = i + 1
			return d.text[from:i], true
		case c == '\\':
			return d.escaped()
		case c < ' ':
			return "", d.fail(notJSON)
		}
	}
	return "", d.fail(notJSON)
}

func (d *decoder) escaped() (string, bool) {
	for i := d.at + 1; i < len(d.text); i++ {
		switch d.text[i] {
		case '\\':
			i++
		case '"':
			var s string
			err := json.Unmarshal([]byte(d.text[d.at:i+1]), &s)
			d.at = i + 1
			return s, err == nil || d.fail(notJSON)
		}
	}
	return "", d.fail(notJSON)
}

func (d *decoder) number() (any, bool) {
	from := d.at
	d.next('-')
	whole := d.digits()
	ok := whole == 1 || whole > 1 && d.text[d.at-whole] != '0'
	if ok && d.at < len(d.text) && d.text[d.at] == '.' {
		d.at++
		ok = d.digits() > 0
	}
	exponent := ""
	if ok && d.at < len(d.text) && (d.text[d.at] == 'e' || d.text[d.at] == 'E') {
		d.at++
		start := d.at
		if d.at < len(d.text) && (d.text[d.at] == '+' || d.text[d.at] == '-') {
			d.at++
		}
		ok = d.digits() > 0
		exponent = d.text[start:d.at]
	}
	if !ok {
		return nil, d.fail(notJSON)
	}
	if d.at-from > maxNumber {
		return nil, d.fail(fmt.Sprintf("is a number of more than %d characters", maxNumber))
	}
	if exponent != "" {
		if e, err := strconv.Atoi(exponent); err != nil || e > maxExponent || e < -maxExponent {
			return nil, d.fail(fmt.Sprintf("is a number with an exponent beyond ±%d", maxExponent))
		}
	}
	return json.Number(d.text[from:d.at]), true
}

func (d *decoder) digits() int {
	from := d.at
	for d.at < len(d.text) && d.text[d.at] >= '0' && d.text[d.at] <= '9' {
		d.at++
	}
	return d.at - from
}
