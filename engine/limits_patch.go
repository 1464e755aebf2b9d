package engine

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/internal/nearest"
)

// patchLimits applies a JSON Merge Patch (RFC 7396) to the stored limits of a queue and checks
// what comes of it.
func patchLimits(stored string, patch pawl.QueuePatch) (string, pawl.QueueLimits, error) {
	var limits pawl.QueueLimits
	var was, change map[string]any
	_ = json.Unmarshal([]byte(stored), &was) // written by us
	if err := decodeNumbers(patch, &change); err != nil || change == nil {
		return "", limits, pawl.Invalid("", "is not a JSON object")
	}
	all := merged(was, change)
	if at, meant := unknownLimit(all, "", knownLimits); at != "" {
		return "", limits, pawl.Invalid(at, "is not known here%s", meant)
	}
	text, err := json.Marshal(all)
	if err != nil {
		return "", limits, pawl.Invalid("", "is not a JSON object")
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&limits); err != nil {
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) {
			at := "/" + strings.ReplaceAll(wrong.Field, ".", "/")
			return "", limits, pawl.Invalid(at, "is a %s, which is of another type or out of range", wrong.Value)
		}
		return "", limits, pawl.Invalid("", "is not an object of limits")
	}
	keyed, _ := all["per_key"].(map[string]any)
	for at, rate := range map[string]any{"/rate": all["rate"], "/per_key/rate": keyed["rate"]} {
		if r, _ := rate.(map[string]any); r["burst"] == json.Number("0") { // the zero value means that it is not set
			return "", limits, pawl.Invalid(at+"/burst", "is 0; without a burst, as many start at once as limit says")
		}
	}
	return string(text), limits, checkLimits(&limits)
}

// knownLimits are the members of limits. Go's decoder would take other spellings too.
var (
	knownRate   = map[string]any{"limit": nil, "seconds": nil, "burst": nil}
	knownLimits = map[string]any{"concurrency": nil, "per_worker": nil, "rate": knownRate,
		"per_key": map[string]any{"pointer": nil, "concurrency": nil, "rate": knownRate, "weights": nil, "order": nil, "fair": nil}}
)

// unknownLimit returns a JSON Pointer to a member that is not known, and the question which may be meant; "" = all
// are known.
func unknownLimit(in map[string]any, at string, known map[string]any) (pointer, meant string) {
	for _, name := range slices.Sorted(maps.Keys(in)) {
		inner, is := known[name]
		if !is {
			return at + "/" + escaped.Replace(name), nearest.Question(name, slices.Sorted(maps.Keys(known)))
		}
		if deep, ok := in[name].(map[string]any); ok && inner != nil {
			if found, meant := unknownLimit(deep, at+"/"+name, inner.(map[string]any)); found != "" {
				return found, meant
			}
		}
	}
	return "", ""
}

// escaped writes a name into a JSON Pointer.
var escaped = strings.NewReplacer("~", "~0", "/", "~1")

// decodeNumbers decodes JSON and keeps the texts of numbers.
func decodeNumbers(text []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	err := d.Decode(v)
	if err == nil && d.More() {
		err = errors.New("there is more than one value")
	}
	return err
}

// merged returns a with the changes of a merge patch.
func merged(a, change map[string]any) map[string]any {
	out := maps.Clone(a)
	if out == nil {
		out = map[string]any{}
	}
	for name, v := range change {
		inner, isObject := v.(map[string]any)
		switch {
		case v == nil:
			delete(out, name)
		case isObject:
			before, _ := out[name].(map[string]any)
			out[name] = merged(before, inner)
		default:
			out[name] = v
		}
	}
	return out
}

func checkLimits(l *pawl.QueueLimits) error {
	var f rules.Fields
	f.Limit("/concurrency", l.Concurrency)
	f.Limit("/per_worker", l.PerWorker)
	f.Rate("/rate", l.Rate)
	if k := l.PerKey; k != nil {
		if k.Pointer == "" {
			f.Add("/per_key/pointer", "is required: a JSON Pointer, for example /tenant")
		} else if !validPointer(k.Pointer) {
			f.Add("/per_key/pointer", "is not a JSON Pointer (RFC 6901): it begins with /, and ~ is written ~0 and / is written ~1")
		}
		f.Text("/per_key/pointer", k.Pointer, 0, pawl.MaxKeyLen)
		f.Limit("/per_key/concurrency", k.Concurrency)
		f.Rate("/per_key/rate", k.Rate)
		if len(k.Weights) > pawl.MaxWeights {
			f.Add("/per_key/weights", "has %d keys; at most %d are allowed", len(k.Weights), pawl.MaxWeights)
		}
		for _, key := range slices.Sorted(maps.Keys(k.Weights)) {
			f.Number("/per_key/weights/"+escaped.Replace(key), k.Weights[key], 1, pawl.MaxWeight)
		}
		if k.Order != "" && k.Order != pawl.OrderCreated {
			f.Add("/per_key/order", "is %q; it may be %q", k.Order, pawl.OrderCreated)
		}
		if k.Order != "" && k.Concurrency != nil && *k.Concurrency > 1 {
			f.Add("/per_key/concurrency", "must be 1 with an order: the items of a key are taken one at a time")
		}
	}
	return f.Err("set_queue")
}

func validPointer(p string) bool {
	for i, part := range strings.Split(p, "~") {
		if i > 0 && !strings.HasPrefix(part, "0") && !strings.HasPrefix(part, "1") {
			return false
		}
	}
	return strings.HasPrefix(p, "/")
}
