package engine

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// requestOf returns a digest of a call that ends a lease: of its verb, worker and body. The
// event of the call keeps it, so that the same call is recognised if the worker repeats it.
// White space in values does not count, and provenance is not part of the body. 0 stands for
// no digest.
func requestOf(verb string, f pawl.Fence, body []byte) int64 {
	h := sha256.New()
	for _, s := range []string{verb, f.WorkerID} {
		_ = binary.Write(h, binary.BigEndian, int64(len(s)))
		h.Write([]byte(s))
	}
	from, quoted := 0, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && (c == ' ' || c == '\t' || c == '\n' || c == '\r'):
			h.Write(body[from:i])
			from = i + 1
		}
	}
	h.Write(body[from:])
	return int64(binary.BigEndian.Uint64(h.Sum(nil)))
}

// requestOfBody is requestOf for a body of several members, with the defaults of those that a
// call leaves out.
func requestOfBody(verb string, f pawl.Fence, body any) int64 {
	b, err := json.Marshal(body)
	if err != nil {
		return 0 // the call is refused before it is carried out
	}
	return requestOf(verb, f, b)
}

// The bodies of the calls that end a lease.
type (
	failBody struct {
		Error        pawl.Failure
		Retryable    bool
		RetryAfterMS *int64
	}
	suspendBody struct {
		Until              *int64
		Signal, Key, Since string
		Children           *store.ChildWait
	}
	submitBody struct {
		Result, Evidence json.RawMessage
		Notes            string
	}
	finalizeBody struct {
		BestEffort bool
		Evidence   json.RawMessage
		Notes      string
	}
)

// orRepeated answers a call that was refused, because an earlier call of the same worker,
// attempt and body was carried out, as that call was answered. Every other answer stays as it is.
func (e *Engine) orRepeated(ctx context.Context, it *store.ItemRow, f pawl.Fence, request int64, m pawl.Moved,
	refusal error) (pawl.Moved, error) {
	if !errors.Is(refusal, pawl.ErrConflict) && !errors.Is(refusal, pawl.ErrLeaseLost) || it.ID == "" || request == 0 {
		return m, refusal
	}
	c := pawl.CallerOf(ctx)
	var r repeated
	found := false
	err := e.db.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		r, found, err = findRepeated(ctx, tx, it.TaskID, it.ID, fenceRow(c, f).Attempt, request)
		return err
	})
	if err != nil || !found || c.Key != "" && r.Key != c.Key {
		return m, cmp.Or(err, refusal)
	}
	m = pawl.Moved{ID: it.ID, TaskID: it.TaskID, State: pawl.ItemState(r.State), Attempt: f.Attempt, Failures: it.Failures,
		RunAt: r.RunAt, Repeated: true}
	if r.Failures != nil {
		m.Failures = *r.Failures
	}
	return m, nil
}

// repeated is an earlier call of a worker that ended a lease.
type repeated struct {
	State    string     // of the item, as that call left it
	Key      string     // the API key of that call; "" = none
	Failures *int       // of the item after a fail; nil = another verb
	RunAt    *time.Time // when the item was to go on; nil = at once, or never
}

// findRepeated finds the call of an attempt by the digest that was kept with its event. It
// looks at the newest pawl.MaxRepeatEvents events of the task.
func findRepeated(ctx context.Context, tx store.Tx, taskID, itemID string, attempt int, request int64) (r repeated, found bool, err error) {
	var code int
	var key, data store.Text
	found, err = store.Row(ctx, tx, []any{&code, &key, &data}, readSQL["event of request"],
		store.TaskID(taskID), store.ItemID(itemID), attempt, request,
		pawl.MaxRepeatEvents)
	if err != nil || !found {
		return r, false, err
	}
	m, err := store.MoveFrom(ctx, tx, code)
	if err != nil {
		return r, false, err
	}
	var kept struct {
		Failures *int       `json:"failures"`
		RunAt    *time.Time `json:"run_at"`
		Until    *time.Time `json:"until"`
	}
	if data != "" {
		_ = json.Unmarshal([]byte(data), &kept) // written by us
	}
	r = repeated{State: m.To, Key: string(key), Failures: kept.Failures, RunAt: kept.RunAt}
	if r.RunAt == nil {
		r.RunAt = kept.Until
	}
	return r, true, nil
}
