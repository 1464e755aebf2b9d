package suite

import (
	"strings"
	"time"

	"github.com/pawl-work/pawl"
)

var heartbeats = noun{"heartbeats", []promise{
	{"a heartbeat extends the lease from now", func(w *fixture) {
		w.oneItem()
		l := w.claim("w1")
		for range 3 {
			w.advance(200 * time.Second)
			b := w.heartbeat(l)
			w.same(b, pawl.Beat{LeaseExpiresAt: w.now().Add(300 * time.Second), LeaseSeconds: 300, ServerTime: w.now()}, "the answer")
			got := w.item(l.ID)
			w.timeIs(got.LeaseExpiresAt, b.LeaseExpiresAt, "lease_expires_at")
			w.timeIs(got.HeartbeatAt, w.now(), "heartbeat_at")
			w.same(got.UpdatedAt, w.now(), "updated_at")
		}
		w.same(w.sweep().ExpiredFound, int64(0), "expired")
	}},
	{"a heartbeat extends the lease by the requested length", func(w *fixture) {
		w.oneItem()
		l := w.claim("w1")
		b, err := first(w.svc.Heartbeat(w.ctx, []pawl.HeartbeatCall{{Fence: l.Fence(), LeaseSeconds: 3600}}))
		w.ok(err, "heartbeat")
		w.same([]any{b.LeaseSeconds, b.LeaseExpiresAt}, []any{3600, w.now().Add(time.Hour)}, "the answer")
		w.advance(30 * time.Minute)
		b, err = first(w.svc.Heartbeat(w.ctx, []pawl.HeartbeatCall{{Fence: l.Fence()}}))
		w.ok(err, "a heartbeat of the claim's length")
		w.same([]any{b.LeaseSeconds, b.LeaseExpiresAt}, []any{300, w.now().Add(300 * time.Second)}, "the answer after it")
	}},
	{"the first heartbeat moves the item to in_progress and leaves an event; later ones do not", func(w *fixture) {
		t := w.oneItem()
		l := w.claim("w1")
		w.same(w.item(l.ID).State, pawl.ItemLeased, "state")
		for range 3 {
			w.heartbeat(l)
			w.same(w.item(l.ID).State, pawl.ItemInProgress, "state")
		}
		got := w.allEvents(pawl.EventFilter{TaskID: t.ID})
		w.same(len(got), 3, "events")
		e := got[2]
		w.same([]any{e.Event, e.FromState, e.ToState, e.TaskTo, e.Attempt, e.ActorType, e.ActorID},
			[]any{"in_progress", "leased", "in_progress", "", 1, pawl.ActorWorker, "w1"}, "the event")
	}},
	{"of many items at once", func(w *fixture) {
		w.manyItems(50)
		ls := w.claims(pawl.ClaimRequest{WorkerID: "w1", Limit: 50})
		w.advance(time.Minute)
		var calls []pawl.HeartbeatCall
		for _, l := range ls {
			calls = append(calls, pawl.HeartbeatCall{Fence: l.Fence()})
		}
		rs, err := w.svc.Heartbeat(w.ctx, calls)
		w.ok(err, "heartbeat")
		for _, r := range rs {
			w.ok(r.Err, "heartbeat")
			w.same(r.Value.LeaseExpiresAt, w.now().Add(300*time.Second), "lease_expires_at")
		}
	}},
	{"a length out of bounds is invalid", func(w *fixture) {
		w.oneItem()
		l := w.claim("w1")
		for _, seconds := range []int{-1, pawl.MaxLeaseSeconds + 1} {
			_, err := first(w.svc.Heartbeat(w.ctx, []pawl.HeartbeatCall{{Fence: l.Fence(), LeaseSeconds: seconds}}))
			w.invalid(err, "/lease_seconds")
		}
	}},
}}

var progress = noun{"progress", []promise{
	{"progress and stage are shown by the item and by a task of one", func(w *fixture) {
		t := w.oneItem()
		l := w.claim("w1")
		m, err := first(w.svc.Progress(w.ctx, []pawl.ProgressCall{{Fence: l.Fence(), Progress: ptr(40), Stage: ptr("Parsing")}}))
		w.ok(err, "progress")
		w.same([]any{m.ID, m.TaskID, m.State, m.Attempt}, []any{l.ID, t.ID, pawl.ItemInProgress, 1}, "the answer")
		i, task := w.item(l.ID), w.task(t.ID)
		w.same([]any{i.Progress, i.Stage, task.Progress, task.Stage}, []any{40, "Parsing", 40, "Parsing"}, "progress")
	}},
	{"values that are not given stay", func(w *fixture) {
		w.oneItem()
		l := w.claim("w1")
		for _, c := range []pawl.ProgressCall{{Progress: ptr(10), Stage: ptr("x")}, {Progress: ptr(20)}, {Stage: ptr("y")}, {}} {
			c.Fence = l.Fence()
			_, err := first(w.svc.Progress(w.ctx, []pawl.ProgressCall{c}))
			w.ok(err, "progress")
		}
		i := w.item(l.ID)
		w.same([]any{i.Progress, i.Stage}, []any{20, "y"}, "progress")
	}},
	{"a new stage leaves an event; the same stage and a percentage alone do not", func(w *fixture) {
		t := w.oneItem()
		l := w.claim("w1")
		w.heartbeat(l)
		for _, c := range []pawl.ProgressCall{{Progress: ptr(10), Stage: ptr("")}, {Progress: ptr(20), Stage: ptr("x")},
			{Progress: ptr(30), Stage: ptr("x")}, {Progress: ptr(40)}, {Stage: ptr("y")}} {
			c.Fence = l.Fence()
			_, err := first(w.svc.Progress(w.ctx, []pawl.ProgressCall{c}))
			w.ok(err, "progress")
		}
		got := w.allEvents(pawl.EventFilter{TaskID: t.ID, Event: "progressed"})
		w.same(len(got), 2, "events")
		for n, stage := range []string{"x", "y"} {
			e := got[n]
			w.same([]any{e.FromState, e.ToState, e.ItemID, e.Attempt, e.ActorID}, []any{"", "", l.ID, 1, "w1"}, "the event")
			if !strings.Contains(string(e.Data), `"`+stage+`"`) {
				w.Errorf("data of %s is %s", e.ID, e.Data)
			}
		}
	}},
	{"the first call moves the item to in_progress", func(w *fixture) {
		w.oneItem()
		l := w.claim("w1")
		_, err := first(w.svc.Progress(w.ctx, []pawl.ProgressCall{{Fence: l.Fence(), Progress: ptr(1)}}))
		w.ok(err, "progress")
		w.same(w.item(l.ID).State, pawl.ItemInProgress, "state")
	}},
	{"it does not extend the lease", func(w *fixture) {
		w.oneItem()
		l := w.claim("w1")
		w.advance(time.Minute)
		_, err := first(w.svc.Progress(w.ctx, []pawl.ProgressCall{{Fence: l.Fence(), Progress: ptr(1)}}))
		w.ok(err, "progress")
		w.timeIs(w.item(l.ID).LeaseExpiresAt, l.LeaseExpiresAt, "lease_expires_at")
	}},
	{"100 percent is shown only when completed", func(w *fixture) {
		t := w.oneItem()
		l := w.claim("w1")
		_, err := first(w.svc.Progress(w.ctx, []pawl.ProgressCall{{Fence: l.Fence(), Progress: ptr(100)}}))
		w.ok(err, "progress")
		if i, task := w.item(l.ID), w.task(t.ID); i.Progress == 100 || task.Progress == 100 {
			w.Errorf("progress is %d, %d before the end", i.Progress, task.Progress)
		}
		w.complete(l, `1`)
		w.same([]any{w.item(l.ID).Progress, w.task(t.ID).Progress}, []any{100, 100}, "progress")
	}},
	{"a value out of bounds is invalid", func(w *fixture) {
		w.oneItem()
		l := w.claim("w1")
		for _, p := range []int{-1, 101, 1 << 40} {
			_, err := first(w.svc.Progress(w.ctx, []pawl.ProgressCall{{Fence: l.Fence(), Progress: ptr(p)}}))
			w.invalid(err, "/progress")
		}
		_, err := first(w.svc.Progress(w.ctx, []pawl.ProgressCall{{Fence: l.Fence(), Stage: ptr(strings.Repeat("é", pawl.MaxStageLen+1))}}))
		w.invalid(err, "/stage")
		_, err = first(w.svc.Progress(w.ctx, []pawl.ProgressCall{{Fence: l.Fence(), Stage: ptr(strings.Repeat("é", pawl.MaxStageLen))}}))
		w.ok(err, "the longest stage")
	}},
}}
