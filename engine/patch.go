package engine

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-work/pawl"
)

// operation is an operation of RFC 6902. Value is nil of a removal alone.
type operation struct {
	Value *any   `json:"value,omitempty"`
	Op    string `json:"op"`
	Path  string `json:"path"`
}

// operations returns what makes after of before, two decoded JSON values whose numbers are json.Number. Members are in order
// of their names. Elements of arrays are compared by their place. Where the operations would be larger than a payload may be,
// one replaces the whole.
func operations(before, after any) []operation {
	d := comparison{left: pawl.MaxPayloadBytes}
	if d.compare(before, after); d.left < 0 {
		return []operation{{&after, "replace", ""}}
	}
	return d.found
}

// comparison collects operations.
type comparison struct {
	at    []string // the names on the way to the values that are compared
	found []operation
	left  int // bytes of paths that further operations may have
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

func (d *comparison) compare(before, after any) {
	switch was := before.(type) {
	case map[string]any:
		if is, same := after.(map[string]any); same {
			d.members(was, is)
			return
		}
	case []any:
		if is, same := after.([]any); same {
			d.elements(was, is)
			return
		}
	}
	if before != after { // of two maps or two arrays it is not asked
		d.add("replace", &after)
	}
}

func (d *comparison) members(was, is map[string]any) {
	all := maps.Clone(was)
	maps.Copy(all, is)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		old, had := was[name]
		next, has := is[name]
		d.under(name, func() {
			switch {
			case !has:
				d.add("remove", nil)
			case !had:
				d.add("add", &next)
			default:
				d.compare(old, next)
			}
		})
	}
}

func (d *comparison) elements(was, is []any) {
	n := min(len(was), len(is))
	for range was[n:] {
		d.under(strconv.Itoa(n), func() { d.add("remove", nil) })
	}
	for i := range n {
		d.under(strconv.Itoa(i), func() { d.compare(was[i], is[i]) })
	}
	for i := range is[n:] {
		d.under("-", func() { d.add("add", &is[n+i]) })
	}
}

// under runs fn one level deeper.
func (d *comparison) under(name string, fn func()) {
	d.at = append(d.at, name)
	fn()
	d.at = d.at[:len(d.at)-1]
}

// add adds an operation at the place that is compared.
func (d *comparison) add(op string, value *any) {
	for _, name := range d.at {
		d.left -= len(name) + 1
	}
	if d.left < 0 {
		return
	}
	var path strings.Builder
	for _, name := range d.at {
		path.WriteString("/" + pointerEscapes.Replace(name))
	}
	d.found = append(d.found, operation{value, op, path.String()})
}
