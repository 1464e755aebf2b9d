package pawl

import (
	"cmp"
	"encoding/json"
	"errors"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"
)

// FailureGroup is the items of one type that are failed or dead-lettered with the same error:
// the same code, and messages that differ only in what Normalized replaces. Tasks that failed without an item, as in the
// hook Apply, are in groups of their own: ItemID is empty, and tasks are counted.
type FailureGroup struct {
	// Failure names the group. It is a filter of tasks, items and bulk calls. It stays the same
	// for the same type and error.
	Failure      string    `json:"failure"`
	Type         string    `json:"type"`           // of the items
	Code         string    `json:"code,omitempty"` // of their errors
	Error        string    `json:"error"`          // the message, normalized
	Count        int64     `json:"count"`          // items: Failed + DeadLettered
	Failed       int64     `json:"failed"`
	DeadLettered int64     `json:"dead_lettered"`
	FirstAt      time.Time `json:"first_at"` // when the longest failed of these items failed
	LastAt       time.Time `json:"last_at"`  // when the last one failed
	ItemID       string    `json:"item_id"`  // the one that failed last, as an example
	TaskID       string    `json:"task_id"`  // its task
	Message      string    `json:"message"`  // its message
}

// FailureFilter selects groups of failures, those with the most items first.
type FailureFilter struct {
	Types []string  // empty = all
	State ItemState // ItemFailed or ItemDeadLettered: only items in this state count; "" = both
	Page
}

// Normalized returns the message without what differs between occurrences of one error: numbers
// become <n>, ids <id>, UUIDs <uuid>, hexadecimal numbers <hex>, quoted texts <text>, paths
// <path> and URLs <url>. Only the first 2000 bytes of the message count.
func (f Failure) Normalized() string { return normalized(f.Message) }

// Key returns the number of the group that the error belongs to, among the errors of a type: a
// hash of its code and normalized message. It is never 0.
func (f Failure) Key() int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(f.Code + "\x00" + f.Normalized()))
	return max(1, int64(h.Sum64()>>1))
}

// inPayloads are the members whose contents only callers who read payloads see.
var inPayloads = []string{"payload", "input", "result", "evidence"}

// FailureOf returns a refusal as an error of an item or a schedule. Refusals quote what does not fit in a payload. All
// who read the item see the message: it has the place of the payload alone. The detail has the fields of the refusal.
func FailureOf(err error) Failure {
	var e *Error
	if !errors.As(err, &e) {
		return Failure{Code: string(CodeOf(err)), Message: err.Error()}
	}
	out := Failure{Code: string(e.Code), Message: cmp.Or(e.Message, e.Code.Info().Means)}
	var said []string
	hidden := false
	for _, f := range e.Fields {
		text := f.text()
		if place, is := payloadOf(f.Pointer); is {
			text, hidden = place+": does not fit", true
		}
		if !slices.Contains(said, text) {
			said = append(said, text)
		}
	}
	if len(said) > 0 {
		out.Message = strings.Join(said, "; ")
	}
	if hidden {
		out.Detail, _ = json.Marshal(map[string]any{"errors": e.Fields}) // texts can always be encoded
	}
	return out
}

// payloadOf returns the place of the payload that a pointer leads into.
func payloadOf(pointer string) (place string, is bool) {
	tokens := strings.Split(pointer, "/")
	for i, t := range tokens {
		if slices.Contains(inPayloads, t) {
			return strings.Join(tokens[:i+1], "/"), true
		}
	}
	return pointer, false
}

// FailureName returns the name of the group of failures of a type with a key.
func FailureName(typ string, key int64) string {
	digits := strconv.FormatInt(key, 16)
	return typ + ":" + strings.Repeat("0", 16-len(digits)) + digits
}

// ParseFailureName returns the type and the key in a name of FailureName.
func ParseFailureName(name string) (typ string, key int64, ok bool) {
	at := strings.LastIndexByte(name, ':')
	if at < 1 || len(name)-at != 17 {
		return "", 0, false
	}
	key, err := strconv.ParseInt(name[at+1:], 16, 64)
	return name[:at], key, err == nil && key > 0 && FailureName(name[:at], key) == name
}
