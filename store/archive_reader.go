package store

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/pawl-work/pawl"
)

// faultsListed bounds the faults of one kind that a check of an archive lists.
const faultsListed = 1000

// ArchiveReader reads the events of an archive, without a database, and compares them with the
// proofs that the archive has. Nothing of an archive but its checkpoint is signed, so a row that
// the writer of archives does not write is a fault.
type ArchiveReader struct {
	TaskID, Namespace string
	Log               *ArchiveLog // nil = the archive has none
	Unproved          []string    // events that stand for inputs and results of which their leaves say nothing: see Check

	keys   map[[sha256.Size]byte]bool // of the rows so far
	events map[int64]*archivedEvent
	order  []int64
	values map[string]archivedValue // of inputs and results: see valueName
	named  []string                 // the names of values, in order
	inputs []*archivedEvent         // those that stand for the input of the only item, one after the other
	closed bool                     // the rows of values are read: leaves are being hashed
	faults []LogFault               // of rows
}

// archivedEvent is an event as its leaf has it.
type archivedEvent struct {
	move   MoveCode
	value  string // the name of the input or result that the event stands for; "" = of none
	fields leafState
	// with has the digest of the value, bare has not. They are nil until all values are read.
	with, bare leafState
	source     string  // the last row of provenance
	was        *Digest // the digest of the value before it was replaced; nil = it was not
	// older has the digests of later values: see olderLeaves.
	older  []Digest
	others []leafState
}

// archivedValue is the input or result of a task or item.
type archivedValue struct {
	sum   Digest
	given bool // it is not NULL
}

// Line reads the next line.
func (a *ArchiveReader) Line(line []byte) error {
	row, err := readArchiveRow(line)
	if err != nil {
		return err
	}
	table := row.text("table")
	switch {
	case a.Log != nil:
		a.refuse("a row of table %q is behind the line of the log", table)
		return nil
	case table == logLine:
		return a.readLog(line)
	}
	if found := a.unfit(table, row); found != "" {
		a.refuse("%s", found)
		return nil
	}
	switch table {
	case "tasks":
		a.task(row)
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
	}
	return nil
}

// refuse notes a fault of a row.
func (a *ArchiveReader) refuse(format string, args ...any) {
	if len(a.faults) < faultsListed {
		a.faults = append(a.faults, LogFault{Kind: FaultRow, Found: fmt.Sprintf(format, args...)})
	}
}

func (a *ArchiveReader) readLog(line []byte) error {
	a.Log = &ArchiveLog{}
	err := json.Unmarshal(line, a.Log)
	if err == nil && len(a.Log.Events) != len(a.Log.Leaves) {
		err = errors.New("the lists of its last line differ in length")
	}
	seen := map[int64]bool{}
	for _, id := range a.Log.Events {
		if seen[id] {
			a.refuse("the line of the log names event %s twice", eventID(id))
		}
		seen[id] = true
	}
	return err
}

func (a *ArchiveReader) task(row archiveRow) {
	a.TaskID, a.Namespace = row.text("id"), row.text("namespace")
	one := row.number("solo") == 1
	if !one || row["payload"] != nil {
		a.keep("input", a.TaskID, row["payload"])
	}
	if one || row["input"] != nil {
		a.keep("input", a.only(), row["input"])
	}
}

// only is the id of the item of a task of one.
func (a *ArchiveReader) only() string { return itemPrefix + strings.TrimPrefix(a.TaskID, taskPrefix) }

// valueName is the name of the input or result of a task or item.
func valueName(kind, owner string) string { return kind + " of " + owner }

// keep hashes the input or result of a task or item.
func (a *ArchiveReader) keep(kind, owner string, value any) {
	name := valueName(kind, owner)
	if _, there := a.values[name]; there {
		a.refuse("there is a second %s", name)
		return
	}
	if a.closed {
		a.refuse("the %s is behind rows of provenance", name)
		return
	}
	if a.values == nil {
		a.values = map[string]archivedValue{}
	}
	text, given := value.(string)
	a.values[name], a.named = archivedValue{sha256.Sum256([]byte(text)), given}, append(a.named, name)
}

func (a *ArchiveReader) event(row archiveRow) {
	r := leafRow{id: row.number("id"), attempt: row.number("attempt"), created: row.number("created_at")}
	copy(r.texts[:], row.texts("namespace", "task_id", "item_id", "actor_type", "actor_id", "key_id", "message", "data",
		"diff", "trace_parent"))
	e := &archivedEvent{move: MoveCode{Event: row.text("event"),
		From: row.text("from_state"), To: row.text("to_state"), TaskFrom: row.text("task_from"), TaskTo: row.text("task_to")}}
	item := row.text("item_id")
	if kind := valueOf(e.move); kind != "" && (item != "" || e.move.Event != "completed") {
		e.value = valueName(kind, cmp.Or(item, row.text("task_id")))
	}
	if from, to, ok := replacement(row.text("diff")); ok && item == "" && e.move.Event == "updated" {
		e.value = valueName("input", a.only())
		if n := len(a.inputs); n > 0 {
			a.inputs[n-1].was = &from
			a.inputs[0].older = append(a.inputs[0].older, to)
		}
	}
	if e.value == valueName("input", a.only()) {
		a.inputs = append(a.inputs, e)
	}
	e.fields = leafState(nil).then(r.canonical([]byte{leafPrefix}, e.move))
	if a.events == nil {
		a.events = map[int64]*archivedEvent{}
	}
	a.events[r.id], a.order = e, append(a.order, r.id)
}

func (a *ArchiveReader) provenance(row archiveRow) {
	id, event := row.text("id"), row.number("event_id")
	e := a.events[event]
	switch {
	case e == nil:
		a.refuse("provenance %s is of event %s, which is not before it", id, eventID(event))
		return
	case id <= e.source:
		a.refuse("provenance %s is behind %s, and is to be before it", id, e.source)
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
	a.hash(event)
	e.source, e.bare = id, e.bare.then(b)
	for i := range e.others {
		e.others[i] = e.others[i].then(b)
	}
	if e.with != nil {
		e.with = e.with.then(b)
	}
}

// hash begins the leaves that an event may have: that with the digest of its input or result,
// and that without. All values are read then.
func (a *ArchiveReader) hash(id int64) *archivedEvent {
	a.closed = true
	e := a.events[id]
	if e == nil || e.bare != nil {
		return e
	}
	e.bare = e.fields.then(appendDigest(nil, Digest{}, e.move))
	if v := a.values[e.value]; v.given {
		if e.was != nil {
			v.sum = *e.was
		}
		e.with = e.fields.then(appendDigest(nil, v.sum, e.move))
	}
	for _, sum := range e.older {
		e.others = append(e.others, e.fields.then(appendDigest(nil, sum, e.move)))
	}
	return e
}

// valueOf says which value an event stands for: "input", "result", or "" for none.
func valueOf(m MoveCode) string {
	switch m.Event {
	case "proposed", "planned":
		return "input"
	case "completed", "applied":
		return "result"
	}
	return ""
}

// Events returns the number of events that were read.
func (a *ArchiveReader) Events() int { return len(a.order) }

// Faults returns what is wrong with the rows themselves: rows that an archive cannot have, and
// inputs and results that no event stands for.
func (a *ArchiveReader) Faults() []LogFault {
	if a.TaskID == "" {
		a.refuse("there is no row of the task")
	}
	if len(a.events) == 0 {
		a.refuse("there are no events")
	}
	out, stood := a.faults, map[string]bool{}
	for _, e := range a.events {
		stood[e.value] = true
	}
	for _, name := range a.named {
		if !stood[name] && !a.grown(name) && len(out) < faultsListed {
			out = append(out, LogFault{Kind: FaultUnproved, Found: "no event stands for the " + name})
		}
	}
	return out
}

// grown says whether a value is the payload of a task that was one of one item: it is the input
// of that item, and the item's event stands for it.
func (a *ArchiveReader) grown(name string) bool {
	input, there := a.values[valueName("input", a.only())]
	return there && name == valueName("input", a.TaskID) && a.values[name] == input
}

// Check compares the events with the proofs under a root: that of the archive's checkpoint. It
// returns the number of those that are proved. Unproved are then those whose values the archive
// has, and whose leaves have no digest: the values were gone when the events were logged.
func (a *ArchiveReader) Check(root LogRoot) (proven int, faults []LogFault) {
	with := a.Log.Proved(root, func(id int64) []tlog.Hash {
		if e := a.hash(id); e != nil && e.with != nil {
			return []tlog.Hash{e.with.sum()}
		}
		return nil
	})
	in := a.Log.Proved(root, func(id int64) []tlog.Hash {
		if _, proved := with[id]; proved || a.events[id] == nil {
			return nil
		}
		return []tlog.Hash{a.hash(id).bare.sum()}
	})
	for _, id := range a.order {
		if _, bare := in[id]; bare && a.events[id].with != nil {
			a.Unproved = append(a.Unproved, eventID(id))
		}
	}
	maps.Copy(in, a.Log.Proved(root, func(id int64) (out []tlog.Hash) {
		if e := a.hash(id); e != nil {
			for _, s := range e.others {
				out = append(out, s.sum())
			}
		}
		return out
	}))
	maps.Copy(in, with)
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
	return len(in), faults
}
