package engine

import (
	"slices"
	"testing"
)

// A claim that got less than it asked for has seen all there is, until the next
// word; of another process, all there is after the heads.
func TestLull(t *testing.T) {
	var w workNotifier
	types := []string{"a", "b"}
	is := func(what, namespace string, types []string, lull, look bool) {
		t.Helper()
		if l, k := w.isEmpty(namespace, types, w.changed(namespace)); l != lull || k != look {
			t.Errorf("%s: lull %v, look %v; want %v, %v", what, l, k, lull, look)
		}
	}
	is("at first", "n", types, false, false)
	w.setEmpty("n", types, w.changed("n"))
	is("after a short claim", "n", slices.Clone(types), true, false)
	is("for other types", "n", types[:1], false, false)
	is("in another namespace", "m", types, false, false)
	w.wakeAll("n")
	is("after a word", "n", types, false, false)

	began := w.changed("n")
	w.wakeAll("n")
	w.setEmpty("n", types, began)
	is("after a word during the claim", "n", types, false, false)

	w.wakeRemote("n")
	w.setEmpty("n", types, w.changed("n"))
	is("after another process's word", "n", types, true, true)
	w.clearRemote("n")
	is("after a look from the start", "n", types, true, false)
}

// Of those who wait for the same one looks, and the next when it leaves.
func TestTurns(t *testing.T) {
	var w workNotifier
	takes := func(turn *sharedPoll) bool {
		select {
		case <-turn.free:
			return true
		default:
			return false
		}
	}
	a, b, other := w.join("same"), w.join("same"), w.join("other")
	if !takes(a) || takes(b) || !takes(other) {
		t.Fatal("not one of each looks")
	}
	w.leave("same", a, true)
	c := w.join("same")
	if !takes(c) || takes(b) {
		t.Fatal("the turn was not passed on")
	}
	w.leave("same", b, false)
	if w.leave("same", c, true); w.polls["same"] != nil || w.polls["other"] == nil {
		t.Errorf("left behind: %v", w.polls)
	}
	if d := w.join("same"); !takes(d) {
		t.Error("nobody looks after all have left")
	}
}
