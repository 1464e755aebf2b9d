package rules

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/jsonscan"
)

// Fields collects what is wrong with a call. The zero value has no faults.
type Fields []pawl.Field

// Add records a fault of the value at a JSON Pointer into the call.
func (f *Fields) Add(pointer, format string, args ...any) {
	*f = append(*f, pawl.Field{Pointer: pointer, Message: fmt.Sprintf(format, args...)})
}

// Err returns the faults as one error with code invalid, or nil if there are none.
func (f Fields) Err(op string) error {
	if len(f) == 0 {
		return nil
	}
	return &pawl.Error{Code: pawl.CodeInvalid, Op: op, Fields: f}
}

// Text checks that a short text has minLen to maxLen characters, is valid UTF-8 and
// contains no NUL.
func (f *Fields) Text(pointer, s string, minLen, maxLen int) {
	switch n := utf8.RuneCountInString(s); {
	case !utf8.ValidString(s):
		f.Add(pointer, "is not valid UTF-8")
	case strings.ContainsRune(s, 0):
		f.Add(pointer, "contains a NUL character")
	case n < minLen:
		f.Add(pointer, "is required")
	case n > maxLen:
		f.Add(pointer, "has %d characters; at most %d are allowed", n, maxLen)
	}
}

// Name checks the name of a checkpoint, which may be empty.
func (f *Fields) Name(pointer, name string) {
	if n := len(name); n > pawl.MaxStepNameLen {
		f.Add(pointer, "has %d bytes; at most %d are allowed", n, pawl.MaxStepNameLen)
		return
	}
	f.Text(pointer, name, 0, pawl.MaxStepNameLen)
}

// Number checks that n lies between low and high, both included.
func (f *Fields) Number(pointer string, n, low, high int) {
	if n < low || n > high {
		f.Add(pointer, "is %d; it must lie between %d and %d", n, low, high)
	}
}

// Ahead checks that a time lies at most pawl.MaxDelay after now; nil is valid.
func (f *Fields) Ahead(pointer string, t *time.Time, now time.Time) {
	if t != nil && t.Sub(now) > pawl.MaxDelay {
		f.Add(pointer, "lies more than ten years ahead")
	}
}

// RunAt is Ahead for the time at which work begins, which may be pawl.Never.
func (f *Fields) RunAt(pointer string, t *time.Time, now time.Time) {
	if t == nil || !t.Equal(pawl.Never) {
		f.Ahead(pointer, t, now)
	}
}

// maxDelaySeconds is pawl.MaxDelay in seconds.
const maxDelaySeconds = int(pawl.MaxDelay / time.Second)

// Deadline checks that a time lies after now, and at most pawl.MaxDelay after it; nil is
// valid.
func (f *Fields) Deadline(pointer string, t *time.Time, now time.Time) {
	if t != nil && !t.After(now) {
		f.Add(pointer, "has passed: it is now %s", now.UTC().Format(time.RFC3339))
	}
	f.Ahead(pointer, t, now)
}

// JSON checks that a value is JSON of at most limit bytes and pawl.MaxDepth levels,
// in UTF-8, without NUL and without halves of surrogate pairs. An absent value is valid.
func (f *Fields) JSON(pointer string, raw json.RawMessage, limit int) {
	f.json(pointer, raw, limit, jsonscan.BadString)
}

// Halved is JSON for text that may be cut in the middle of a character: half of a surrogate pair is valid.
func (f *Fields) Halved(pointer string, raw json.RawMessage, limit int) {
	f.json(pointer, raw, limit, jsonscan.BadStringHalved)
}

func (f *Fields) json(pointer string, raw json.RawMessage, limit int, bad func([]byte) (pointer, reason string)) {
	if len(raw) == 0 {
		return
	}
	if len(raw) > limit {
		f.Add(pointer, "has %d bytes; at most %d are allowed", len(raw), limit)
		return
	}
	if jsonscan.Depth(raw) > pawl.MaxDepth {
		f.Add(pointer, "is nested more than %d levels deep", pawl.MaxDepth)
		return
	}
	if !json.Valid(raw) {
		f.Add(pointer, "is not valid JSON")
		return
	}
	if at, what := bad(raw); what != "" {
		f.Add(pointer+at, "%s", what)
	}
}

// Object checks that a value is a JSON object of at most limit bytes. It sets null to
// nil, as if the member had been left out.
func (f *Fields) Object(pointer string, raw *json.RawMessage, limit int) {
	if string(bytes.TrimSpace(*raw)) == "null" {
		*raw = nil
	}
	f.JSON(pointer, *raw, limit)
	if first := bytes.TrimLeft(*raw, " \t\r\n"); len(first) > 0 && first[0] != '{' {
		f.Add(pointer, "must be a JSON object")
	}
}

// Fence checks the members of a fencing token.
func (f *Fields) Fence(c pawl.Fence) {
	f.FenceOf("/id", c)
}

// FenceOf checks the fence of a call that names its item elsewhere than in its path.
func (f *Fields) FenceOf(item string, c pawl.Fence) {
	f.Text(item, c.ItemID, 1, pawl.MaxIDLen)
	f.Text("/worker_id", c.WorkerID, 1, pawl.MaxIDLen)
	if c.Attempt < 1 {
		f.Add("/attempt", "must be the attempt that the claim gave, 1 or more")
	}
}

// OrNull returns the JSON text of a value, null if it is absent.
func OrNull(raw json.RawMessage) string {
	if len(raw) == 0 {
		return "null"
	}
	return string(raw)
}

// Choice checks that a word is one of a list; "" means the first.
func Choice[W ~string](f *Fields, pointer string, word W, words ...W) {
	if word == "" || slices.Contains(words, word) {
		return
	}
	list := make([]string, len(words))
	for i, w := range words {
		list[i] = string(w)
	}
	f.Add(pointer, "is %q; it must be one of %s", word, strings.Join(list, ", "))
}

// Encode returns the JSON of a value that can always be encoded; it panics otherwise.
func Encode(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("rules: %T cannot be encoded: %v", v, err))
	}
	return b
}

// oneOf lists the possible names, for the end of a message.
func oneOf(names []string) string {
	if len(names) == 0 {
		return "; it has none"
	}
	out := "; possible:"
	for i, n := range names {
		if i > 0 {
			out += ","
		}
		out += " " + n
	}
	return out
}

// CheckBatch refuses a call with more than pawl.MaxItemsPerCall entries.
func CheckBatch(op string, n int) error {
	if n > pawl.MaxItemsPerCall {
		return &pawl.Error{
			Code:    pawl.CodeInvalid,
			Op:      op,
			Message: fmt.Sprintf("%d calls in one batch; at most %d are allowed", n, pawl.MaxItemsPerCall),
		}
	}
	return nil
}

// CallBytes counts the bytes that one call stores: a short call may store many by
// cloning or by a plan.
type CallBytes struct {
	Op   string // the verb, for the error
	used int
}

// Take counts n bytes. It returns an error with code too_large, and counts nothing,
// if the call would store more than pawl.MaxCallBytes.
func (r *CallBytes) Take(n int) error {
	if r.used+n > pawl.MaxCallBytes {
		return &pawl.Error{
			Code:    pawl.CodeTooLarge,
			Op:      r.Op,
			Message: fmt.Sprintf("the call would store more than %d bytes; make several calls of it", pawl.MaxCallBytes),
		}
	}
	r.used += n
	return nil
}

// Under puts the faults of a part of a call under the pointer of the part.
func Under(pointer string, err error) error {
	var e *pawl.Error
	if !errors.As(err, &e) || len(e.Fields) == 0 {
		return err
	}
	out := *e
	out.Fields = slices.Clone(e.Fields)
	for i := range out.Fields {
		out.Fields[i].Pointer = pointer + out.Fields[i].Pointer
	}
	return &out
}
