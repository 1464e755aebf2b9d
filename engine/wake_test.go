package engine

import (
	"slices"
	"testing"
)

// A claim that got less than it asked for has seen all there is, until the next
// word; of another process, all there is after the heads.
func TestLull(t *testing.T) {
	var w waker
	types := []string{"a", "b"}
	is := func(what, namespace string, types []string, lull, look bool) {
		t.Helper()
		if l, k := w.lull(namespace, types, w.on(namespace)); l != lull || k != look {
			t.Errorf("%s: lull %v, look %v; want %v, %v", what, l, k, lull, look)
		}
	}
	is("at first", "n", types, false, false)
	w.short("n", types, w.on("n"))
	is("after a short claim", "n", slices.Clone(types), true, false)
	is("for other types", "n", types[:1], false, false)
	is("in another namespace", "m", types, false, false)
	w.all("n")
	is("after a word", "n", types, false, false)

	began := w.on("n")
	w.all("n")
	w.short("n", types, began)
	is("after a word during the claim", "n", types, false, false)

	w.told("n")
	w.short("n", types, w.on("n"))
	is("after another process's word", "n", types, true, true)
	w.looked("n")
	is("after a look from the start", "n", types, true, false)
}
