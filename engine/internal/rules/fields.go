package rules

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
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

// MaxDelaySeconds is pawl.MaxDelay in seconds.
const MaxDelaySeconds = int(pawl.MaxDelay / time.Second)

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

// OneOf lists the possible names, for the end of a message.
func OneOf(names []string) string {
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

// operations lists the operations of RFC 6902, with the member that each needs.
var operations = map[string]string{"add": "value", "replace": "value", "test": "value", "remove": "", "move": "from", "copy": "from"}

// Patch checks that raw is a list of RFC 6902 operations.
func (f *Fields) Patch(at string, raw json.RawMessage) {
	var ops []map[string]json.RawMessage
	if json.Unmarshal(raw, &ops) != nil {
		f.Add(at, "must be a list of RFC 6902 operations")
		return
	}
	for i, op := range ops {
		var verb, path string
		_, _ = json.Unmarshal(op["op"], &verb), json.Unmarshal(op["path"], &path) // anything but a string counts as absent
		needs, known := operations[verb]
		if !known || op["path"] == nil || path != "" && path[0] != '/' || needs != "" && op[needs] == nil {
			f.Add(fmt.Sprintf("%s/%d", at, i), "is no RFC 6902 operation")
			return
		}
	}
}

// Reserved refuses a type that Pawl itself makes tasks of.
func (f *Fields) Reserved(pointer, typ string) {
	if strings.HasPrefix(typ, pawl.ReservedPrefix) {
		f.Add(pointer, "begins with %s, which is reserved for types of Pawl's own", pawl.ReservedPrefix)
	}
}

// Rules checks the rules of a prune, of which there are at least least.
func (f *Fields) Rules(at string, rules []pawl.PruneRule, least int) {
	if n := len(rules); n < least || n > pawl.MaxPruneRules {
		f.Add(at, "has %d rules; %d to %d are allowed", n, least, pawl.MaxPruneRules)
		return
	}
	for i, r := range rules {
		f.Name(fmt.Sprintf("%s/%d/prefix", at, i), r.Prefix)
		f.Number(fmt.Sprintf("%s/%d/keep", at, i), r.Keep, 0, pawl.MaxKeptCheckpoints)
	}
}

// KeyHash returns what is stored of an idempotency key. The key itself may hold a secret or be long.
func KeyHash(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

// KeyName checks the name of an idempotency key.
func (f *Fields) KeyName(scope, key string) {
	f.Text("/scope", scope, 0, pawl.MaxScopeLen)
	f.Text("/key", key, 1, pawl.MaxKeyLen)
}

// CheckProvenance checks what a call states about its caller; nil is valid.
func CheckProvenance(verb string, p *pawl.Provenance) error {
	if p == nil {
		return nil
	}
	var f Fields
	f.Text("/provenance/agent_id", p.AgentID, 0, pawl.MaxIDLen)
	f.Text("/provenance/agent_name", p.AgentName, 0, pawl.MaxIDLen)
	f.Text("/provenance/agent_version", p.AgentVersion, 0, pawl.MaxIDLen)
	f.Text("/provenance/model", p.Model, 0, pawl.MaxIDLen)
	f.Text("/provenance/request_fingerprint", p.RequestFingerprint, 0, pawl.MaxFingerprintLen)
	f.Text("/provenance/idempotency_key", p.IdempotencyKey, 0, pawl.MaxKeyLen)
	f.Object("/provenance/extra", &p.Extra, pawl.MaxMetadataBytes)
	return f.Err(verb)
}

// Limit checks a limit; nil = none.
func (f *Fields) Limit(pointer string, n *int) {
	if n != nil && *n == 0 {
		f.Add(pointer, "is 0; to claim nothing, pause the queue; to remove the limit, set it to null")
	} else if n != nil {
		f.Number(pointer, *n, 1, pawl.MaxConcurrency)
	}
}

// Rate checks a rate; nil = none.
func (f *Fields) Rate(pointer string, r *pawl.Rate) {
	if r == nil {
		return
	}
	f.Number(pointer+"/limit", r.Limit, 1, pawl.MaxRate)
	f.Number(pointer+"/seconds", r.Seconds, 1, pawl.MaxRateSeconds)
	f.Number(pointer+"/burst", r.Burst, 0, pawl.MaxRate)
}

// UnlessValidated names a part that is a draft or was rejected.
func (f *Fields) UnlessValidated(p *pawl.ItemPart) {
	switch {
	case p.Status == pawl.PartValidated:
	case p.Seq != nil:
		f.Add("/parts/"+p.Key, "is %s, number %d", p.Status, *p.Seq)
	default:
		f.Add("/parts/"+p.Key, "is %s", p.Status)
	}
}

// Extras checks the form of evidence and notes.
func (f *Fields) Extras(evidence json.RawMessage, notes string) {
	f.JSON("/evidence", evidence, pawl.MaxErrorBytes)
	f.Text("/notes", notes, 0, pawl.MaxReasonLen)
}

// Types checks names of types.
func (f *Fields) Types(types []string) {
	if len(types) > pawl.MaxSeriesTypes {
		f.Add("/type", "has %d types; at most %d are allowed", len(types), pawl.MaxSeriesTypes)
	}
}

// TypeName refuses the names of plan and apply items, and names with a comma:
// filters take lists of types that are separated by commas.
func (f *Fields) TypeName(pointer, name string) {
	for _, end := range []string{pawl.PlanSuffix, pawl.ApplySuffix} {
		if strings.HasSuffix(name, end) {
			f.Add(pointer, "ends in %s, which is kept for items that Pawl makes", end)
		}
	}
	if strings.Contains(name, ",") {
		f.Add(pointer, "contains a comma, which separates the types in a list")
	}
}
