package engine

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// operation is an operation of RFC 6902. Value is nil of a removal alone.
type operation struct {
	Value *any   `json:"value,omitempty"`
	Op    string `json:"op"`
	Path  string `json:"path"`
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

// operations returns what makes after of before, two decoded JSON values whose numbers are json.Number. Members are in order
// of their names. Elements of arrays are compared by their place.
func operations(path string, before, after any) (out []operation) {
	switch was := before.(type) {
	case map[string]any:
		if is, same := after.(map[string]any); same {
			all := maps.Clone(was)
			maps.Copy(all, is)
			for _, name := range slices.Sorted(maps.Keys(all)) {
				at := path + "/" + pointerEscapes.Replace(name)
				old, had := was[name]
				next, has := is[name]
				switch {
				case !has:
					out = append(out, operation{nil, "remove", at})
				case !had:
					out = append(out, operation{&next, "add", at})
				default:
					out = append(out, operations(at, old, next)...)
				}
			}
			return out
		}
	case []any:
		if is, same := after.([]any); same {
			n := min(len(was), len(is))
			for range was[n:] {
				out = append(out, operation{nil, "remove", path + "/" + strconv.Itoa(n)})
			}
			for i := range n {
				out = append(out, operations(path+"/"+strconv.Itoa(i), was[i], is[i])...)
			}
			for i := range is[n:] {
				out = append(out, operation{&is[n+i], "add", path + "/-"})
			}
			return out
		}
	}
	if before != after { // of two maps or two arrays it is not asked
		out = []operation{{&after, "replace", path}}
	}
	return out
}
