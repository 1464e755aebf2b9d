// Package hot has SQLite's statements of the hot verbs. Each statement handles one row and
// is prepared once per connection. They run one after another in one transaction.
// store.Hot and store.Timed say what each verb does.
package hot

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

//go:embed *.sql
var files embed.FS

// Verbs implements store.Hot and store.Timed for any store.Tx on a SQLite file.
type Verbs struct{}

var (
	_ store.Hot   = Verbs{}
	_ store.Timed = Verbs{}
)

// texts are the statements of a file, by name. A missing name panics when the program
// starts.
type texts map[string]string

func read(file string) texts { return store.Texts(files, file) }

func (t texts) get(name string) string {
	text := t[name]
	if text == "" {
		panic("hot: no text " + name)
	}
	return text
}

// places are the texts that several verbs share.
var (
	places       = read("places.sql")
	putReady     = places.get("PutReady")
	putScheduled = places.get("PutScheduled")
	putWaiting   = places.get("PutWaiting")
	putFailed    = places.get("PutFailed")
	breakOthers  = places.get("BreakDependents")

	records    = read("records.sql")
	addEvent   = newInsert(records.get("Event"))
	nextNumber = records.get("NextNumber")
	addCheck   = records.get("Checkpoint")
)

// event is a row of task_events. Its time is the now of its transaction.
type event struct {
	namespace        string
	taskID           store.TaskID
	itemID           store.ItemID
	solo             int   // the value in the item's row
	attempt          int64 // 0 = no attempt
	name             string
	from, to         store.Text
	taskFrom, taskTo store.Text
	by               by
	queue, since     int64 // 0 = not known
	data             store.Text
	request          int64 // a digest of the call that ended the lease; 0 = none
	digest           store.Digest
}

func (e *event) write(ctx context.Context, tx store.Tx, now int64) error {
	row, err := e.row(now)
	if err == nil {
		_, err = tx.Exec(ctx, addEvent.one, row...)
	}
	return err
}

// add adds the event to those that a verb inserts.
func (e *event) add(ctx context.Context, tx store.Tx, events *inserter, now int64) error {
	row, err := e.row(now)
	if err == nil {
		err = events.add(ctx, tx, row...)
	}
	return err
}

func (e *event) row(now int64) ([]any, error) {
	move, err := store.EventCode(string(e.itemID), e.solo, e.name, string(e.from), string(e.to), string(e.taskFrom), string(e.taskTo))
	return []any{e.namespace, e.taskID, e.itemID, orNull(e.attempt), int64(move), e.by.actor, e.by.key, now,
		orNull(e.queue), orNull(e.since), e.data, orNull(e.request), e.digest}, err
}

// by is the actor of an event, by its number, and its API key.
type by struct {
	actor int64
	key   store.Text
}

var system = by{actor: store.SystemActor}

// byActor returns the actor's number. An actor that has none gets one.
func byActor(ctx context.Context, tx store.Tx, a store.Actor) (by, error) {
	id, err := store.ActorID(ctx, tx, a.Named())
	return by{id, store.Text(a.Key)}, err
}

// checkpoint is a row of checkpoints.
type checkpoint struct {
	id, namespace, kind, snapshot string
	taskID                        store.TaskID
	itemID                        store.ItemID
	attempt                       int64
	name, argsHash, metadata      store.Text
}

// write numbers the checkpoint from its task's counter. It inserts the counter's row if
// there is none, as for a task of one item.
func (c *checkpoint) write(ctx context.Context, tx store.Tx, now int64) (seq int64, err error) {
	if _, err = store.Row(ctx, tx, []any{&seq}, nextNumber, c.taskID, c.namespace); err != nil {
		return 0, err
	}
	_, err = tx.Exec(ctx, addCheck, c.id, c.namespace, c.taskID, c.itemID, c.attempt, seq, c.kind, c.name, c.argsHash, c.snapshot, c.metadata,
		now)
	return seq, err
}

func orNull(n int64) any {
	if n == 0 {
		return nil
	}
	return n
}

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// rfc3339 formats microseconds as in JSON: RFC 3339 with microseconds, UTC, Z.
func rfc3339(micros int64) string {
	return time.UnixMicro(micros).UTC().Format("2006-01-02T15:04:05.000000Z")
}

// encode encodes JSON and leaves <, > and & unescaped. The values are Pawl's; the engine
// has checked the callers' JSON inside them.
func encode(v any) (store.Text, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return "", &pawl.Error{Code: pawl.CodeInternal, Err: fmt.Errorf("event data: %w", err)}
	}
	return store.Text(bytes.TrimSuffix(b.Bytes(), []byte{'\n'})), nil
}

// raw returns a caller's JSON for use inside Pawl's JSON. "" becomes null.
func raw(text string) json.RawMessage {
	if text == "" {
		return json.RawMessage("null")
	}
	return json.RawMessage(text)
}
