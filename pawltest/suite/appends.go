package suite

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
)

// own returns a checkpoint of a task itself, as an append has it.
func own(name, snapshot, onConflict string) pawl.AppendedCheckpoint {
	return pawl.AppendedCheckpoint{NewCheckpoint: pawl.NewCheckpoint{Type: pawl.CustomCheckpoint, Name: name, Snapshot: raw(snapshot)},
		OnConflict: onConflict}
}

func (w *fixture) tryAppendOwn(c pawl.CheckpointAppend) (pawl.CheckpointsAppended, error) {
	w.Helper()
	return first(w.svc.AppendCheckpoints(w.ctx, []pawl.CheckpointAppend{c}))
}

func (w *fixture) appendOwn(taskID string, cs ...pawl.AppendedCheckpoint) pawl.CheckpointsAppended {
	w.Helper()
	out, err := w.tryAppendOwn(pawl.CheckpointAppend{TaskID: taskID, Checkpoints: cs})
	w.ok(err, "append")
	return out
}

// named returns number and name of each checkpoint that a filter selects.
func (w *fixture) named(f pawl.CheckpointFilter) string {
	w.Helper()
	var out []string
	for _, c := range w.listCheckpoints(f) {
		out = append(out, fmt.Sprint(c.Sequence, " ", c.Name))
	}
	return strings.Join(out, ", ")
}

var ownAppends = noun{"appends of checkpoints", []promise{
	{"several checkpoints are appended together, with names and metadata", func(w *fixture) {
		t := w.oneItem()
		large := `"` + strings.Repeat("x", 2*pawl.MinBlobBytes) + `"`
		c := own("one", large, "")
		c.Metadata = raw(`{"k":"v"}`)
		got := w.appendOwn(t.ID, c, own("two", `2`, ""), own("", `3`, ""))
		w.same([]any{got.TaskID, got.Newest, len(got.Checkpoints), got.Checkpoints[2].Sequence}, []any{t.ID, int64(3), 3, int64(3)}, "the answer")
		list := w.listCheckpoints(pawl.CheckpointFilter{TaskID: t.ID})
		w.same([]any{list[0].ID, string(list[0].Snapshot), string(list[0].Metadata), list[1].Name, string(list[2].Snapshot), list[2].ItemID},
			[]any{got.Checkpoints[0].ID, large, `{"k":"v"}`, "two", `3`, ""}, "what was saved")
	}},
	{"an append with another expected number is refused with the current one, and saves nothing", func(w *fixture) {
		t := w.oneItem()
		expect := func(n int64) error {
			_, err := w.tryAppendOwn(pawl.CheckpointAppend{TaskID: t.ID, Expected: &n,
				Checkpoints: []pawl.AppendedCheckpoint{own("a", `1`, ""), own("b", `1`, "")}})
			return err
		}
		w.ok(expect(0), "the first")
		w.checkpoint(w.claim("w1"), pawl.CustomCheckpoint, `1`) // that of a worker counts
		e := w.refused(expect(2), pawl.CodeConflict)
		w.same([]any{e.Reason, *e.Expected}, []any{pawl.ReasonSequence, int64(3)}, "the refusal")
		w.ok(expect(3), "with the number of the refusal")
		w.same(w.named(pawl.CheckpointFilter{TaskID: t.ID}), "1 a, 2 b, 3 , 4 a, 5 b", "checkpoints")
	}},
	{"one of many appends with the same expected number is done", func(w *fixture) {
		t, zero := w.oneItem(), int64(0)
		var wg sync.WaitGroup
		var mu sync.Mutex
		done, refused := 0, 0
		for n := range 8 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				_, err := w.tryAppendOwn(pawl.CheckpointAppend{TaskID: t.ID, Expected: &zero,
					Checkpoints: []pawl.AppendedCheckpoint{own(fmt.Sprint(n), `1`, pawl.NameRefuse)}})
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					done++
				case pawl.CodeOf(err) == pawl.CodeConflict:
					refused++
				default:
					w.Errorf("append: %v", err)
				}
			}()
		}
		wg.Wait()
		w.same([]any{done, refused}, []any{1, 7}, "done and refused")
	}},
	{"a name that is taken is refused, replaced or kept", func(w *fixture) {
		t := w.oneItem()
		w.appendOwn(t.ID, own("a", `1`, pawl.NameRefuse), own("b", `1`, pawl.NameRefuse))
		_, err := w.tryAppendOwn(pawl.CheckpointAppend{TaskID: t.ID,
			Checkpoints: []pawl.AppendedCheckpoint{own("c", `1`, ""), own("b", `2`, pawl.NameRefuse)}})
		e := w.refused(err, pawl.CodeConflict)
		w.same([]any{e.Reason, e.Kept}, []any{pawl.ReasonName, []int64{2}}, "the refusal")
		got := w.appendOwn(t.ID, own("b", `3`, pawl.NameKeep), own("a", `3`, pawl.NameReplace), own("d", `3`, pawl.NameKeep))
		refs := got.Checkpoints
		w.same([]any{refs[0].Kept, refs[0].Sequence, refs[1].Sequence, refs[2].Sequence, got.Newest, got.Replaced},
			[]any{true, int64(2), int64(3), int64(4), int64(4), 1}, "the answer")
		w.same(w.named(pawl.CheckpointFilter{TaskID: t.ID}), "2 b, 3 a, 4 d", "checkpoints")
		for range 5 {
			w.appendOwn(t.ID, own("d", `5`, pawl.NameReplace))
		}
		w.same(w.named(pawl.CheckpointFilter{TaskID: t.ID}), "2 b, 3 a, 9 d", "checkpoints after replaces")
	}},
	{"a worker's checkpoint of the name is another one", func(w *fixture) {
		t := w.oneItem()
		w.save(w.claim("w1"), pawl.NewCheckpoint{Type: pawl.ToolExecuted, Name: "a", Snapshot: raw(`1`)})
		w.appendOwn(t.ID, own("a", `2`, pawl.NameRefuse))
		w.appendOwn(t.ID, own("a", `3`, pawl.NameReplace))
		w.same(w.named(pawl.CheckpointFilter{TaskID: t.ID}), "1 a, 3 a", "checkpoints")
		w.same(w.named(pawl.CheckpointFilter{TaskID: t.ID, Own: true}), "3 a", "those of the task")
	}},
	{"a task is created by its first append, and found by its key", func(w *fixture) {
		save := func(name string) pawl.CheckpointsAppended {
			out, err := w.tryAppendOwn(pawl.CheckpointAppend{Checkpoints: []pawl.AppendedCheckpoint{own(name, `1`, "")}, Create: &pawl.NewTask{
				Type: "thread", Unique: &pawl.Unique{By: pawl.UniqueByKey, Key: "t1", OnConflict: pawl.OnConflictReturn}}})
			w.ok(err, "append")
			return out
		}
		one, two := save("a"), save("b")
		w.same([]any{two.TaskID, two.Newest}, []any{one.TaskID, int64(2)}, "the second append")
		w.same(w.named(pawl.CheckpointFilter{TaskType: "thread", TaskKey: "t1", Desc: true}), "2 b, 1 a", "checkpoints by key")
		_, err := w.svc.ListCheckpoints(w.ctx, pawl.CheckpointFilter{TaskType: "thread", TaskKey: "t2"})
		w.refused(err, pawl.CodeNotFound)
		_, err = w.svc.ListCheckpoints(w.ctx, pawl.CheckpointFilter{TaskKey: "t1"})
		w.invalid(err, "/task_key")
	}},
	{"a task that has ended or is not there is refused", func(w *fixture) {
		t := w.oneItem()
		w.complete(w.claim("w1"), `1`)
		_, err := w.tryAppendOwn(pawl.CheckpointAppend{TaskID: t.ID, Checkpoints: []pawl.AppendedCheckpoint{own("a", `1`, "")}})
		w.conflict(err, "completed")
		_, err = w.tryAppendOwn(pawl.CheckpointAppend{TaskID: "tsk_nope", Checkpoints: []pawl.AppendedCheckpoint{own("a", `1`, "")}})
		w.refused(err, pawl.CodeNotFound)
	}},
	{"bad appends are refused", func(w *fixture) {
		t, minus := w.oneItem(), int64(-1)
		for pointer, c := range map[string]pawl.CheckpointAppend{
			"/checkpoints":               {TaskID: t.ID},
			"/checkpoints/0/name":        {TaskID: t.ID, Checkpoints: []pawl.AppendedCheckpoint{own("", `1`, pawl.NameKeep)}},
			"/checkpoints/1/name":        {TaskID: t.ID, Checkpoints: []pawl.AppendedCheckpoint{own("a", `1`, pawl.NameKeep), own("a", `1`, "")}},
			"/checkpoints/0/on_conflict": {TaskID: t.ID, Checkpoints: []pawl.AppendedCheckpoint{own("a", `1`, "x")}},
			"/checkpoints/1/snapshot":    {TaskID: t.ID, Checkpoints: []pawl.AppendedCheckpoint{own("a", `1`, ""), own("a", ``, "")}},
			"/expected":                  {TaskID: t.ID, Expected: &minus, Checkpoints: []pawl.AppendedCheckpoint{own("a", `1`, "")}},
			"/prune/0/keep": {TaskID: t.ID, Checkpoints: []pawl.AppendedCheckpoint{own("a", `1`, "")},
				Prune: []pawl.PruneRule{{Prefix: "a", Keep: -1}}},
			"/create": {TaskID: t.ID, Create: &pawl.NewTask{Type: "a"}, Checkpoints: []pawl.AppendedCheckpoint{own("a", `1`, "")}},
		} {
			_, err := w.tryAppendOwn(c)
			w.invalid(err, pointer)
		}
		w.same(len(w.listCheckpoints(pawl.CheckpointFilter{TaskID: t.ID})), 0, "checkpoints")
	}},
	{"names have up to 1,024 bytes, and are found by prefix", func(w *fixture) {
		t := w.oneItem()
		l := w.claim("w1")
		long := strings.Repeat("é", pawl.MaxStepNameLen/2)
		w.save(l, pawl.NewCheckpoint{Type: pawl.ToolExecuted, Name: long, Snapshot: raw(`1`)})
		w.appendOwn(t.ID, own(long, `2`, pawl.NameRefuse), own("a\U0010FFFFb", `3`, ""), own("a\uD7FFb", `4`, ""),
			own("b", `5`, ""), own("a", `6`, ""))
		_, err := w.tryAppendOwn(pawl.CheckpointAppend{TaskID: t.ID, Checkpoints: []pawl.AppendedCheckpoint{own(long+"x", `1`, "")}})
		w.invalid(err, "/checkpoints/0/name")
		for prefix, want := range map[string]int{long: 2, "a\U0010FFFF": 1, "a\uD7FF": 1, "a": 3, "": 6, "\U0010FFFF": 0} {
			w.same(len(w.listCheckpoints(pawl.CheckpointFilter{TaskID: t.ID, NamePrefix: prefix})), want, "with prefix")
		}
	}},
	{"they are read by id, number and name, with and without snapshots, also of ended tasks", func(w *fixture) {
		t := w.oneItem()
		got := w.appendOwn(t.ID, own("a/1", `{"n":1}`, ""), own("a/2", `null`, ""), own("b", `3`, ""))
		w.complete(w.claim("w1"), `1`)
		for want, f := range map[string]pawl.CheckpointFilter{
			"1 a/1, 3 b":   {IDs: []string{got.Checkpoints[2].ID, got.Checkpoints[0].ID, "ckp_none"}},
			"3 b, 2 a/2":   {Sequences: []int64{2, 3, 9}, Desc: true},
			"1 a/1":        {Names: []string{"a/1", "none"}, Own: true},
			"2 a/2":        {NamePrefix: "a/", Own: true, Desc: true, Page: pawl.Page{Limit: 1}},
			"1 a/1, 2 a/2": {NamePrefix: "a/", Own: true},
		} {
			f.TaskID = t.ID
			w.same(w.named(f), want, "selected")
		}
		brief := w.listCheckpoints(pawl.CheckpointFilter{TaskID: t.ID, Brief: true})
		w.same([]any{len(brief), brief[0].Name, string(brief[0].Snapshot) == `{"n":1}`}, []any{3, "a/1", false}, "in brief")
	}},
	{"a checkpoint is read together with those that it refers to", func(w *fixture) {
		t := w.oneItem()
		head := own("head/1", `0`, "")
		head.Metadata = raw(`{"refs":["blob/a","write/1/*","none"]}`)
		w.appendOwn(t.ID, own("blob/a", `"old"`, ""))
		w.appendOwn(t.ID, own("blob/a", `"new"`, ""), head, own("write/1/x", `1`, ""), own("write/1/y", `2`, ""), own("write/2/x", `3`, ""))
		f := pawl.CheckpointFilter{TaskID: t.ID, NamePrefix: "head/", Desc: true, Refs: true, Page: pawl.Page{Limit: 1}}
		refs := func() (out []string) {
			for _, c := range w.listCheckpoints(f)[0].Refs {
				out = append(out, c.Name+" "+string(c.Snapshot))
			}
			return out
		}
		w.same(refs(), []string{`blob/a "new"`, `write/1/x 1`, `write/1/y 2`}, "refs")
		f.Refs = false
		w.same(len(refs()), 0, "refs that were not asked for")
		_, err := w.svc.ListCheckpoints(w.ctx, pawl.CheckpointFilter{Refs: true})
		w.invalid(err, "/refs")
	}},
	{"a call that leaves rows behind says so, whatever it keeps", func(w *fixture) {
		t := w.create(pawl.NewTask{Type: "a"})
		for n := range 2 {
			var all []pawl.AppendedCheckpoint
			for i := range pawl.MaxPrunedCheckpoints/2 + 1 {
				all = append(all, own(fmt.Sprint("p/", n, "/", i), `1`, ""))
			}
			w.appendOwn(t.ID, all...)
		}
		var got []any
		for range 2 {
			out, err := first(w.svc.PruneCheckpoints(w.ctx, []pawl.CheckpointPrune{{TaskID: t.ID, Rules: []pawl.PruneRule{{Prefix: "p/"}}}}))
			w.ok(err, "prune")
			got = append(got, out.Pruned, out.More)
		}
		w.same(got, []any{pawl.MaxPrunedCheckpoints, true, 1, false}, "pruned, and whether there is more")
	}},
	{"rules keep the newest of each prefix, and leave one event", func(w *fixture) {
		t := w.oneItem()
		for n := range 6 {
			w.appendOwn(t.ID, own(fmt.Sprint("a/", n), `1`, ""), own(fmt.Sprint("b/", n), `1`, ""))
		}
		prune := func(rules ...pawl.PruneRule) pawl.CheckpointsPruned {
			out, err := first(w.svc.PruneCheckpoints(w.ctx, []pawl.CheckpointPrune{{TaskID: t.ID, Rules: rules}}))
			w.ok(err, "prune")
			return out
		}
		rules := []pawl.PruneRule{{Prefix: "a/", Keep: 2}, {Prefix: "b/", Keep: 1}}
		w.same(prune(rules...).Pruned, 9, "pruned")
		w.same(prune(rules...).Pruned, 0, "pruned again")
		w.same(w.named(pawl.CheckpointFilter{TaskID: t.ID}), "9 a/4, 11 a/5, 12 b/5", "what is left")
		w.same(len(w.allEvents(pawl.EventFilter{TaskID: t.ID, Event: "pruned"})), 1, "events")
		w.same(prune(pawl.PruneRule{Keep: 0}).Pruned, 2, "all but the newest")
		out, err := w.tryAppendOwn(pawl.CheckpointAppend{TaskID: t.ID, Checkpoints: []pawl.AppendedCheckpoint{own("b/6", `1`, "")},
			Prune: []pawl.PruneRule{{Prefix: "b/", Keep: 1}}})
		w.ok(err, "append")
		w.same([]any{out.Pruned, w.named(pawl.CheckpointFilter{TaskID: t.ID})}, []any{1, "13 b/6"}, "pruned by an append")
		w.complete(w.claim("w1"), `1`)
		w.same(prune(rules...).Pruned, 0, "of an ended task")
		_, err = first(w.svc.PruneCheckpoints(w.ctx, []pawl.CheckpointPrune{{TaskID: "tsk_nope", Rules: rules}}))
		w.refused(err, pawl.CodeNotFound)
		_, err = first(w.svc.PruneCheckpoints(w.ctx, []pawl.CheckpointPrune{{TaskID: t.ID}}))
		w.invalid(err, "/rules")
	}},
	{"a clone has all checkpoints, and is made once for a key", func(w *fixture) {
		never := pawl.Never
		t := w.create(pawl.NewTask{Type: "thread", RunAt: &never})
		large := `"` + strings.Repeat("x", 2*pawl.MinBlobBytes) + `"`
		w.appendOwn(t.ID, own("a", `1`, ""), own("b", large, ""))
		w.appendOwn(t.ID, own("a", `2`, pawl.NameReplace))
		clone := func() pawl.Task {
			got, err := first(w.svc.CloneTasks(w.ctx, []pawl.TaskClone{{TaskID: t.ID, Checkpoints: true,
				Unique: &pawl.Unique{By: pawl.UniqueByKey, Key: "copy", OnConflict: pawl.OnConflictReturn}}}))
			w.ok(err, "clone")
			return got
		}
		one, two := clone(), clone()
		w.same([]any{one.ID == t.ID, two.ID, two.Deduplicated}, []any{false, one.ID, true}, "the second call")
		w.same([]any{one.ForkedFrom, *one.ForkedAt, one.Stage}, []any{t.ID, int64(3), "Scheduled"}, "the clone")
		w.same(w.checkpointsOf(one.ID), w.checkpointsOf(t.ID), "its checkpoints")
		w.same(w.appendOwn(one.ID, own("b", `4`, pawl.NameReplace)).Newest, int64(4), "the next number")
		w.same(w.named(pawl.CheckpointFilter{TaskID: t.ID}), "2 b, 3 a", "of the older task")
		_, err := first(w.svc.CloneTasks(w.ctx, []pawl.TaskClone{{TaskID: t.ID, Checkpoints: true,
			Unique: &pawl.Unique{By: pawl.UniqueByKey, Key: "x", OnConflict: pawl.OnConflictReplace}}}))
		w.invalid(err, "/unique/on_conflict")
		plain := w.oneItem()
		got, err := first(w.svc.CloneTasks(w.ctx, []pawl.TaskClone{{TaskID: plain.ID, Checkpoints: true}}))
		w.ok(err, "clone without checkpoints")
		w.same([]any{got.ForkedFrom, *got.ForkedAt}, []any{plain.ID, int64(0)}, "a clone of one that has none")
	}},
	{"a live task that holds no work is deleted without force", func(w *fixture) {
		never := pawl.Never
		remove := func(id string) error {
			_, err := first(w.svc.DeleteTasks(w.ctx, []pawl.TaskCall{{TaskID: id}}))
			return err
		}
		thread := w.create(pawl.NewTask{Type: "thread", RunAt: &never})
		w.appendOwn(thread.ID, own("a", `1`, ""))
		w.same(len(w.claims(pawl.ClaimRequest{WorkerID: "w1", Types: []string{"thread"}})), 0, "claims of it")
		w.ok(remove(thread.ID), "delete")
		_, err := w.svc.GetTask(w.ctx, thread.ID)
		w.refused(err, pawl.CodeNotFound)

		later := w.now().Add(time.Hour)
		for says, t := range map[string]pawl.Task{
			"queued":    w.oneItem(),
			"scheduled": w.create(pawl.NewTask{Type: "a", RunAt: &later}),
			"of many":   w.create(pawl.NewTask{Type: "a", Items: []pawl.NewItem{{Input: raw(`1`), RunAt: &never}, {Input: raw(`2`)}}}),
		} {
			if e := w.refused(remove(t.ID), pawl.CodeConflict); e.State == "" || w.task(t.ID).State.Ended() {
				w.Errorf("%s: %v", says, e)
			}
		}
		grown := w.create(pawl.NewTask{Type: "thread", RunAt: &never})
		_, err = first(w.svc.AddItems(w.ctx, []pawl.AddItems{{TaskID: grown.ID, Items: []pawl.NewItem{{Input: raw(`1`)}}}}))
		w.ok(err, "add items")
		w.refused(remove(grown.ID), pawl.CodeConflict)
		far := pawl.Never.Add(time.Second)
		_, err = first(w.svc.CreateTasks(w.ctx, []pawl.NewTask{{Type: "a", RunAt: &far}}))
		w.invalid(err, "/run_at")
	}},
}}
