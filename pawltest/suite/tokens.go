package suite

import (
	"strings"
	"time"

	"github.com/pawl-work/pawl"
)

var taskTokens = noun{"task tokens", []promise{
	{"a claim's token is valid and has the claim's data while its lease runs", func(w *fixture) {
		t := w.create(pawl.NewTask{Type: "a", Items: []pawl.NewItem{{Input: raw(`1`), Key: "k"}}})
		l := w.claim("w1")
		w.same(w.validToken(l), pawl.TaskToken{
			TaskID: t.ID, ItemID: l.ID, Namespace: t.Namespace, Type: "a", Key: "k", WorkerID: "w1", Attempt: 1,
			LeaseExpiresAt: l.LeaseExpiresAt}, "what it stands for")
		w.advance(200 * time.Second)
		w.heartbeat(l)
		w.advance(299 * time.Second)
		w.same(w.validToken(l).LeaseExpiresAt, w.now().Add(time.Second), "its end, after a heartbeat")
	}},
	{"a token is invalid from the moment the lease ends, also before the sweep", func(w *fixture) {
		t := w.oneItem()
		l := w.claim("w1")
		w.advance(300 * time.Second)
		w.leaseLost(w.tokenError(l), pawl.ReasonExpired, "leased", "w1", 1)
		w.sweep()
		w.leaseLost(w.tokenError(l), pawl.ReasonExpired, "queued", "w1", 1)
		other := w.claim("w2")
		w.leaseLost(w.tokenError(l), pawl.ReasonTaken, "leased", "w2", 2)
		w.same(w.validToken(other).WorkerID, "w2", "the next one's")
		w.release(other)
		w.leaseLost(w.tokenError(other), pawl.ReasonReleased, "queued", "w2", 2)
		last := w.claim("w1")
		w.complete(last, `1`)
		w.conflict(w.tokenError(last), "completed")
		_, err := first(w.svc.DeleteTasks(w.ctx, []pawl.TaskCall{{TaskID: t.ID}}))
		w.ok(err, "delete")
		w.refused(w.tokenError(last), pawl.CodeNotFound)
	}},
	{"the token of a cancelled item is invalid", func(w *fixture) {
		t := w.oneItem()
		l := w.claim("w1")
		w.cancel(t.ID)
		w.conflict(w.tokenError(l), "cancelled")
	}},
	{"a changed, forged or foreign token is invalid", func(w *fixture) {
		w.oneItem()
		l := w.claim("w1")
		first := l.Token
		w.release(l)
		l = w.claim("w1") // the same item, the next attempt
		for _, made := range []string{"", "x", first + "0", strings.ToUpper(l.Token), strings.Replace(first, "_1_", "_2_", 1),
			strings.Replace(l.Token, "_2_", "_02_", 1),
			l.Token[:len(l.Token)-1], "task_" + strings.TrimPrefix(l.ID, "itm_") + "_2_", strings.Repeat("x", 5000)} {
			_, err := w.svc.CheckToken(w.ctx, made)
			w.refused(err, pawl.CodeInvalid)
		}
		o := w.in("other")
		_, err := o.svc.CheckToken(o.ctx, l.Token)
		w.refused(err, pawl.CodeInvalid)
	}},
}}

// validToken checks that a claim's token is valid.
func (w *fixture) validToken(l pawl.Lease) pawl.TaskToken {
	w.Helper()
	t, err := w.svc.CheckToken(w.ctx, l.Token)
	w.ok(err, "check token")
	return t
}

// tokenError returns the error for an invalid token of a claim.
func (w *fixture) tokenError(l pawl.Lease) error {
	_, err := w.svc.CheckToken(w.ctx, l.Token)
	return err
}
