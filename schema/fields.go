package schema

import (
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/pawl-work/pawl"
)

// MaxErrors bounds the fields that are reported for one value: a model acts better on a
// few reasons than on many.
const MaxErrors = 10

const (
	maxMessage = 200 // characters of a message
	maxPointer = 250 // characters of a pointer
	maxQuote   = 40  // characters of a value that a message quotes
)

func oneField(pointer, format string, args ...any) []pawl.Field {
	return []pawl.Field{field(pointer, fmt.Sprintf(format, args...))}
}

func field(pointer, text string) pawl.Field {
	return pawl.Field{Pointer: cut(pointer, maxPointer), Message: cut(text, maxMessage)}
}

// cut shortens a text to n characters.
func cut(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	r := []rune(s)
	return string(r[:n-1]) + "…"
}

// fieldsOf converts the validator's tree of errors into fields, ordered by pointer.
func fieldsOf(e *jsonschema.ValidationError) []pawl.Field {
	all := leaves(e)
	slices.SortStableFunc(all, func(a, b pawl.Field) int { return strings.Compare(a.Pointer, b.Pointer) })
	all = slices.Compact(all)
	if len(all) > MaxErrors {
		more := len(all) - MaxErrors + 1
		all = append(all[:MaxErrors-1:MaxErrors-1], pawl.Field{Message: fmt.Sprintf("does not fit in %d more places", more)})
	}
	return all
}

// leaves returns the errors without those that only follow from others. Of alternatives,
// it returns the errors of the nearest.
func leaves(e *jsonschema.ValidationError) []pawl.Field {
	at := pointer(e.InstanceLocation)
	switch k := e.ErrorKind.(type) {
	case *kind.AnyOf:
		return alternatives(at, e.Causes)
	case *kind.OneOf:
		if len(k.Subschemas) > 0 {
			return oneField(at, "fits more than one of the alternatives, numbers %d and %d; only one is allowed", k.Subschemas[0], k.Subschemas[1])
		}
		return alternatives(at, e.Causes)
	case *kind.Contains, *kind.MinContains:
		return oneField(at, "%s", describe(e.ErrorKind))
	case *kind.Required:
		return perName(at, k.Missing, "is required")
	case *kind.DependentRequired:
		return perName(at, k.Missing, "is required where "+quote(k.Prop)+" is given")
	case *kind.Dependency: // of draft-07
		return perName(at, k.Missing, "is required where "+quote(k.Prop)+" is given")
	case *kind.AdditionalProperties:
		slices.Sort(k.Properties)
		return perName(at, k.Properties, "is not allowed here")
	case *kind.PropertyNames:
		for _, c := range e.Causes {
			if f, ok := c.ErrorKind.(*kind.Format); ok && f.Want == "regex" {
				return oneField(at+"/"+escape(k.Property), "%s", describe(f))
			}
		}
		return oneField(at+"/"+escape(k.Property), "has a name that is not allowed here")
	}
	if len(e.Causes) == 0 {
		return oneField(at, "%s", describe(e.ErrorKind))
	}
	var out []pawl.Field
	for _, c := range e.Causes {
		out = append(out, leaves(c)...)
	}
	return out
}

func perName(at string, names []string, text string) []pawl.Field {
	out := make([]pawl.Field, len(names))
	for i, n := range names {
		out[i] = field(at+"/"+escape(n), text)
	}
	return out
}

// alternatives reports the branch that comes nearest: the one whose errors are deepest,
// and of those the one with the fewest.
func alternatives(at string, causes []*jsonschema.ValidationError) []pawl.Field {
	var best []pawl.Field
	deepest := -1
	for _, c := range causes {
		l, depth := leaves(c), shallowestError(c)
		if depth > deepest || depth == deepest && len(l) < len(best) {
			best, deepest = l, depth
		}
	}
	if len(best) == 0 {
		return oneField(at, "fits none of the alternatives")
	}
	if len(causes) > 1 {
		return append(oneField(at, "fits none of %d alternatives; the errors of the closest one follow", len(causes)), best...)
	}
	return best
}

// shallowestError is the least depth below the value at which a branch has an error.
func shallowestError(e *jsonschema.ValidationError) int {
	if len(e.Causes) == 0 {
		return len(e.InstanceLocation)
	}
	least := -1
	for _, c := range e.Causes {
		if d := shallowestError(c); least < 0 || d < least {
			least = d
		}
	}
	return least
}

func pointer(tokens []string) string {
	var b strings.Builder
	for _, t := range tokens {
		b.WriteString("/" + escape(t))
	}
	return b.String()
}

// describe describes an error.
func describe(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.FalseSchema:
		return "is not allowed here"
	case *kind.Type:
		return "is " + article(k.Got) + "; it must be " + list(k.Want)
	case *kind.Enum:
		return "is " + quote(k.Got) + "; it must be " + list(quotes(k.Want))
	case *kind.Const:
		return "is " + quote(k.Got) + "; it must be " + quote(k.Want)
	case *kind.Format:
		if m, ok := k.Err.(*mismatch); ok {
			return describe(m.kind)
		}
		if text, ok := k.Got.(string); ok && k.Want == "regex" && k.Err != nil {
			return "is " + quote(k.Got) + ", " + whyNoPattern(text, k.Err)
		}
		return "is " + quote(k.Got) + ", which is not a valid " + k.Want
	case *kind.Pattern:
		return "is " + quote(k.Got) + ", which does not match " + cut(k.Want, 2*maxQuote)
	case *kind.Minimum:
		return "is " + decimal(k.Got) + "; it must be at least " + decimal(k.Want)
	case *kind.Maximum:
		return "is " + decimal(k.Got) + "; it must be at most " + decimal(k.Want)
	case *kind.ExclusiveMinimum:
		return "is " + decimal(k.Got) + "; it must be more than " + decimal(k.Want)
	case *kind.ExclusiveMaximum:
		return "is " + decimal(k.Got) + "; it must be less than " + decimal(k.Want)
	case *kind.MultipleOf:
		return "is " + decimal(k.Got) + "; it must be a multiple of " + decimal(k.Want)
	case *kind.MinLength:
		return fmt.Sprintf("has %d characters; it must have at least %d", k.Got, k.Want)
	case *kind.MaxLength:
		return fmt.Sprintf("has %d characters; it must have at most %d", k.Got, k.Want)
	case *kind.AdditionalItems: // of draft-07
		return "has more elements than the schema lists"
	case *kind.MinItems:
		return fmt.Sprintf("has %d elements; it must have at least %d", k.Got, k.Want)
	case *kind.MaxItems:
		return fmt.Sprintf("has %d elements; it must have at most %d", k.Got, k.Want)
	case *kind.MinProperties:
		return fmt.Sprintf("has %d members; it must have at least %d", k.Got, k.Want)
	case *kind.MaxProperties:
		return fmt.Sprintf("has %d members; it must have at most %d", k.Got, k.Want)
	case *kind.UniqueItems:
		return fmt.Sprintf("has the same element twice, at %d and %d", k.Duplicates[0], k.Duplicates[1])
	case *kind.Contains:
		return "has no element of the kind that it must contain"
	case *kind.MinContains:
		return fmt.Sprintf("has %d elements of the kind that it must contain %d of", len(k.Got), k.Want)
	case *kind.MaxContains:
		return fmt.Sprintf("has %d elements of the kind that it may contain %d of", len(k.Got), k.Want)
	case *kind.Not:
		return "fits a schema that it must not fit"
	case *kind.RefCycle:
		return "cannot be checked: the schema refers to itself without end"
	}
	return "does not fit " + strings.Join(k.KeywordPath(), "/")
}

func article(kind string) string {
	switch kind {
	case "null":
		return kind
	case "object", "array", "integer":
		return "an " + kind
	}
	return "a " + kind
}

func list(words []string) string {
	for i, w := range words {
		if !strings.HasPrefix(w, `"`) && slices.Contains([]string{"object", "array", "integer", "number", "string", "boolean"}, w) {
			words[i] = article(w)
		}
	}
	if len(words) == 1 {
		return words[0]
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

func quotes(values []any) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = quote(v)
	}
	return out
}

// quote returns a value as JSON, shortened.
func quote(v any) string {
	switch v.(type) {
	case map[string]any:
		return "an object"
	case []any:
		return "an array"
	}
	if s, ok := v.(string); ok && utf8.RuneCountInString(s) > maxQuote {
		v = cut(s, maxQuote)
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return "a value"
	}
	return cut(strings.TrimSuffix(b.String(), "\n"), maxQuote+2)
}

// decimal returns a number in decimal, shortened.
func decimal(r *big.Rat) string {
	if r.IsInt() {
		return cut(r.Num().String(), maxQuote)
	}
	n, _ := r.FloatPrec()
	return cut(r.FloatString(min(n, maxQuote)), maxQuote)
}
