package store

import (
	"cmp"
	"database/sql/driver"
	"encoding/hex"
	"fmt"

	"github.com/oklog/ulid/v2"

	"github.com/pawl-work/pawl/internal/idform"
)

// The prefixes of the ids of tasks and items. A ULID follows. A task of one item and its
// item have the same ULID.
const (
	taskPrefix = "tsk_"
	itemPrefix = "itm_"
)

// TaskID and ItemID are ids as arguments and targets of statements: TaskID(id) and
// (*TaskID)(&id). In Go an id is a text, a prefix and a ULID. The databases keep the 16
// bytes of the ULID, which are in the same order. "", and a text that is no id of the
// noun, are NULL, which equals no id of a row. NULL is read as "".
type (
	TaskID string
	ItemID string
)

// ID is a TaskID or an ItemID.
type ID interface {
	// Bytes returns what the database keeps. ok is false for NULL.
	Bytes() (b [16]byte, ok bool)
}

// IDTarget is what an id is scanned into, as a *TaskID or an *ItemID.
type IDTarget interface {
	// SetBytes sets the text of an id.
	SetBytes(b [16]byte)
	// SetNull sets "".
	SetNull()
}

// Bytes implements ID.
func (t TaskID) Bytes() ([16]byte, bool) { return parseID(taskPrefix, string(t)) }

// Bytes implements ID.
func (i ItemID) Bytes() ([16]byte, bool) { return parseID(itemPrefix, string(i)) }

// SetBytes implements IDTarget.
func (t *TaskID) SetBytes(b [16]byte) { *t = TaskID(formatID(taskPrefix, b)) }

// SetBytes implements IDTarget.
func (i *ItemID) SetBytes(b [16]byte) { *i = ItemID(formatID(itemPrefix, b)) }

// SetNull implements IDTarget.
func (t *TaskID) SetNull() { *t = "" }

// SetNull implements IDTarget.
func (i *ItemID) SetNull() { *i = "" }

// RawID is an id that is scanned without its text.
type RawID [16]byte

// SetBytes implements IDTarget.
func (r *RawID) SetBytes(b [16]byte) { *r = b }

// SetNull implements IDTarget.
func (r *RawID) SetNull() { *r = RawID{} }

// Scan implements sql.Scanner.
func (r *RawID) Scan(v any) error { return scanID(v, r) }

// ItemAndTask returns the ids of an item and its task. They share one allocation.
func ItemAndTask(item, task RawID) (itemID, taskID string) {
	const size = len(itemPrefix) + ulid.EncodedSize
	var text [2 * size]byte
	both := string(appendID(appendID(text[:0], itemPrefix, ulid.ULID(item)), taskPrefix, ulid.ULID(task)))
	return both[:size], both[size:]
}

// Value implements driver.Valuer.
func (t TaskID) Value() (driver.Value, error) { return valueOfID(t) }

// Value implements driver.Valuer.
func (i ItemID) Value() (driver.Value, error) { return valueOfID(i) }

// Scan implements sql.Scanner.
func (t *TaskID) Scan(v any) error { return scanID(v, t) }

// Scan implements sql.Scanner.
func (i *ItemID) Scan(v any) error { return scanID(v, i) }

// parseID reads the only spelling of an id: the prefix and 26 digits in upper case, of
// which the first is at most 7.
func parseID(prefix, id string) (b ulid.ULID, ok bool) {
	if len(id) != len(prefix)+ulid.EncodedSize || id[:len(prefix)] != prefix {
		return b, false
	}
	id = id[len(prefix):]
	for i := range len(id) {
		if id[i] >= 'a' {
			return b, false
		}
	}
	b, err := ulid.ParseStrict(id)
	return b, err == nil
}

// formatID returns the text of an id.
func formatID(prefix string, b ulid.ULID) string {
	var text [len(taskPrefix) + ulid.EncodedSize]byte
	return string(appendID(text[:0], prefix, b))
}

func appendID(to []byte, prefix string, b ulid.ULID) []byte {
	var digits [ulid.EncodedSize]byte
	_ = b.MarshalTextTo(digits[:]) // the size is right
	return append(append(to, prefix...), digits[:]...)
}

func valueOfID(id ID) (driver.Value, error) {
	if b, ok := id.Bytes(); ok {
		return b[:], nil
	}
	return nil, nil
}

// scanID reads what the drivers of database/sql return: 16 bytes, or the text of a UUID.
func scanID(v any, to IDTarget) error {
	switch x := v.(type) {
	case nil:
		to.SetNull()
		return nil
	case []byte:
		if len(x) == 16 {
			to.SetBytes([16]byte(x))
			return nil
		}
	case string:
		if b, ok := idform.ParseUUID(x); ok {
			to.SetBytes(b)
			return nil
		}
	}
	return fmt.Errorf("a %T does not go into an id", v)
}

// The ids before and behind those of all tasks and items.
const (
	FirstTask = taskPrefix + "00000000000000000000000000"
	// LastTask sorts after every id of a task.
	LastTask  = taskPrefix + "7ZZZZZZZZZZZZZZZZZZZZZZZZZ"
	firstItem = itemPrefix + "00000000000000000000000000"
	// LastItem sorts after every id of an item.
	LastItem = itemPrefix + "7ZZZZZZZZZZZZZZZZZZZZZZZZZ"
)

// FromTask returns the id from which a list begins: "" is the beginning.
func FromTask(id string) TaskID { return TaskID(cmp.Or(id, FirstTask)) }

// FromItem is FromTask for items.
func FromItem(id string) ItemID { return ItemID(cmp.Or(id, firstItem)) }

// TaskList returns the argument of @ids and @among_ids: a JSON list of the bytes of task
// ids in hexadecimal. Texts that are no id of a task are left out.
func TaskList(ids []string) string { return listOfIDs(taskPrefix, ids) }

// ItemList is TaskList for items.
func ItemList(ids []string) string { return listOfIDs(itemPrefix, ids) }

func listOfIDs(prefix string, ids []string) string {
	out := append(make([]byte, 0, 2+35*len(ids)), '[')
	for _, id := range ids {
		b, ok := parseID(prefix, id)
		if !ok {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(hex.AppendEncode(append(out, '"'), b[:]), '"')
	}
	return string(append(out, ']'))
}

// IDs converts ids. nil stays nil.
func IDs[T ~string](ids []string) []T {
	if ids == nil {
		return nil
	}
	out := make([]T, len(ids))
	for i, id := range ids {
		out[i] = T(id)
	}
	return out
}
