package store

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/pawl-work/pawl"
)

// ArchiveReader reads the events of an archive, without a database, and compares them with the
// proofs that the archive has.
type ArchiveReader struct {
	TaskID, Namespace string
	Log               *ArchiveLog // nil = the archive has none

	events map[int64]*archivedEvent
	order  []int64
	values map[string][sha256.Size]byte // of inputs and results: see valueName
}

// archivedEvent is an event as its leaf has it.
type archivedEvent struct {
	move      pawl.MoveCode
	canonical []byte // without the digests and the provenance
	owner     string // the task or item whose input or result the event stands for
	sources   []archivedSource
}

// archivedSource is a row of provenance in canonical form.
type archivedSource struct {
	id        string
	canonical []byte
}

// archiveRow is a line of an archive.
type archiveRow map[string]any

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

// Line reads the next line.
func (a *ArchiveReader) Line(line []byte) error {
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.UseNumber()
	var row archiveRow
	if err := dec.Decode(&row); err != nil {
		return err
	}
	switch row.text("table") {
	case "tasks":
		a.TaskID, a.Namespace = row.text("id"), row.text("namespace")
		a.keep("input", row.text("id"), row["payload"])
		a.keep("input", itemPrefix+strings.TrimPrefix(row.text("id"), taskPrefix), row["input"]) // of a task of one
	case "items":
		a.keep("input", row.text("id"), row["input"])
	case "finished_items":
		if row.text("state") == string(pawl.ItemCompleted) {
			a.keep("result", row.text("item_id"), row["result"])
		}
	case "task_results":
		a.keep("result", row.text("task_id"), row["payload"])
	case "task_events":
		a.event(row)
	case "provenances":
		a.provenance(row)
	case logLine:
		a.Log = &ArchiveLog{}
		err := json.Unmarshal(line, a.Log)
		if err == nil && len(a.Log.Events) != len(a.Log.Leaves) {
			err = errors.New("the lists of its last line differ in length")
		}
		return err
	}
	return nil
}

// keep hashes the input or result of a task or item.
func (a *ArchiveReader) keep(kind, owner string, value any) {
	text, given := value.(string)
	if !given {
		return
	}
	if a.values == nil {
		a.values = map[string][sha256.Size]byte{}
	}
	a.values[kind+" "+owner] = sha256.Sum256([]byte(text))
}

func (a *ArchiveReader) event(row archiveRow) {
	r := leafRow{id: row.number("id"), attempt: row.number("attempt"), created: row.number("created_at")}
	copy(r.texts[:], row.texts("namespace", "task_id", "item_id", "actor_type", "actor_id", "key_id", "message", "data",
		"diff", "trace_parent"))
	e := &archivedEvent{owner: cmp.Or(row.text("item_id"), row.text("task_id")), move: pawl.MoveCode{Event: row.text("event"),
		From: row.text("from_state"), To: row.text("to_state"), TaskFrom: row.text("task_from"), TaskTo: row.text("task_to")}}
	e.canonical = r.canonical([]byte{leafPrefix}, e.move)
	if a.events == nil {
		a.events = map[int64]*archivedEvent{}
	}
	a.events[r.id], a.order = e, append(a.order, r.id)
}

func (a *ArchiveReader) provenance(row archiveRow) {
	e := a.events[row.number("event_id")]
	if e == nil { // Check names the event, if it was logged
		return
	}
	var b []byte
	for _, t := range row.texts("id", "item_id") {
		b = leafField(b, t)
	}
	b = leafNumber(b, row.number("attempt"))
	for _, t := range row.texts("verb", "scope", "idempotency_key", "agent_id", "agent_name", "agent_version", "model",
		"request_fingerprint", "extra") {
		b = leafField(b, t)
	}
	e.sources = append(e.sources, archivedSource{row.text("id"), b})
}

// leaves returns the hashes that the leaf of an event may have: that with the digest of its
// input or result, and that without.
func (a *ArchiveReader) leaves(id int64) []tlog.Hash {
	e := a.events[id]
	if e == nil {
		return nil
	}
	slices.SortFunc(e.sources, func(a, b archivedSource) int { return cmp.Compare(a.id, b.id) })
	out := []tlog.Hash{e.hash(nil, id)}
	if kind := valueOf(e.move); kind != "" {
		if sum, there := a.values[kind+" "+e.owner]; there {
			out = append(out, e.hash(digests{id: sum}, id))
		}
	}
	return out
}

func (e *archivedEvent) hash(values digests, id int64) tlog.Hash {
	b := values.append(slices.Clone(e.canonical), id, e.move)
	for _, s := range e.sources {
		b = append(b, s.canonical...)
	}
	return sha256.Sum256(b)
}

// valueOf says which value an event stands for: "input", "result", or "" for none.
func valueOf(m pawl.MoveCode) string {
	switch m.Event {
	case "proposed", "planned":
		return "input"
	case "completed", "applied":
		return "result"
	}
	return ""
}

// Check compares the events with the proofs under a root: that of the archive's checkpoint. It
// returns the number of events, and of those that are proved.
func (a *ArchiveReader) Check(root LogRoot) (events, proven int, faults []LogFault) {
	in := a.Log.Proved(root, a.leaves)
	places := map[int64]int64{}
	for i, id := range a.Log.Events {
		at := a.Log.Leaves[i]
		places[id] = at
		proved, found := in[id]
		switch {
		case a.events[id] == nil:
			faults = append(faults, LogFault{Kind: FaultMissing, EventID: eventID(id), Position: at + 1,
				Found: "it was logged, and is not in the archive"})
		case at < root.Size && (!found || proved != at) || at < 0:
			faults = append(faults, LogFault{Kind: FaultChanged, EventID: eventID(id), Position: at + 1,
				Found: "the event, or the input or result that it stands for, is not what was logged"})
		}
	}
	for _, id := range a.order {
		if at, placed := places[id]; !placed || at >= root.Size {
			faults = append(faults, LogFault{Kind: FaultUnproved, EventID: eventID(id), Found: "the archive has no proof that it was logged"})
		}
	}
	return len(a.order), len(in), faults
}
