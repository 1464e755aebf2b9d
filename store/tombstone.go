package store

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"

	"github.com/pawl-work/pawl"
)

var tombstoneSQL = Texts(sqlFiles, "tombstone.sql")

// Deletion says who deletes a task, and why.
type Deletion struct {
	Actor  Actor
	Key    string // the API key of the call; "" = none
	Reason string
}

// Tombstone is the data of an event `deleted`: what is kept of a deleted task.
type Tombstone struct {
	Key       string `json:"key_id,omitempty"` // the API key of the call
	Type      string `json:"type"`
	State     string `json:"state"`
	Events    int64  `json:"events"`         // the number of events that the task had
	LastEvent string `json:"last_event"`     // the id of the last of these events
	Hash      string `json:"hash,omitempty"` // the link of that event: the head of the task's chain
}

// BeingDeleted says whether the deletion of a task has begun and not ended.
func BeingDeleted(ctx context.Context, tx Tx, taskID string) (bool, error) {
	var id int64
	return Row(ctx, tx, []any{&id}, tombstoneSQL["being deleted"], taskID)
}

// putTombstone writes the tombstone of a task that LockTaskLast has locked, unless it has
// one.
func putTombstone(ctx context.Context, tx Tx, namespace, taskID string, by *Deletion) error {
	if _, _, found, err := readTombstone(ctx, tx, taskID); err != nil || found {
		return err
	}
	var b Tombstone
	t, err := GetTask(ctx, tx, namespace, taskID)
	if err != nil {
		return err
	}
	b.Key, b.Type, b.State = by.Key, t.Type, string(t.State)
	ids, err := Ints(ctx, tx, chainSQL["numbers of task"], taskID)
	if err != nil {
		return err
	}
	if b.Events = int64(len(ids)); b.Events > 0 {
		b.LastEvent = eventID(ids[len(ids)-1])
	}
	head, err := headOf(ctx, tx, taskID, ids)
	if err != nil {
		return err
	}
	b.Hash = head.String()
	data, err := json.Marshal(b)
	if err != nil {
		return err
	}
	now, err := tx.Now(ctx)
	if err != nil {
		return err
	}
	e := Event{Namespace: namespace, TaskID: taskID, Event: "deleted", Actor: by.Actor, Message: Text(by.Reason), Data: Text(data)}
	if err := Record(ctx, tx, now, []Event{e}); err != nil {
		return err
	}
	id, err := NewestEvent(ctx, tx, taskID)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, tombstoneSQL["bury task"], taskID, id, namespace, now)
	return err
}

// headOf returns the last link of a task's chain, over sealed and unsealed events.
func headOf(ctx context.Context, tx Tx, taskID string, ids []int64) (head Link, err error) {
	sealed := map[int64]bool{}
	err = eachSeal(ctx, tx, taskID, func(s sealRow) error {
		for i, id := range s.ids[:min(len(s.ids), len(s.links))] {
			sealed[id], head = true, s.links[i]
		}
		return nil
	})
	if err != nil {
		return head, err
	}
	var rest []int64
	for _, id := range ids {
		if !sealed[id] {
			rest = append(rest, id)
		}
	}
	found, err := records(ctx, tx, taskID, rest)
	var buf []byte
	for _, id := range rest {
		if r := found[id]; r != nil {
			head = r.link(head, &buf)
		}
	}
	return head, err
}

func readTombstone(ctx context.Context, tx Tx, taskID string) (id int64, b Tombstone, found bool, err error) {
	var data Text
	if found, err = Row(ctx, tx, []any{&id, &data}, tombstoneSQL["tombstone"], taskID); err != nil || !found {
		return 0, b, false, err
	}
	_ = json.Unmarshal([]byte(data), &b) // damaged data is found when the seal is verified
	return id, b, true, nil
}

// linkOfTombstone returns the link of a tombstone, which follows the task's last event.
func linkOfTombstone(ctx context.Context, tx Tx, taskID string, id int64, b Tombstone) (Link, *record, error) {
	found, err := records(ctx, tx, taskID, []int64{id})
	if err != nil || found[id] == nil {
		return Link{}, nil, err
	}
	var buf []byte
	before, _ := readLink(b.Hash)
	return found[id].link(before, &buf), found[id], nil
}

// sealTombstone seals the tombstone of a task whose other rows were just removed.
func sealTombstone(ctx context.Context, tx Tx, namespace, taskID string) error {
	id, b, found, err := readTombstone(ctx, tx, taskID)
	if err != nil || !found {
		return err
	}
	link, _, err := linkOfTombstone(ctx, tx, taskID, id, b)
	if err != nil {
		return err
	}
	now, err := tx.Now(ctx)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, tombstoneSQL["put seal of tombstone"], taskID, namespace, b.Events+1,
		base64.RawStdEncoding.EncodeToString(Pack([]int64{id})), link.String(), now)
	return err
}

// VerifyTombstone checks what is kept of a deleted task. head is a link that was kept
// elsewhere; "" = none. found is false for a task without a tombstone.
func VerifyTombstone(ctx context.Context, tx Tx, taskID, head string) (c Chain, found bool, err error) {
	id, b, found, err := readTombstone(ctx, tx, taskID)
	if err != nil || !found {
		return c, false, err
	}
	c.TaskID = taskID
	link, r, err := linkOfTombstone(ctx, tx, taskID, id, b)
	if err != nil {
		return c, true, err
	}
	if r == nil {
		c.Break = &ChainBreak{Kind: "missing", EventID: eventID(id), Found: "the event of the deletion is not there"}
		return c, true, nil
	}
	c.Events, c.Head = 1, link.String()
	c.Deleted = &Deleted{EventID: eventID(id), At: Stamp(r.created), ActorType: string(r.texts[6]), ActorID: string(r.texts[7]), Tombstone: b}
	var seals []sealRow
	if err := eachSeal(ctx, tx, taskID, func(s sealRow) error { seals = append(seals, s); return nil }); err != nil {
		return c, true, err
	}
	switch {
	case len(seals) != 1 || !seals[0].sound || len(seals[0].ids) != 1 || seals[0].ids[0] != id || seals[0].last != b.Events+1:
		c.Break = &ChainBreak{Kind: "seals", EventID: eventID(id), Found: "the seal of the deletion is missing or damaged"}
	case seals[0].links[0] != link:
		c.Break = &ChainBreak{Kind: "changed", EventID: eventID(id), Found: "it is not what was sealed"}
	case head != "" && head != b.Hash && head != c.Head:
		c.Break = &ChainBreak{Kind: "head", Found: "the task was deleted; only the hash of its last event is kept, and the head is another one"}
	default:
		sealed := Stamp(seals[0].created)
		c.Intact, c.Sealed, c.SealedAt = true, 1, &sealed
	}
	return c, true, nil
}

// TombstonesBefore lists up to limit deleted tasks of all namespaces, newest first, with
// ids below taskID. EndOfTime starts at the newest.
func TombstonesBefore(ctx context.Context, tx Tx, taskID string, limit int) ([]string, error) {
	return Strings(ctx, tx, tombstoneSQL["tombstones before"], taskID, limit)
}

// RemoveTombstones removes up to limit tombstones that were made by the given time, with
// their events and seals. It returns how many it removed.
func RemoveTombstones(ctx context.Context, tx Tx, by int64, limit int) (int, error) {
	rows, err := tx.Query(ctx, tombstoneSQL["old tombstones"], by, limit)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	var old, tasks [][]any
	for rows.Next() {
		var task string
		var id int64
		if err := rows.Scan(&task, &id); err != nil {
			return 0, err
		}
		old, tasks = append(old, []any{task, id}), append(tasks, []any{task})
	}
	if err := rows.Err(); err != nil || len(old) == 0 {
		return 0, err
	}
	rows.Close()
	return len(old), gated(ctx, tx, "tombstones", func() error {
		for _, step := range []string{"remove tombstone", "remove event of tombstone"} {
			if err := tx.ExecEach(ctx, tombstoneSQL[step], old); err != nil {
				return err
			}
		}
		return tx.ExecEach(ctx, tombstoneSQL["remove seal of tombstone"], tasks)
	})
}

// noTask returns the error for a task that does not exist. It says whether the task was
// deleted.
func noTask(ctx context.Context, tx Tx, namespace, taskID string) error {
	out := pawl.NotFound("task", taskID)
	var at int64
	var kind string
	var who Text
	found, err := Row(ctx, tx, []any{&at, &kind, &who}, tombstoneSQL["task was deleted"], taskID, namespace)
	if err != nil || !found {
		return cmp.Or(err, error(out))
	}
	by := kind
	if who != "" {
		by += " " + string(who)
	}
	out.Message = fmt.Sprintf("task %s was deleted on %s by %s", taskID, Stamp(at).Format(time.RFC3339), by)
	return out
}

// WasDeleted says whether a namespace had a task that was deleted and whose tombstone is
// still kept.
func WasDeleted(ctx context.Context, tx Tx, namespace, taskID string) (bool, error) {
	var at int64
	var kind string
	var who Text
	return Row(ctx, tx, []any{&at, &kind, &who}, tombstoneSQL["task was deleted"], taskID, namespace)
}
