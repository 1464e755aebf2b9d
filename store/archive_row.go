package store

import (
	"bytes"
	"crypto/sha256"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strconv"

	"golang.org/x/mod/sumdb/tlog"
)

// archiveRow is a line of an archive.
type archiveRow map[string]any

// readArchiveRow reads a line: one JSON object that has no member twice. Readers of JSON differ
// in which of two they take, and the proofs hold for one of them.
func readArchiveRow(line []byte) (archiveRow, error) {
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.UseNumber()
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.Join(errors.New("a line is not a JSON object"), err)
	}
	row := archiveRow{}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return nil, err
		}
		name, _ := t.(string) // the decoder takes no other
		if _, there := row[name]; there {
			return nil, fmt.Errorf("a line has the member %q twice", name)
		}
		var v any
		if err := dec.Decode(&v); err != nil {
			return nil, err
		}
		row[name] = v
	}
	if _, err := dec.Token(); err != nil { // the end of the object
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("a line has something behind its JSON object")
	}
	return row, nil
}

func (r archiveRow) text(name string) string {
	s, _ := r[name].(string)
	return s
}

func (r archiveRow) number(name string) int64 {
	n, _ := r[name].(json.Number)
	i, _ := n.Int64() // NULL is 0
	return i
}

func (r archiveRow) texts(names ...string) (out []leafText) {
	for _, name := range names {
		out = append(out, leafText(r.text(name)))
	}
	return out
}

// archiveKeys are the columns that name a row of each table; a table without any has one row.
var archiveKeys = map[string][]string{
	"tasks": nil, "task_counters": nil, "items": {"id"}, "item_deps": {"needs_id", "item_id"}, "parked_items": {"item_id"},
	"finished_items": {"item_id"}, "deadlines": {"item_id"}, "item_parts": {"id"}, "blobs": {"namespace", "address"}, "checkpoints": {"id"},
	"task_events": {"id"}, "task_results": nil, "provenances": {"id"}, "messages": {"id"}, "message_chunks": {"message_id", "seq"},
	"parents": nil, "child_links": {"child_id"}, "child_waits": {"item_id"}, "awaited_children": {"item_id", "child_id"}, "effects": {"id"},
}

// archiveColumns are the columns of each table.
var archiveColumns = func() map[string][]string {
	out := map[string][]string{}
	for _, table := range taskTables {
		out[table] = columns(table)
	}
	return out
}()

// hashedColumns says of the columns of a table that leaves are made of whether they are numbers.
// Of events and of provenance these are all columns.
func hashedColumns(table string) map[string]bool {
	switch table {
	case "tasks":
		return map[string]bool{"id": false, "namespace": false, "payload": false, "input": false, "solo": true}
	case "items":
		return map[string]bool{"id": false, "input": false}
	case "finished_items":
		return map[string]bool{"item_id": false, "state": false, "result": false}
	case "task_results":
		return map[string]bool{"payload": false}
	case "task_events", "provenances":
		out := map[string]bool{}
		for _, name := range archiveColumns[table] {
			out[name] = slices.Contains([]string{"attempt", "created_at", "event_id"}, name) || name == "id" && table == "task_events"
		}
		return out
	}
	return nil
}

// unfit says why an archive cannot have a row; "" = it can.
func (a *ArchiveReader) unfit(table string, row archiveRow) string {
	keys, known := archiveKeys[table]
	switch {
	case !known:
		return fmt.Sprintf("there is a row of table %q, which this program does not know", table)
	case a.TaskID == "" && (table != "tasks" || row.text("id") == ""):
		return fmt.Sprintf("there is a row of table %s before that of the task", table)
	}
	for name, want := range map[string]string{"task_id": a.TaskID, "namespace": a.Namespace} {
		if table != "tasks" && slices.Contains(archiveColumns[table], name) && row[name] != want {
			return fmt.Sprintf("a row of table %s is of another task or namespace", table)
		}
	}
	hashed := hashedColumns(table)
	for name, number := range hashed {
		if !isValue(row[name], number) {
			return fmt.Sprintf("a row of table %s has in column %s what is no value of it", table, name)
		}
	}
	if table == "task_events" || table == "provenances" {
		for name := range row {
			if _, known := hashed[name]; !known && name != "table" {
				return fmt.Sprintf("a row of table %s has a column %q, which this program does not know", table, name)
			}
		}
	}
	key := sha256.New()
	fmt.Fprintf(key, "%q", table)
	for _, name := range keys {
		fmt.Fprintf(key, " %q", fmt.Sprint(row[name]))
	}
	sum := [sha256.Size]byte(key.Sum(nil))
	if a.keys[sum] {
		return fmt.Sprintf("there is a second row of table %s%s", table, row.keyed(keys))
	}
	if a.keys == nil {
		a.keys = map[[sha256.Size]byte]bool{}
	}
	a.keys[sum] = true
	return ""
}

// keyed names a row by its key.
func (r archiveRow) keyed(keys []string) (out string) {
	for i, name := range keys {
		sep := ", "
		if i == 0 {
			sep = " with "
		}
		out += fmt.Sprintf("%s%s %v", sep, name, r[name])
	}
	return out
}

// isValue says whether a leaf can have been made of a value: NULL, a text, or an integer.
func isValue(v any, number bool) bool {
	switch v := v.(type) {
	case nil:
		return true
	case string:
		return !number
	case json.Number:
		n, err := v.Int64()
		return number && err == nil && strconv.FormatInt(n, 10) == v.String()
	}
	return false
}

// leafState is what SHA-256 has hashed so far. It is small, however much that was.
type leafState []byte

// then returns the state after more bytes.
func (s leafState) then(b []byte) leafState {
	h := s.hash()
	h.Write(b)
	out, err := h.(encoding.BinaryMarshaler).MarshalBinary()
	if err != nil {
		panic(err) // it is of this program's own making
	}
	return out
}

func (s leafState) hash() hash.Hash {
	h := sha256.New()
	if s == nil {
		return h
	}
	if err := h.(encoding.BinaryUnmarshaler).UnmarshalBinary(s); err != nil {
		panic(err)
	}
	return h
}

func (s leafState) sum() tlog.Hash { return tlog.Hash(s.hash().Sum(nil)) }
