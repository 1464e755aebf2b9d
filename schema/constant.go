package schema

import (
	"encoding/json"
	"errors"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// constant is the const or the enum of a subschema. The validator would compare it before the
// format check, which charges the work; so the format check compares it.
type constant struct {
	sch     *jsonschema.Schema // has the const or the enum and nothing else
	known   map[any]bool       // what of it is neither an object nor an array
	scalars int                // as many
	size    int                // values in its objects and arrays
}

// mismatch is the error of a constant, as the validator describes it.
type mismatch struct{ kind jsonschema.ErrorKind }

func (m *mismatch) Error() string { return describe(m.kind) }

// constantsOf takes the const and the enum out of a subschema.
func constantsOf(s *jsonschema.Schema) (out []*constant) {
	if s.Const != nil {
		out = append(out, newConstant(&jsonschema.Schema{Const: s.Const}, *s.Const))
	}
	if s.Enum != nil {
		out = append(out, newConstant(&jsonschema.Schema{Enum: s.Enum}, s.Enum.Values...))
	}
	s.Const, s.Enum = nil, nil
	return out
}

func newConstant(s *jsonschema.Schema, values ...any) *constant {
	k := &constant{sch: s, known: map[any]bool{}}
	for _, v := range values {
		switch v.(type) {
		case map[string]any, []any:
			k.size += sizeOfValue(v)
		default:
			k.known[v] = true
			k.scalars++
		}
	}
	return k
}

// check compares a value with the constant. Numbers are parsed to be compared; those that are
// written as in the schema are not.
func (k *constant) check(c *instance, v any) error {
	cost := k.scalars / 50
	switch v.(type) {
	case map[string]any, []any:
		cost += k.size
	case json.Number:
		if k.known[v] {
			return nil
		}
		cost = k.scalars
	default:
		if k.known[v] {
			return nil
		}
	}
	if !c.spend(cost) {
		return errBudget
	}
	err := k.sch.Validate(v)
	var bad *jsonschema.ValidationError
	if errors.As(err, &bad) && len(bad.Causes) > 0 {
		return &mismatch{bad.Causes[0].ErrorKind}
	}
	return err
}

// sizeOfValue is the number of values in a value, with itself.
func sizeOfValue(v any) int {
	n := 1
	switch v := v.(type) {
	case map[string]any:
		for _, e := range v {
			n += sizeOfValue(e)
		}
	case []any:
		for _, e := range v {
			n += sizeOfValue(e)
		}
	}
	return n
}

// comparisons bounds what uniqueItems compares: each pair of a short list, hashes of a longer one.
func comparisons(list []any) int {
	if len(list) > 20 {
		return 2 * sizeOfValue(list)
	}
	return sizeOfValue(list) * len(list) / 2
}

// names is the number of names that a subschema looks for in an object.
func names(s *jsonschema.Schema) int {
	n := len(s.Required)
	for _, list := range s.DependentRequired {
		n += 1 + len(list)
	}
	for _, d := range s.Dependencies { // of draft-07
		if list, ok := d.([]string); ok {
			n += 1 + len(list)
		}
	}
	return n
}
