package store_test

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-work/pawl/store"
)

func randomTaskID(t *testing.T) (id store.TaskID, b [16]byte) {
	t.Helper()
	if _, err := rand.Read(b[:]); err != nil {
		t.Fatal(err)
	}
	id.SetBytes(b)
	return id, b
}

// An id and its bytes say the same, and are in the same order.
func TestIDsAreTheirBytes(t *testing.T) {
	type pair struct {
		text string
		b    [16]byte
	}
	pairs := []pair{{string(store.FromTask("")), [16]byte{}}, {store.LastTask, [16]byte(bytes.Repeat([]byte{0xff}, 16))}}
	for range 1000 {
		id, b := randomTaskID(t)
		pairs = append(pairs, pair{string(id), b})
	}
	for _, p := range pairs {
		got, ok := store.TaskID(p.text).Bytes()
		if !ok || got != p.b {
			t.Errorf("%s is %x, %v, want %x", p.text, got, ok, p.b)
		}
		u := hex.EncodeToString(p.b[:]) // what database/sql returns of a uuid
		var id store.TaskID
		if err := id.Scan(u[:8] + "-" + u[8:12] + "-" + u[12:16] + "-" + u[16:20] + "-" + u[20:]); err != nil || string(id) != p.text {
			t.Errorf("the UUID %s is read as %s, %v, want %s", u, id, err, p.text)
		}
	}
	slices.SortFunc(pairs, func(a, b pair) int { return bytes.Compare(a.b[:], b.b[:]) })
	if !slices.IsSortedFunc(pairs, func(a, b pair) int { return strings.Compare(a.text, b.text) }) {
		t.Error("ids and their bytes are in different orders")
	}
}

// There is one spelling of an id. Every other text is no id, and is NULL.
func TestOtherTextsAreNoIDs(t *testing.T) {
	const id = "tsk_01JD3QX2M8R5T7V9ABCDEFGHJK"
	if _, ok := store.TaskID(id).Bytes(); !ok {
		t.Fatalf("%s is no id", id)
	}
	for _, other := range []string{"", "tsk_", id + "0", id[:29], strings.ToLower(id), "TSK_" + id[4:], "itm_" + id[4:], id[4:],
		"tsk_8" + id[5:], id[:29] + "O", id[:29] + "I", id[:29] + "l", id[:29] + "U", id[:29] + "-", id[:29] + "\x00", " " + id[1:]} {
		if _, ok := store.TaskID(other).Bytes(); ok {
			t.Errorf("%q is an id", other)
		}
		if v, err := store.TaskID(other).Value(); v != nil || err != nil {
			t.Errorf("%q is written as %v, %v", other, v, err)
		}
	}
	if got := store.TaskList([]string{id, "tsk_none", id}); strings.Count(got, ",") != 1 {
		t.Errorf("the list is %s", got)
	}
	if _, ok := store.ItemID("itm_" + id[4:]).Bytes(); !ok {
		t.Error("the id of the item is no id")
	}
}
