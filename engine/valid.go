package engine

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/jsonscan"
	"github.com/pawl-work/pawl/store"
)

// fields gathers what is wrong with a call; nil error when nothing is.
type fields []pawl.Field

func (f *fields) add(pointer, format string, args ...any) {
	*f = append(*f, pawl.Field{Pointer: pointer, Message: fmt.Sprintf(format, args...)})
}

func (f fields) err(op string) error {
	if len(f) == 0 {
		return nil
	}
	return &pawl.Error{Code: pawl.CodeInvalid, Op: op, Fields: f}
}

// text checks a short text given by a caller: length in characters, UTF-8, no NUL.
func (f *fields) text(pointer, s string, minLen, maxLen int) {
	switch n := utf8.RuneCountInString(s); {
	case !utf8.ValidString(s):
		f.add(pointer, "is not valid UTF-8")
	case strings.ContainsRune(s, 0):
		f.add(pointer, "contains a NUL character")
	case n < minLen:
		f.add(pointer, "is required")
	case n > maxLen:
		f.add(pointer, "has %d characters; at most %d are allowed", n, maxLen)
	}
}

func (f *fields) number(pointer string, n, low, high int) {
	if n < low || n > high {
		f.add(pointer, "is %d; it must lie between %d and %d", n, low, high)
	}
}

// ahead checks a time that may lie ahead: not beyond MaxDelay of now.
func (f *fields) ahead(pointer string, t *time.Time, now time.Time) {
	if t != nil && t.Sub(now) > pawl.MaxDelay {
		f.add(pointer, "lies more than ten years ahead")
	}
}

// json checks a JSON value: its size and depth, that it is JSON, UTF-8 and free
// of NUL.
func (f *fields) json(pointer string, raw json.RawMessage, limit int) {
	if len(raw) == 0 {
		return
	}
	if len(raw) > limit {
		f.add(pointer, "has %d bytes; at most %d are allowed", len(raw), limit)
		return
	}
	if jsonscan.Depth(raw) > pawl.MaxDepth {
		f.add(pointer, "is nested more than %d levels deep", pawl.MaxDepth)
		return
	}
	if !json.Valid(raw) {
		f.add(pointer, "is not valid JSON")
		return
	}
	if at, what := jsonscan.BadString(raw); what != "" {
		f.add(pointer+at, "%s", what)
	}
}

// object checks a JSON object; null is none, like a member that is left out.
func (f *fields) object(pointer string, raw *json.RawMessage, limit int) {
	if string(bytes.TrimSpace(*raw)) == "null" {
		*raw = nil
	}
	f.json(pointer, *raw, limit)
	if first := bytes.TrimLeft(*raw, " \t\r\n"); len(first) > 0 && first[0] != '{' {
		f.add(pointer, "must be a JSON object")
	}
	if halved(*raw) {
		f.add(pointer, "has half of a surrogate pair: such text is no Unicode, and PostgreSQL cannot search it")
	}
}

// halved says that an escape in a JSON text is half of a surrogate pair.
func halved(raw []byte) bool {
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

func (f *fields) fence(c pawl.Fence) {
	f.text("/id", c.ItemID, 1, pawl.MaxIDLen)
	f.text("/worker_id", c.WorkerID, 1, pawl.MaxIDLen)
	if c.Attempt < 1 {
		f.add("/attempt", "must be the attempt that the claim gave, 1 or more")
	}
}

// orNull is the JSON text of a value, null when none was given.
func orNull(raw json.RawMessage) string {
	if len(raw) == 0 {
		return "null"
	}
	return string(raw)
}

func micros(t *time.Time) *int64 {
	if t == nil {
		return nil
	}
	us := t.UnixMicro()
	return &us
}

func stamp(us int64) time.Time { return time.UnixMicro(us).UTC() }

// actor is who an event names: the caller's own word, or the verb's default.
func actor(c pawl.Caller, kind, id string) store.Actor {
	return store.Actor{Type: cmp.Or(c.ActorType, kind), ID: cmp.Or(c.ActorID, id), Key: c.Key}
}
