package suite

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
)

// suspendFor suspends a claimed item until a signal.
func (w *fixture) suspendFor(l pawl.Lease, signal, key string) pawl.Moved {
	w.Helper()
	m, err := first(w.svc.Suspend(w.ctx, []pawl.SuspendCall{{Fence: l.Fence(), Signal: signal, Key: key}}))
	w.ok(err, "suspend")
	return m
}

func (w *fixture) signal(name, key, payload string) pawl.Signalled {
	w.Helper()
	s, err := pawl.Signal(w.ctx, w.svc, name, key, raw(payload))
	w.ok(err, "signal")
	return s
}

// eventsFrom returns a task's events from the n-th on, in short.
func (w *fixture) eventsFrom(taskID string, n int) []string {
	w.Helper()
	var out []string
	for _, e := range w.allEvents(pawl.EventFilter{TaskID: taskID})[n:] {
		line := fmt.Sprintf("%s %s>%s by %s %s", e.Event, e.FromState, e.ToState, e.ActorType, e.ActorID)
		if e.Event == "signalled" {
			line += " " + strings.ReplaceAll(string(e.Data), " ", "")
		}
		out = append(out, line)
	}
	return out
}

var signals = noun{"signals", []promise{
	{"a wait takes a stored signal that was sent after the item last took one of the name and key", func(w *fixture) {
		t := w.oneItem()
		w.signal("answer", "k", `1`)
		state := func(l pawl.Lease, since string) pawl.ItemState {
			m, err := first(w.svc.Suspend(w.ctx, []pawl.SuspendCall{{Fence: l.Fence(), Signal: "answer", Key: "k", Since: since}}))
			w.ok(err, "suspend")
			return m.State
		}
		w.same(state(w.claim("w1"), ""), pawl.ItemQueued, "the first wait takes what is stored")
		w.same(state(w.claim("w1"), "ever"), pawl.ItemQueued, "a wait for a signal that was sent ever")
		w.same(state(w.claim("w1"), ""), pawl.ItemWaiting, "a second question")
		w.signal("answer", "k", `2`)
		w.same(state(w.claim("w1"), ""), pawl.ItemWaiting, "it took the second answer")
		w.signal("answer", "k", `3`)
		l := w.claim("w1")
		w.signal("answer", "k", `4`)
		w.same(state(l, ""), pawl.ItemQueued, "one was sent between")
		l = w.claim("w1")
		m := w.suspendFor(l, "answer", "other")
		w.same(m.State, pawl.ItemWaiting, "another key")
		w.cancel(t.ID)
		w.oneItem()
		w.same(state(w.claim("w1"), ""), pawl.ItemQueued, "another item took none")
		l = w.claim("w1")
		_, err := first(w.svc.Suspend(w.ctx, []pawl.SuspendCall{{Fence: l.Fence(), Signal: "answer", Since: "never"}}))
		w.invalid(err, "/since")
	}},
	{"the resume state has a signal of a wait only if it is news to the item", func(w *fixture) {
		t := w.oneItem()
		ask := func(l pawl.Lease, name string) {
			_, err := first(w.svc.Checkpoint(w.ctx, []pawl.CheckpointCall{{Fence: l.Fence(), NewCheckpoint: pawl.NewCheckpoint{
				Type: pawl.StateTransition, Name: name, Snapshot: raw("null"), Metadata: raw(`{"signal":"answer","key":"k"}`)}}}))
			w.ok(err, "checkpoint")
		}
		has := func(names ...string) {
			w.Helper()
			st, err := w.svc.Resume(w.ctx, w.onlyItem(t.ID).ID)
			w.ok(err, "resume state")
			got := map[string]bool{}
			for name := range st.Signals {
				got[name] = true
			}
			want := map[string]bool{}
			for _, name := range names {
				want[name] = true
			}
			w.same(got, want, "the signals")
		}
		l := w.claim("w1")
		ask(l, "one")
		w.suspendFor(l, "answer", "k")
		w.signal("answer", "k", `1`)
		l = w.claim("w1")
		has("one")
		ask(l, "two")
		has("one")
		w.suspendFor(l, "answer", "k")
		w.signal("answer", "k", `2`)
		w.claim("w1")
		has("one", "two")
	}},
	{"a signal queues the items that wait for it and counts no failure", func(w *fixture) {
		t := w.oneItem()
		l := w.claim("w1")
		m := w.suspendFor(l, "approved", "42")
		w.same([]any{m.State, m.Attempt, m.Failures, m.RunAt}, []any{pawl.ItemWaiting, 1, 0, (*time.Time)(nil)}, "the answer")
		w.advance(24 * time.Hour)
		w.sweep()
		w.noneClaimable()
		s := w.as("user", "ana").signal("approved", "42", `{"by":"ana"}`)
		w.same(s, pawl.Signalled{Name: "approved", Key: "42", SentAt: w.now(), Woken: 1}, "the answer")
		w.same(w.onlyItem(t.ID).State, pawl.ItemQueued, "state")
		again := w.claim("w2")
		w.same([]any{again.Attempt, again.Failures}, []any{2, 0}, "attempt, failures")
		w.same(w.eventsFrom(t.ID, 2), []string{
			"suspended leased>waiting by worker w1",
			`signalled > by user ana {"signal":"approved","key":"42"}`,
			"ready waiting>queued by user ana",
			"leased queued>leased by worker w2",
		}, "events")
		w.leaseLost(func() error { _, err := pawl.Heartbeat(w.ctx, w.svc, l.Fence()); return err }(), "taken", "leased", "w2", 2)
	}},
	{"one sent before is not missed", func(w *fixture) {
		w.same(w.signal("go", "", `1`).Woken, 0, "woken")
		t := w.oneItem()
		l := w.claim("w1")
		m := w.suspendFor(l, "go", "")
		w.same(m, pawl.Moved{ID: l.ID, TaskID: t.ID, State: pawl.ItemQueued, Attempt: 1}, "the answer")
		w.same(w.eventsFrom(t.ID, 2), []string{
			"suspended leased>waiting by worker w1",
			`signalled > by worker w1 {"signal":"go","key":null}`,
			"ready waiting>queued by worker w1",
		}, "events")
		_, err := pawl.Heartbeat(w.ctx, w.svc, l.Fence())
		w.leaseLost(err, "released", "queued", "w1", 1)
		w.same(w.claim("w2").Attempt, 2, "attempt")
	}},
	{"another name, key or namespace queues no item", func(w *fixture) {
		t := w.oneItem()
		w.suspendFor(w.claim("w1"), "a", "1")
		w.same(
			[]int{
				w.signal("a", "", `1`).Woken,
				w.signal("a", "2", `1`).Woken,
				w.signal("b", "1", `1`).Woken,
				w.in("other").signal("a", "1", `1`).Woken,
			},
			[]int{0, 0, 0, 0},
			"woken",
		)
		w.same(w.onlyItem(t.ID).State, pawl.ItemWaiting, "state")
		w.same(w.signal("a", "1", `1`).Woken, 1, "woken")
	}},
	{"all items that wait are queued, and each task is updated once", func(w *fixture) {
		many, solo := w.manyItems(3), w.oneItem()
		leases := w.claims(pawl.ClaimRequest{WorkerID: "w1", Limit: 4})
		var calls []pawl.SuspendCall
		for _, l := range leases {
			calls = append(calls, pawl.SuspendCall{Fence: l.Fence(), Signal: "go"})
		}
		rs, err := w.svc.Suspend(w.ctx, calls)
		w.ok(err, "suspend")
		for _, r := range rs {
			w.ok(r.Err, "suspend")
		}
		w.same(w.signal("go", "", `1`).Woken, 4, "woken")
		for _, t := range []pawl.Task{many, solo} {
			w.same(len(w.allEvents(pawl.EventFilter{TaskID: t.ID, Event: "signalled"})), 1, "told")
		}
		w.same(len(w.allEvents(pawl.EventFilter{TaskID: many.ID, Event: "ready"})), 3, "ready")
		w.same(len(w.claims(pawl.ClaimRequest{WorkerID: "w2", Limit: 10})), 4, "claimed")
	}},
	{"a batch of suspends answers each on its own", func(w *fixture) {
		w.signal("sent", "", `1`)
		w.manyItems(4)
		ls := w.claims(pawl.ClaimRequest{WorkerID: "w1", Limit: 4})
		until := w.now().Add(time.Hour)
		stale := ls[3].Fence()
		stale.WorkerID = "w9"
		rs, err := w.svc.Suspend(w.ctx, []pawl.SuspendCall{{Fence: ls[0].Fence(), Signal: "sent"}, {Fence: ls[1].Fence(), Until: &until},
			{Fence: ls[2].Fence(), Signal: "other", Until: &until}, {Fence: stale, Signal: "sent"}})
		w.ok(err, "suspend")
		w.same(
			[]any{rs[0].Value.State, rs[1].Value.State, rs[2].Value.State},
			[]any{pawl.ItemQueued, pawl.ItemWaiting, pawl.ItemWaiting},
			"states",
		)
		w.same(rs[0].Value.RunAt, (*time.Time)(nil), "run_at")
		w.timeIs(rs[2].Value.RunAt, until, "run_at")
		w.leaseLost(rs[3].Err, "taken", "leased", "w1", 1)
		w.same(w.signal("other", "", `1`).Replaced, false, "replaced")
	}},
	{"sent again it replaces the payload and queues the items that wait then", func(w *fixture) {
		w.same(w.signal("go", "", `1`).Replaced, false, "replaced")
		w.advance(time.Second)
		s := w.signal("go", "", `2`)
		w.same(s, pawl.Signalled{Name: "go", SentAt: w.now(), Replaced: true}, "the answer")
		w.oneItem()
		l := w.claim("w1")
		w.saveWait(l, "go", "")
		w.suspendFor(l, "go", "")
		w.same(string(w.resume(w.claim("w1").ID).Signals["wait"].Payload), `2`, "payload")
	}},
	{"the next attempt reads the payload, byte for byte, until it has saved it", func(w *fixture) {
		w.oneItem()
		l := w.claim("w1")
		w.saveWait(l, "approved", "42")
		w.suspendFor(l, "approved", "42")
		w.same(len(w.resume(l.ID).Signals), 0, "signals before one is sent")
		w.signal("approved", "42", `{"by": "ana",  "n": 9007199254740993}`)
		l = w.claim("w2")
		w.same(
			w.resume(l.ID).Signals,
			map[string]pawl.SentSignal{
				"wait": {Name: "approved", Key: "42", Payload: raw(`{"by": "ana",  "n": 9007199254740993}`), SentAt: w.now()},
			},
			"signals",
		)
		_, err := pawl.SaveCheckpoint(w.ctx, w.svc, l.Fence(), pawl.NewCheckpoint{Type: pawl.StateTransition, Name: "wait", Snapshot: raw(`1`),
			Metadata: raw(`{"signal":"approved","key":"42","sent_at":"2026-01-29T10:00:00Z"}`)})
		w.ok(err, "checkpoint")
		w.same(len(w.resume(l.ID).Signals), 0, "signals after it is saved")
	}},
	{"a signal without a payload carries null", func(w *fixture) {
		_, err := pawl.Signal(w.ctx, w.svc, "go", "", nil)
		w.ok(err, "signal")
		w.oneItem()
		l := w.claim("w1")
		w.saveWait(l, "go", "")
		w.suspendFor(l, "go", "")
		w.same(string(w.resume(w.claim("w1").ID).Signals["wait"].Payload), `null`, "payload")
	}},
	{"of a time and a signal the first wins", func(w *fixture) {
		for _, signalFirst := range []bool{false, true} {
			t := w.oneItem()
			until := w.now().Add(time.Minute)
			_, err := first(w.svc.Suspend(w.ctx, []pawl.SuspendCall{{Fence: w.claim("w1").Fence(), Signal: "go", Key: t.ID, Until: &until}}))
			w.ok(err, "suspend")
			if signalFirst {
				w.same(w.signal("go", t.ID, `1`).Woken, 1, "woken")
			}
			w.advance(time.Minute)
			w.sweep()
			if !signalFirst {
				w.same(w.signal("go", t.ID, `1`).Woken, 0, "woken")
			}
			w.same(len(w.allEvents(pawl.EventFilter{TaskID: t.ID, Event: "ready"})), 1, "ready")
			w.complete(w.claim("w1"), `1`)
		}
	}},
	{"a cancelled item is not queued", func(w *fixture) {
		t := w.oneItem()
		w.suspendFor(w.claim("w1"), "go", "")
		w.cancel(t.ID)
		w.same(w.signal("go", "", `1`).Woken, 0, "woken")
		w.same(w.onlyItem(t.ID).State, pawl.ItemCancelled, "state")
	}},
	{"a refused suspend does not make the item wait", func(w *fixture) {
		w.oneItem()
		l := w.claim("w1")
		w.complete(l, `1`)
		_, err := first(w.svc.Suspend(w.ctx, []pawl.SuspendCall{{Fence: l.Fence(), Signal: "go"}}))
		w.conflict(err, "completed")
		w.same(w.signal("go", "", `1`), pawl.Signalled{Name: "go", SentAt: w.now()}, "the answer")
	}},
	{"bad signals are refused by field", func(w *fixture) {
		for pointer, call := range map[string]pawl.SignalCall{
			"/name":    {},
			"/key":     {Name: "a", Key: strings.Repeat("x", pawl.MaxKeyLen+1)},
			"/payload": {Name: "a", Payload: raw(`"` + strings.Repeat("x", pawl.MaxPayloadBytes) + `"`)},
		} {
			_, err := first(w.svc.SendSignals(w.ctx, []pawl.SignalCall{call}))
			w.invalid(err, pointer)
		}
		rs, err := w.svc.SendSignals(w.ctx, []pawl.SignalCall{{Name: "a"}, {Name: "a\x00"}, {Name: strings.Repeat("x", pawl.MaxKeyLen)}})
		w.ok(err, "signals")
		w.ok(rs[0].Err, "the first")
		w.invalid(rs[1].Err, "/name")
		w.ok(rs[2].Err, "the third")
	}},
	{"sent while an item is suspended for it, it is never lost", func(w *fixture) {
		for n := range 50 {
			t := w.oneItem()
			l := w.claimItem("w1", w.onlyItem(t.ID).ID)
			var m pawl.Moved
			var s pawl.Signalled
			var errs [2]error
			concurrently(
				func() {
					m, errs[0] = first(w.svc.Suspend(w.ctx, []pawl.SuspendCall{{Fence: l.Fence(), Signal: "go", Key: fmt.Sprint(n)}}))
				},
				func() { s, errs[1] = pawl.Signal(w.ctx, w.svc, "go", fmt.Sprint(n), raw(`1`)) },
			)
			w.ok(errors.Join(errs[:]...), "suspend and signal")
			w.same(w.onlyItem(t.ID).State, pawl.ItemQueued, "state")
			w.same(s.Woken == 1, m.State == pawl.ItemWaiting, "who woke it")
			w.complete(w.claimItem("w2", l.ID), `1`)
		}
	}},
	{"concurrent signals, a cancel and the time queue an item once", func(w *fixture) {
		for n := range 10 {
			t := w.manyItems(4)
			key := fmt.Sprint(n)
			until := w.now().Add(time.Second)
			var calls []pawl.SuspendCall
			for _, l := range w.claims(pawl.ClaimRequest{WorkerID: "w1", TaskID: t.ID, Limit: 4}) {
				calls = append(calls, pawl.SuspendCall{Fence: l.Fence(), Signal: "go", Key: key, Until: &until})
			}
			_, err := w.svc.Suspend(w.ctx, calls)
			w.ok(err, "suspend")
			w.advance(time.Second)
			var sent [2]pawl.Signalled
			var errs [4]error
			concurrently(
				func() { sent[0], errs[0] = pawl.Signal(w.ctx, w.svc, "go", key, raw(`1`)) },
				func() { sent[1], errs[1] = pawl.Signal(w.ctx, w.svc, "go", key, raw(`2`)) },
				func() { _, errs[2] = w.svc.Sweep(w.ctx) },
				func() { _, errs[3] = pawl.Cancel(w.ctx, w.svc, t.ID, "") },
			)
			w.ok(errors.Join(errs[:]...), "signals, sweep and cancel")
			woken := sent[0].Woken + sent[1].Woken
			for _, i := range w.items(t.ID) {
				w.same(i.State, pawl.ItemCancelled, "state")
			}
			if ready := len(w.allEvents(pawl.EventFilter{TaskID: t.ID, Event: "ready"})); ready > 4 || woken > 4 {
				w.Fatalf("%d were woken, %d ready", woken, ready)
			}
		}
	}},
}}

func (w *fixture) resume(itemID string) pawl.ResumeState {
	w.Helper()
	state, err := w.svc.Resume(w.ctx, itemID)
	w.ok(err, "resume")
	return state
}

// saveWait saves the checkpoint with the signal that the step "wait" waits for.
func (w *fixture) saveWait(l pawl.Lease, signal, key string) {
	w.Helper()
	_, err := pawl.SaveCheckpoint(w.ctx, w.svc, l.Fence(), pawl.NewCheckpoint{Type: pawl.StateTransition, Name: "wait", Snapshot: raw(`null`),
		Metadata: raw(fmt.Sprintf(`{"signal":%q,"key":%q}`, signal, key))})
	w.ok(err, "checkpoint")
}
