package suite

import (
	"errors"
	"time"

	"github.com/pawl-work/pawl"
)

var namespaces = noun{"namespaces", []promise{
	{"work of another namespace is not found by any verb", func(w *fixture) {
		t := w.oneItem()
		l := w.claim("w1")
		w.checkpoint(l, pawl.CustomCheckpoint, `1`)
		before := w.taskData(t.ID)
		other := w.in("other")
		for name, err := range other.byID(t.ID) {
			if pawl.CodeOf(err) != pawl.CodeNotFound {
				w.Errorf("%s of the task: %v", name, err)
			}
		}
		for name, err := range other.byID(l.ID) {
			if pawl.CodeOf(err) != pawl.CodeNotFound {
				w.Errorf("%s of the item: %v", name, err)
			}
		}
		for _, v := range verbs {
			other.refused(v.call(other, l.Fence()), pawl.CodeNotFound)
		}
		_, err := first(other.svc.CancelTasks(other.ctx, []pawl.TaskCall{{TaskID: t.ID, ItemIDs: []string{l.ID}}}))
		w.refused(err, pawl.CodeNotFound)
		w.same(w.taskData(t.ID), before, "the scene")
	}},
	{"nor is it claimed, listed, counted or kept there", func(w *fixture) {
		t := w.oneItem()
		l := w.claim("w1")
		w.checkpoint(l, pawl.CustomCheckpoint, `1`)
		w.oneItem()
		w.beginRun(pawl.KeyBegin{Key: "k", RequestHash: "h"})
		o := w.in("other")
		workers, err := o.svc.ListWorkers(o.ctx, pawl.WorkerFilter{})
		w.ok(err, "list workers")
		o.noneClaimable()
		for _, req := range []pawl.ClaimRequest{{TaskID: t.ID}, {ItemID: l.ID}, {Types: []string{"a"}}} {
			req.WorkerID = "w1"
			if ls, err := o.svc.Claim(o.ctx, req); len(ls) > 0 || (err != nil && !errors.Is(err, pawl.ErrNotFound)) {
				w.Errorf("claim of %+v: %v, %v", req, ls, err)
			}
		}
		w.same(len(o.allEvents(pawl.EventFilter{})), 0, "events")
		tasks, err := o.svc.ListTasks(o.ctx, pawl.TaskFilter{})
		w.ok(err, "list tasks")
		items, err := o.svc.ListItems(o.ctx, pawl.ItemFilter{IDs: []string{l.ID}})
		w.ok(err, "list items")
		keys, err := o.svc.ListKeys(o.ctx, pawl.KeyFilter{})
		w.ok(err, "list keys")
		archives, err := o.svc.ListArchives(o.ctx, pawl.Page{})
		w.ok(err, "list archives")
		w.same([]int{len(tasks.Items), len(items.Items), len(keys.Items), len(workers.Items), len(archives.Items)}, []int{0, 0, 0, 0, 0}, "lists")
		cs, err := o.svc.ListCheckpoints(o.ctx, pawl.CheckpointFilter{TaskID: t.ID})
		if err == nil {
			w.same(len(cs.Items), 0, "checkpoints")
		} else {
			w.refused(err, pawl.CodeNotFound)
		}
		s, err := o.svc.Stats(o.ctx)
		w.ok(err, "stats")
		w.same([]any{s.Leases, s.Events, s.Checkpoints, s.Keys, s.ItemsByState[pawl.ItemQueued], s.TasksByState[pawl.TaskQueued]},
			[]any{int64(0), int64(0), int64(0), pawl.KeyStats{}, int64(0), int64(0)}, "stats")
	}},
	{"each has its own work and keys under the same names", func(w *fixture) {
		a, b := w.in("a"), w.in("b")
		ta, tb := a.oneItem(), b.oneItem()
		w.same([]string{ta.Namespace, tb.Namespace}, []string{"a", "b"}, "namespaces")
		w.same([]string{a.claim("w1").TaskID, b.claim("w1").TaskID}, []string{ta.ID, tb.ID}, "claimed")
		ka, kb := a.beginRun(pawl.KeyBegin{Key: "k", RequestHash: "x"}), b.beginRun(pawl.KeyBegin{Key: "k", RequestHash: "y"})
		a.finishKey(pawl.KeyDone{Key: "k", Token: ka.Token, Response: raw(`"a"`)})
		b.finishKey(pawl.KeyDone{Key: "k", Token: kb.Token, Response: raw(`"b"`)})
		w.same(string(a.begin(pawl.KeyBegin{Key: "k", RequestHash: "x"}).Key.Response), `"a"`, "the answer")
	}},
	{"one sweep serves all of them", func(w *fixture) {
		a, b := w.in("a"), w.in("b")
		a.oneItem()
		b.oneItem()
		a.claim("w1")
		b.claim("w1")
		w.advance(300 * time.Second)
		w.same(w.sweep().ExpiredFound, int64(2), "expired")
		w.same([]int{a.claim("w2").Attempt, b.claim("w2").Attempt}, []int{2, 2}, "attempts")
	}}, {"those that had work are listed, with their open tasks and live workers", func(w *fixture) {
		a, b := w.in("a"), w.in("b")
		a.oneItem()
		a.complete(a.claim("gone"), `1`)
		b.oneItem()
		b.failPermanently(b.claim("gone"), "no") // a task that has failed is not open
		oldest := w.now()
		b.manyItems(3)
		b.claim("gone")
		b.failPermanently(b.claim("gone"), "no")
		_, err := w.svc.ListWorkers(w.ctx, pawl.WorkerFilter{}) // writes who called
		w.ok(err, "list workers")
		w.advance(pawl.WorkerLive + time.Second)
		b.oneItem()
		w.ok(b.svc.RegisterWorker(b.ctx, pawl.WorkerInfo{WorkerID: "live"}), "register")
		all, err := w.svc.ListNamespaces(w.ctx, pawl.Page{})
		w.ok(err, "list namespaces")
		w.same(all.Items, []pawl.NamespaceInfo{{Namespace: "a"}, {Namespace: "b", OpenTasks: 2, Queued: 2, OldestQueuedAt: &oldest, Workers: 1}},
			"namespaces")
		w.sweep() // the events are counted from then on
		counted, err := w.svc.ListNamespaces(w.ctx, pawl.Page{})
		w.ok(err, "list namespaces")
		w.same(counted, all, "namespaces of counted events")
		page, err := w.svc.ListNamespaces(w.ctx, pawl.Page{Limit: 1})
		w.ok(err, "the first page")
		rest, err := w.svc.ListNamespaces(w.ctx, pawl.Page{Cursor: page.Next})
		w.ok(err, "the next page")
		w.same([][]pawl.NamespaceInfo{page.Items, rest.Items}, [][]pawl.NamespaceInfo{all.Items[:1], all.Items[1:]}, "pages")
	}},
}}
