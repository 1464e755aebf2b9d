package suite

import (
	"strings"
	"time"

	"github.com/pawl-work/pawl"
)

var keyAges = noun{"the age of keys", []promise{
	{"a key is kept for a day by default and is absent from the moment it expires", func(w *fixture) {
		b := w.beginRun(pawl.KeyBegin{Key: "k", RequestHash: "h"})
		w.timeIs(b.Key.ExpiresAt, w.now().Add(24*time.Hour), "expires_at")
		w.finishKey(pawl.KeyDone{Key: "k", Token: b.Token, Response: raw(`1`)})
		w.advance(24*time.Hour - time.Microsecond)
		w.same(w.begin(pawl.KeyBegin{Key: "k", RequestHash: "h"}).Run, false, "run")
		w.advance(time.Microsecond)
		_, err := w.key("", "k")
		w.refused(err, pawl.CodeNotFound)
		w.beginRun(pawl.KeyBegin{Key: "k", RequestHash: "another"})
	}},
	{"a key that is begun anew after its expiry is of the task that is named then", func(w *fixture) {
		before, after := w.manyItems(1), w.manyItems(1)
		w.beginRun(pawl.KeyBegin{Key: "k", RequestHash: "h", TaskID: before.ID, ItemID: w.items(before.ID)[0].ID})
		w.advance(24 * time.Hour)
		item := w.items(after.ID)[0].ID
		w.beginRun(pawl.KeyBegin{Key: "k", RequestHash: "h", TaskID: after.ID, ItemID: item})
		k, err := w.key("", "k")
		w.ok(err, "get key")
		w.same([]string{k.TaskID, k.ItemID}, []string{after.ID, item}, "task, item")
	}},
	{"a run holds a key for an hour at most before it renews it", func(w *fixture) {
		w.invalid(w.tryBegin(pawl.KeyBegin{Key: "k", RequestHash: "h", LockSeconds: 3601}), "/lock_seconds")
		b := w.beginRun(pawl.KeyBegin{Key: "k", RequestHash: "h", LockSeconds: 3600})
		_, err := first(w.svc.RenewKeys(w.ctx, []pawl.KeyRenew{{Key: "k", Token: b.Token, LockSeconds: 3601}}))
		w.invalid(err, "/lock_seconds")
	}},
	{"or as long as asked for", func(w *fixture) {
		b := w.beginRun(pawl.KeyBegin{Key: "k", RequestHash: "h", TTLSeconds: 7 * 86400})
		w.timeIs(b.Key.ExpiresAt, w.now().Add(7*24*time.Hour), "expires_at")
	}},
	{"a key without expiry is removed seven days after its completion", func(w *fixture) {
		b := w.beginRun(pawl.KeyBegin{Key: "k", RequestHash: "h", TTLSeconds: -1})
		w.same(b.Key.ExpiresAt, (*time.Time)(nil), "expires_at")
		w.finishKey(pawl.KeyDone{Key: "k", Token: b.Token, Response: raw(`1`)})
		w.advance(7*24*time.Hour - time.Second)
		w.sweep()
		w.same(w.begin(pawl.KeyBegin{Key: "k", RequestHash: "h"}).Run, false, "run")
		w.advance(2 * time.Second)
		w.atLeast(w.sweep().KeysPruned, 1, "keys pruned") // an interface may have had keys of its own
		_, err := w.key("", "k")
		w.refused(err, pawl.CodeNotFound)
	}},
	{"a key does not expire while a run holds it that took it over", func(w *fixture) {
		ask := pawl.KeyBegin{Key: "k", RequestHash: "h", TTLSeconds: 60, LockSeconds: 60}
		b := w.beginRun(ask)
		w.advance(30 * time.Second)
		_, err := first(w.svc.FailKeys(w.ctx, []pawl.KeyDone{{Key: "k", Token: b.Token}}))
		w.ok(err, "fail")
		w.advance(25 * time.Second)
		next := w.beginRun(ask)
		for range 2 {
			w.advance(20 * time.Second)
			w.sweep()
			w.refused(w.tryBegin(ask), pawl.CodeKeyInFlight)
		}
		w.finishKey(pawl.KeyDone{Key: "k", Token: next.Token, Response: raw(`1`)})
	}},
	{"a key without expiry is kept while a run holds it, however long ago one failed", func(w *fixture) {
		ask := pawl.KeyBegin{Key: "k", RequestHash: "h", TTLSeconds: -1}
		b := w.beginRun(ask)
		_, err := first(w.svc.FailKeys(w.ctx, []pawl.KeyDone{{Key: "k", Token: b.Token}}))
		w.ok(err, "fail")
		w.advance(7*24*time.Hour - time.Second)
		w.beginRun(ask)
		w.advance(2 * time.Second)
		w.sweep()
		w.refused(w.tryBegin(ask), pawl.CodeKeyInFlight)
	}},
	{"the sweep removes what has expired", func(w *fixture) {
		for _, k := range []string{"a", "b"} {
			w.beginRun(pawl.KeyBegin{Key: k, RequestHash: "h"})
		}
		w.beginRun(pawl.KeyBegin{Key: "c", RequestHash: "h", TTLSeconds: 2 * 86400})
		w.advance(24 * time.Hour)
		w.atLeast(w.sweep().KeysPruned, 2, "keys pruned")
		list, err := w.svc.ListKeys(w.ctx, pawl.KeyFilter{})
		w.ok(err, "list keys")
		w.same(len(list.Items), 1, "keys left")
	}},
	{"they are listed by status, task and item, newest first", func(w *fixture) {
		t := w.manyItems(2)
		ids := w.items(t.ID)
		for n, k := range []pawl.KeyBegin{{Key: "a", TaskID: t.ID, ItemID: ids[0].ID}, {Key: "b", TaskID: t.ID, ItemID: ids[1].ID}, {Key: "c"}} {
			k.RequestHash, k.Scope = k.Key, "s"+k.Key
			b := w.beginRun(k)
			if n > 0 {
				w.finishKey(pawl.KeyDone{Scope: k.Scope, Key: k.Key, Token: b.Token, Response: raw(`1`)})
			}
			w.advance(time.Second)
		}
		for want, f := range map[string]pawl.KeyFilter{
			"c b a": {}, "c b": {Status: pawl.KeyCompleted}, "a": {Status: pawl.KeyPending}, "b a": {TaskID: t.ID}, "b": {ItemID: ids[1].ID},
		} {
			list, err := w.svc.ListKeys(w.ctx, f)
			w.ok(err, "list keys")
			var got []string
			for _, k := range list.Items {
				got = append(got, k.RequestHash)
			}
			w.same(strings.Join(got, " "), want, "keys")
		}
	}},
	{"hits, misses and replays are counted", func(w *fixture) {
		ask := pawl.KeyBegin{Key: "k", RequestHash: "h"}
		b := w.beginRun(ask)
		_ = w.tryBegin(ask)
		w.finishKey(pawl.KeyDone{Key: "k", Token: b.Token, Response: raw(`1`)})
		w.begin(ask)
		w.begin(ask)
		w.beginRun(pawl.KeyBegin{Key: "other", RequestHash: "h"})
		s, err := w.svc.Stats(w.ctx)
		w.ok(err, "stats")
		w.same(s.Keys, pawl.KeyStats{Pending: 1, Completed: 1, Hits: 3, Misses: 2, Replays: 2}, "key statistics")
	}},
	{"malformed keys are invalid", func(w *fixture) {
		for pointer, k := range map[string]pawl.KeyBegin{
			"/key":   {Key: strings.Repeat("k", pawl.MaxKeyLen+1), RequestHash: "h"},
			"/scope": {Scope: strings.Repeat("k", pawl.MaxScopeLen+1), Key: "k", RequestHash: "h"},
		} {
			w.invalid(w.tryBegin(k), pointer)
		}
		w.invalid(w.tryBegin(pawl.KeyBegin{RequestHash: "h"}), "/key")
		w.invalid(w.tryBegin(pawl.KeyBegin{Key: "a\x00b", RequestHash: "h"}), "/key")
		w.invalid(w.tryBegin(pawl.KeyBegin{Key: "a\xffb", RequestHash: "h"}), "/key")
		w.beginRun(pawl.KeyBegin{Scope: strings.Repeat("é", pawl.MaxScopeLen), Key: strings.Repeat("é", pawl.MaxKeyLen), RequestHash: "h"})
	}},
}}
