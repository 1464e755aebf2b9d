package store

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/pawl-work/pawl"
)

var acceptSQL = Texts(sqlFiles, "accept.sql")

// LockedItem is a lease whose row a transaction has locked. No other transaction moves the
// item until this one ends.
type LockedItem struct {
	Fence
	By            Actor // the actor of the changes made under the lease
	TaskID, State string
	Failures      int
	Solo          int // the value in its row
	Now           int64
	queue, since  int64    // the number of its queue, and when it was claimed
	effects       int      // of the attempt that are open
	Left          StateRow // the item's row once it has left its lease
	Request       int64    // a digest of the call that ends the lease, kept with its event: see Repeated
}

// LockFenced locks the lease that a fence names. It returns false when the lease is not
// the item's current one. It compares the end of the lease with the database's clock,
// which it reads after the row is locked.
func LockFenced(ctx context.Context, tx Tx, f Fence) (LockedItem, bool, error) {
	g := LockedItem{Fence: f, By: Actor{Type: pawl.ActorWorker, ID: f.WorkerID}}
	var until int64
	found, err := Row(ctx, tx, []any{&until, &g.State, (*TaskID)(&g.TaskID), &g.Failures, &g.Solo, &g.queue, &g.since, &g.effects},
		acceptSQL["hold lease"], ItemID(f.ItemID), f.Namespace, f.WorkerID, f.Attempt)
	if err != nil || !found {
		return g, false, err
	}
	g.Now, err = NowAgain(ctx, tx)
	return g, until > g.Now, err
}

// event returns an event about the locked item.
func (g *LockedItem) event(name string) Event {
	return Event{Namespace: g.Namespace, TaskID: g.TaskID, ItemID: Text(g.ItemID), Solo: g.Solo, Attempt: g.Attempt, Event: name, Actor: g.By,
		queue: g.queue, since: g.since}
}

// start records the first sign of life: a leased item becomes in_progress.
func (g *LockedItem) start(ctx context.Context, tx Tx) error {
	if g.State != "leased" {
		return nil
	}
	if _, err := tx.Exec(ctx, acceptSQL["start lease"], ItemID(g.ItemID)); err != nil {
		return err
	}
	e := g.event("in_progress")
	e.From, e.To = "leased", "in_progress"
	g.State = "in_progress"
	return Record(ctx, tx, g.Now, []Event{e})
}

// Complain stores why a submission was refused as the item's error. It changes nothing
// else and leaves no event.
func (g *LockedItem) Complain(ctx context.Context, tx Tx, failure string) error {
	_, err := tx.Exec(ctx, acceptSQL["complain"], ItemID(g.ItemID), failure)
	return err
}

// Submission is a result that passed the checks of its type.
type Submission struct {
	Result    string
	Assembled Text     // set when the result was assembled from parts; Result has the same value
	Parts     []string // the ids of all live parts it was assembled from, in order; nil = not assembled
	Data      Text     // of the event: evidence and notes
}

// ErrPartsChanged says that parts were added or replaced after a result was assembled from
// them.
var ErrPartsChanged = errors.New("the parts changed while they were put together")

// Submit moves the locked item to submitted. When it was the last item with work left, its
// task moves too, and settled is true.
func (g *LockedItem) Submit(ctx context.Context, tx Tx, s Submission) (settled bool, err error) {
	if err := g.reported("submit"); err != nil {
		return false, err
	}
	if s.Parts != nil { // the lock on the lease keeps the parts from changing
		live, err := Strings(ctx, tx, acceptSQL["live parts"], ItemID(g.ItemID))
		if err == nil && !slices.Equal(live, s.Parts) {
			err = ErrPartsChanged
		}
		if err != nil {
			return false, err
		}
	}
	held, err := Take(ctx, tx, []string{g.ItemID}, leasedStates)
	if err != nil || len(held) != 1 {
		return false, err
	}
	h := &held[0]
	h.State, h.LeftBy, h.Since, h.Error = "submitted", "submitted", &g.Now, ""
	h.Result, h.Assembled = Text(s.Result), s.Assembled
	if err := Put(ctx, tx, held); err != nil {
		return false, err
	}
	g.Left = *h
	e := g.event("submitted")
	e.request = g.Request
	e.From, e.To, e.Data = Text(g.State), "submitted", s.Data
	if h.Solo == 1 {
		e.TaskFrom, e.TaskTo = "open", "submitted"
		if _, err := tx.Exec(ctx, acceptSQL["solo submitted"], TaskID(g.TaskID), g.Namespace, g.Now); err != nil {
			return false, err
		}
		return true, Record(ctx, tx, g.Now, []Event{e})
	}
	if err := Record(ctx, tx, g.Now, []Event{e}); err != nil {
		return false, err
	}
	t := movedTask{found: true, acceptance: true, open: -1}
	out := Applied{Items: 1}
	err = t.conclude(ctx, tx, g.Now, Change{Namespace: g.Namespace, TaskID: g.TaskID, Verb: "submit", Actor: e.Actor}, &out)
	return out.Changed, err
}

// Part is a part to store.
type Part struct {
	ID, Key                 string
	Seq                     *int
	Status, Payload         string
	Evidence, Notes, Errors Text
	Checksum                string
	KeyHash                 Text // of the call's idempotency key
	MaxParts                int
}

// PutPart makes the part the live one of its key and seq. When the live part has the same
// payload and status, PutPart returns that part and changes nothing. A rejected part does
// not replace a validated one.
func (g *LockedItem) PutPart(ctx context.Context, tx Tx, p Part) (pawl.ItemPart, error) {
	if err := g.start(ctx, tx); err != nil {
		return pawl.ItemPart{}, err
	}
	out := pawl.ItemPart{ID: p.ID, ItemID: g.ItemID, Key: p.Key, Seq: p.Seq, Status: p.Status, Payload: json.RawMessage(p.Payload),
		Evidence: Raw(p.Evidence), Notes: string(p.Notes),
		Checksum: p.Checksum, WorkerID: g.WorkerID, Attempt: g.Attempt, CreatedAt: Stamp(g.Now), UpdatedAt: Stamp(g.Now)}
	seq := -1
	if p.Seq != nil {
		seq = *p.Seq
	}
	var id, status, payload, worker string
	var checksum, evidence, notes Text
	var attempt int
	var created int64
	found, err := Row(ctx, tx, []any{&id, &status, &checksum, &payload, &evidence, &notes, &worker, &attempt, &created},
		acceptSQL["live part"], ItemID(g.ItemID), p.Key, seq)
	if err != nil {
		return out, err
	}
	var superseded *int64
	switch {
	case found && status == p.Status && string(checksum) == p.Checksum:
		out.Evidence, out.Notes = Raw(evidence), string(notes)
		out.ID, out.WorkerID, out.Attempt, out.CreatedAt, out.UpdatedAt = id, worker, attempt, Stamp(created), Stamp(created)
		return out, nil
	case found && status == pawl.PartValidated && p.Status == pawl.PartRejected:
		superseded = &g.Now
		out.SupersededAt = StampOf(superseded)
	case found:
		if _, err := tx.Exec(ctx, acceptSQL["supersede part"], id, g.Now); err != nil {
			return out, err
		}
	default:
		var live int
		if _, err := Row(ctx, tx, []any{&live}, acceptSQL["count parts"], ItemID(g.ItemID)); err != nil {
			return out, err
		}
		if live >= p.MaxParts {
			return out, pawl.Invalid("/key", "the item has its most parts: %d", p.MaxParts)
		}
	}
	if _, err := tx.Exec(ctx, acceptSQL["put part"], p.ID, g.Namespace, ItemID(g.ItemID), p.Key, p.Seq, p.Status, p.Payload, p.Evidence,
		p.Notes,
		p.Errors, p.Checksum, p.KeyHash,
		g.WorkerID, g.Attempt, g.Now, superseded); err != nil {
		return out, err
	}
	name := "part_submitted"
	if p.Status == pawl.PartRejected {
		name = "part_rejected"
	}
	e := g.event(name)
	// plain values
	data, _ := json.Marshal(map[string]any{"part_id": p.ID, "key": p.Key, "seq": p.Seq, "status": p.Status, "checksum": p.Checksum,
		"errors": Raw(p.Errors)})
	e.Data = Text(data)
	return out, Record(ctx, tx, g.Now, []Event{e})
}

// EndPlan ends the locked plan item, which n items of its task replace. It returns false
// when the task is not being planned.
func (g *LockedItem) EndPlan(ctx context.Context, tx Tx, n int) (bool, error) {
	result, _ := json.Marshal(map[string]int{"items": n}) // the items themselves are the result
	if ended, err := g.EndAside(ctx, tx, string(result)); err != nil || !ended {
		return false, err
	}
	changed, err := tx.Exec(ctx, typeSQL["end planning"], TaskID(g.TaskID), n, g.Now)
	return changed == 1, err
}

// EndAside ends the locked plan or apply item with its result.
func (g *LockedItem) EndAside(ctx context.Context, tx Tx, result string) (bool, error) {
	if err := g.reported("complete"); err != nil {
		return false, err
	}
	held, err := Take(ctx, tx, []string{g.ItemID}, leasedStates)
	if err != nil || len(held) != 1 {
		return false, err
	}
	h := &held[0]
	h.State, h.LeftBy, h.Error, h.Since, h.CompletedAt, h.Result = "completed", "", "", &g.Now, &g.Now, Text(result)
	if err := Put(ctx, tx, held); err != nil {
		return false, err
	}
	g.Left = *h
	e := g.event("completed")
	e.request, e.digest = g.Request, DigestOf(result)
	e.From, e.To = Text(g.State), "completed"
	return true, Record(ctx, tx, g.Now, []Event{e})
}
