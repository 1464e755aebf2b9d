package suite

import (
	"fmt"
	"strings"

	"github.com/pawl-work/pawl"
)

// stringOf returns a JSON string of n bytes.
func stringOf(n int) string { return `"` + strings.Repeat("x", n-2) + `"` }

// tooLarge checks that the field was refused for its size.
func (w *fixture) tooLarge(err error, pointer string) {
	w.Helper()
	if pawl.CodeOf(err) != pawl.CodeTooLarge {
		w.invalid(err, pointer)
	}
}

var limits = noun{"limits of a task", []promise{
	{"a value over a limit is invalid, and the field is named", func(w *fixture) {
		for _, bad := range []struct {
			pointer string
			task    pawl.NewTask
		}{
			{"/type", pawl.NewTask{}},
			{"/type", pawl.NewTask{Type: strings.Repeat("t", pawl.MaxTypeLen+1)}},
			{"/title", pawl.NewTask{Type: "a", Title: strings.Repeat("é", pawl.MaxTitleLen+1)}},
			{"/payload", pawl.NewTask{Type: "a", Payload: raw(`{"a":`)}},
			{"/payload", pawl.NewTask{Type: "a", Payload: raw(`1 2`)}},
			{"/payload", pawl.NewTask{Type: "a", Payload: raw(``)}},
			{"/metadata", pawl.NewTask{Type: "a", Metadata: raw(`[]`)}},
			{"/metadata", pawl.NewTask{Type: "a", Metadata: raw(`{`)}},
			{"/metadata", pawl.NewTask{Type: "a", Metadata: raw(`{"a":` + stringOf(pawl.MaxMetadataBytes) + `}`)}},
			{"/priority", pawl.NewTask{Type: "a", Priority: pawl.MaxPriority + 1}},
			{"/priority", pawl.NewTask{Type: "a", Priority: pawl.MinPriority - 1}},
			{"/priority", pawl.NewTask{Type: "a", Priority: 1 << 40}},
			{"/max_attempts", pawl.NewTask{Type: "a", MaxAttempts: -1}},
			{"/max_attempts", pawl.NewTask{Type: "a", MaxAttempts: pawl.MaxAttemptsCeiling + 1}},
			{"/input_hash", pawl.NewTask{Type: "a", InputHash: strings.Repeat("h", 65)}},
			{"/items/1/input", pawl.NewTask{Type: "a", Items: []pawl.NewItem{{Input: raw(`1`)}, {Input: raw(`{`)}}}},
			{"/items/0/type", pawl.NewTask{Type: "a", Items: []pawl.NewItem{{Input: raw(`1`), Type: strings.Repeat("t", pawl.MaxTypeLen+1)}}}},
			{"/items/1/priority", pawl.NewTask{Type: "a", Items: []pawl.NewItem{{Input: raw(`1`)}, {Input: raw(`1`), Priority: ptr(1 << 20)}}}},
			{"/items/0/key", pawl.NewTask{Type: "a", Items: []pawl.NewItem{{Input: raw(`1`), Key: strings.Repeat("k", pawl.MaxKeyLen+1)}}}},
			{"/items/0/max_attempts", pawl.NewTask{Type: "a", Items: []pawl.NewItem{{Input: raw(`1`), MaxAttempts: -1}}}},
		} {
			if string(bad.task.Payload) == "" && bad.task.Payload != nil {
				bad.task.Payload = raw(" ")
			}
			_, err := pawl.Create(w.ctx, w.svc, bad.task)
			w.invalid(err, bad.pointer)
		}
		w.same(w.titles(pawl.TaskFilter{}), "", "tasks made")
	}},
	{"a value at a limit is valid", func(w *fixture) {
		var items []pawl.NewItem
		for _, p := range []int{pawl.MinPriority, pawl.MaxPriority} {
			items = append(
				items,
				pawl.NewItem{
					Input:       raw(`1`),
					Priority:    ptr(p),
					Key:         strings.Repeat("é", pawl.MaxKeyLen-1) + fmt.Sprint(len(items)),
					MaxAttempts: pawl.MaxAttemptsCeiling,
				},
			)
		}
		t := w.create(pawl.NewTask{
			Type: strings.Repeat("t", pawl.MaxTypeLen), Title: strings.Repeat("é", pawl.MaxTitleLen), Payload: raw(stringOf(pawl.MaxPayloadBytes)),
			Metadata: raw(`{"a":` + stringOf(pawl.MaxMetadataBytes-6) + `}`), InputHash: strings.Repeat("h", 64), Items: items,
		})
		w.same(asCreated(w.task(t.ID)), t, "the task")
	}},
	{"a payload over a mebibyte is too large", func(w *fixture) {
		_, err := pawl.Create(w.ctx, w.svc, pawl.NewTask{Type: "a", Payload: raw(stringOf(pawl.MaxPayloadBytes + 1))})
		w.tooLarge(err, "/payload")
		_, err = pawl.Create(w.ctx, w.svc, pawl.NewTask{Type: "a", Items: []pawl.NewItem{{Input: raw(stringOf(pawl.MaxPayloadBytes + 1))}}})
		w.tooLarge(err, "/items/0/input")
	}},
	{"values are nested at most 500 levels deep", func(w *fixture) {
		nested := func(n int, inside string) []byte {
			return raw(strings.Repeat(`{"a":`, n) + inside + strings.Repeat(`}`, n))
		}
		over, at := nested(pawl.MaxDepth+1, "1"), nested(pawl.MaxDepth, "1")
		for _, bad := range []struct {
			pointer string
			task    pawl.NewTask
		}{
			{"/payload", pawl.NewTask{Type: "a", Payload: over}},
			{"/payload", pawl.NewTask{Type: "a", Payload: nested(6000, `"\u0000"`)}},
			{"/payload", pawl.NewTask{Type: "a", Payload: nested(20_000, `1`)}},
			{"/payload/a/a", pawl.NewTask{Type: "a", Payload: nested(2, `"\u0000"`)}},
			{"/payload/a", pawl.NewTask{Type: "a", Payload: nested(1, `"x\ud83d"`)}},
			{"/payload/a", pawl.NewTask{Type: "a", Payload: nested(1, `"\ude00"`)}},
			{"/metadata", pawl.NewTask{Type: "a", Metadata: over}},
			{"/items/1/input", pawl.NewTask{Type: "a", Items: []pawl.NewItem{{Input: raw(`1`)}, {Input: over}}}},
		} {
			_, err := pawl.Create(w.ctx, w.svc, bad.task)
			w.invalid(err, bad.pointer)
		}
		t := w.create(pawl.NewTask{Type: "a", Payload: at, Metadata: at})
		w.same(w.task(t.ID).Metadata, t.Metadata, "the metadata")
		l := w.claim("w1")
		_, err := pawl.Complete(w.ctx, w.svc, l.Fence(), over)
		w.invalid(err, "/result")
		_, err = pawl.SaveCheckpoint(w.ctx, w.svc, l.Fence(), pawl.NewCheckpoint{Type: pawl.CustomCheckpoint, Snapshot: over})
		w.invalid(err, "/snapshot")
		_, err = pawl.Signal(w.ctx, w.svc, "s", "k", over)
		w.invalid(err, "/payload")
		_, err = pawl.Complete(w.ctx, w.svc, l.Fence(), raw(`["\ud83d\ude00","\ud83d"]`))
		w.invalid(err, "/result/1")
		_, err = pawl.Complete(w.ctx, w.svc, l.Fence(), at)
		w.ok(err, "completing")
		w.same(w.titles(pawl.TaskFilter{Metadata: map[string]string{"b": "c"}}), "", "tasks by metadata")
	}},
	{"a dedupe names at most 16 pointers", func(w *fixture) {
		pointers := make([]string, pawl.MaxDedupePointers+1)
		for i := range pointers {
			pointers[i] = "/a"
		}
		_, err := pawl.Create(w.ctx, w.svc, pawl.NewTask{Type: "a", Payload: raw(`{"a":1}`), Dedupe: pawl.Dedupe{Pointers: pointers}})
		w.invalid(err, "/dedupe")
		first := w.create(pawl.NewTask{Type: "a", Payload: raw(`{"a":1}`), Dedupe: pawl.Dedupe{Pointers: pointers[1:]}})
		w.same(
			w.create(pawl.NewTask{Type: "a", Payload: raw(`{"a":1,"b":2}`), Dedupe: pawl.Dedupe{Pointers: pointers[1:]}}).ID,
			first.ID,
			"the task",
		)
	}},
	{"all errors are reported at once", func(w *fixture) {
		_, err := pawl.Create(w.ctx, w.svc, pawl.NewTask{Priority: 1 << 20, MaxAttempts: -1})
		for _, pointer := range []string{"/type", "/priority", "/max_attempts"} {
			w.invalid(err, pointer)
		}
	}},
	{"too many calls at once are refused whole", func(w *fixture) {
		calls := make([]pawl.NewTask, pawl.MaxItemsPerCall+1)
		for n := range calls {
			calls[n].Type = "a"
		}
		_, err := w.svc.CreateTasks(w.ctx, calls)
		if code := pawl.CodeOf(err); code != pawl.CodeInvalid && code != pawl.CodeTooLarge && code != pawl.CodeLimit {
			w.Errorf("error is %v", err)
		}
		w.same(w.titles(pawl.TaskFilter{}), "", "tasks made")
	}},
}}

var limitsOfWork = noun{"limits of a worker's calls", []promise{
	{"a value over a limit is refused and nothing is stored", func(w *fixture) {
		t := w.oneItem()
		l := w.claim("w1")
		over := raw(stringOf(pawl.MaxPayloadBytes + 1))
		before := w.taskData(t.ID)
		_, err := pawl.Complete(w.ctx, w.svc, l.Fence(), over)
		w.tooLarge(err, "/result")
		_, err = pawl.Complete(w.ctx, w.svc, l.Fence(), raw(`{"a"`))
		w.invalid(err, "/result")
		save := func(c pawl.NewCheckpoint) error {
			_, err := pawl.SaveCheckpoint(w.ctx, w.svc, l.Fence(), c)
			return err
		}
		w.tooLarge(save(pawl.NewCheckpoint{Type: pawl.CustomCheckpoint, Snapshot: over}), "/snapshot")
		w.invalid(save(pawl.NewCheckpoint{Type: pawl.CustomCheckpoint, Snapshot: raw(`{`)}), "/snapshot")
		w.invalid(save(pawl.NewCheckpoint{Type: pawl.CustomCheckpoint}), "/snapshot")
		w.invalid(
			save(pawl.NewCheckpoint{Type: pawl.CustomCheckpoint, Snapshot: raw(`1`), Name: strings.Repeat("n", pawl.MaxStepNameLen+1)}),
			"/name",
		)
		w.invalid(save(pawl.NewCheckpoint{Type: pawl.CustomCheckpoint, Snapshot: raw(`1`), Metadata: raw(`nope`)}), "/metadata")
		_, err = first(
			w.svc.Fail(w.ctx, []pawl.FailCall{{Fence: l.Fence(), Error: pawl.Failure{Message: "x", Detail: raw(stringOf(pawl.MaxErrorBytes + 1))}}}),
		)
		if code := pawl.CodeOf(err); code != pawl.CodeInvalid && code != pawl.CodeTooLarge {
			w.Errorf("an oversize error: %v", err)
		}
		w.same(w.taskData(t.ID), before, "the scene")
	}},
	{"a value at a limit is valid", func(w *fixture) {
		t := w.oneItem()
		l := w.claim("w1")
		w.checkpoint(l, pawl.CustomCheckpoint, stringOf(pawl.MaxPayloadBytes))
		w.complete(l, stringOf(pawl.MaxPayloadBytes))
		w.same(len(w.onlyItem(t.ID).Result), pawl.MaxPayloadBytes, "result")
	}},
	{"a worker's id may be long, but not longer", func(w *fixture) {
		w.manyItems(2)
		name := strings.Repeat("é", pawl.MaxIDLen)
		w.heartbeat(w.claim(name))
		_, err := w.svc.Claim(w.ctx, pawl.ClaimRequest{WorkerID: name + "é"})
		w.invalid(err, "/worker_id")
	}},
}}

var badText = noun{"NUL and invalid UTF-8", []promise{
	{"are refused in every text of a task", func(w *fixture) {
		for _, bad := range []string{"a\x00b", "a\xffb", "\xc0\x80", "\xed\xa0\x80"} {
			json := raw(`"` + bad + `"`)
			for _, c := range []struct {
				pointer string
				task    pawl.NewTask
			}{
				{"/type", pawl.NewTask{Type: bad}},
				{"/title", pawl.NewTask{Type: "a", Title: bad}},
				{"/payload", pawl.NewTask{Type: "a", Payload: json}},
				{"/input_hash", pawl.NewTask{Type: "a", InputHash: bad}},
				{"/metadata", pawl.NewTask{Type: "a", Metadata: raw(`{"a":` + string(json) + `}`)}},
				{"/requested_by/id", pawl.NewTask{Type: "a", RequestedBy: &pawl.Requester{Type: "user", ID: bad}}},
				{"/requested_by/type", pawl.NewTask{Type: "a", RequestedBy: &pawl.Requester{Type: bad, ID: "x"}}},
				{"/items/0/input", pawl.NewTask{Type: "a", Items: []pawl.NewItem{{Input: json}}}},
				{"/items/0/key", pawl.NewTask{Type: "a", Items: []pawl.NewItem{{Input: raw(`1`), Key: bad}}}},
				{"/items/0/type", pawl.NewTask{Type: "a", Items: []pawl.NewItem{{Input: raw(`1`), Type: bad}}}},
			} {
				_, err := pawl.Create(w.ctx, w.svc, c.task)
				w.invalid(err, c.pointer)
			}
		}
		w.same(w.titles(pawl.TaskFilter{}), "", "tasks made")
	}},
	{"neither has the name of a requester a slash, as that of no actor has", func(w *fixture) {
		t := w.oneItem()
		boss := &pawl.Requester{Type: "user", ID: "user/boss"}
		_, err := pawl.Create(w.ctx, w.svc, pawl.NewTask{Type: "a", RequestedBy: boss})
		w.invalid(err, "/requested_by/id")
		_, err = first(w.svc.CloneTasks(w.ctx, []pawl.TaskClone{{TaskID: t.ID, RequestedBy: boss}}))
		w.invalid(err, "/requested_by/id")
		_, err = first(w.svc.Spawn(w.ctx, []pawl.SpawnCall{{Fence: w.claim("w").Fence(), Key: "k",
			Task: pawl.NewTask{Type: "a", RequestedBy: boss}}}))
		w.refused(err, pawl.CodeInvalid)
		_, err = w.svc.CreateSchedule(w.ctx, pawl.NewSchedule{Name: "s", Cron: "@daily", Task: pawl.NewTask{Type: "a", RequestedBy: boss}})
		w.refused(err, pawl.CodeInvalid)
	}},
	{"are refused in every text of a worker", func(w *fixture) {
		t := w.oneItem()
		l := w.claim("w1")
		before := w.taskData(t.ID)
		for _, bad := range []string{"a\x00b", "a\xffb"} {
			json := raw(`"` + bad + `"`)
			_, err := pawl.Complete(w.ctx, w.svc, l.Fence(), json)
			w.invalid(err, "/result")
			_, err = pawl.SaveCheckpoint(w.ctx, w.svc, l.Fence(), pawl.NewCheckpoint{Type: pawl.CustomCheckpoint, Snapshot: json})
			w.invalid(err, "/snapshot")
			_, err = pawl.SaveCheckpoint(w.ctx, w.svc, l.Fence(), pawl.NewCheckpoint{Type: pawl.CustomCheckpoint, Snapshot: raw(`1`), Name: bad})
			w.invalid(err, "/name")
			_, err = first(w.svc.Progress(w.ctx, []pawl.ProgressCall{{Fence: l.Fence(), Stage: &bad}}))
			w.invalid(err, "/stage")
			_, err = first(w.svc.Suspend(w.ctx, []pawl.SuspendCall{{Fence: l.Fence(), Signal: bad}}))
			w.invalid(err, "/signal")
			_, err = w.svc.Claim(w.ctx, pawl.ClaimRequest{WorkerID: bad})
			w.invalid(err, "/worker_id")
			_, err = first(w.svc.CancelTasks(w.ctx, []pawl.TaskCall{{TaskID: t.ID, Reason: bad}}))
			w.invalid(err, "/reason")
		}
		w.same(w.taskData(t.ID), before, "the scene")
	}},
	{"in the text of an error they are replaced, not refused: the failure is recorded", func(w *fixture) {
		t := w.oneItem()
		for _, bad := range []string{"a\x00b", "a\xffb"} {
			_, err := first(
				w.svc.Fail(w.ctx, []pawl.FailCall{{Fence: w.claim("w1").Fence(), Error: pawl.Failure{Message: bad}, RetryAfterMS: ptr(int64(0))}}),
			)
			if err == nil {
				if i := w.onlyItem(t.ID); i.Error == nil || i.Error.Message == "" {
					w.Errorf("error is %v", i.Error)
				}
				continue
			}
			w.refused(err, pawl.CodeInvalid) // a clear refusal is right too
			w.release(pawl.Lease{ID: w.onlyItem(t.ID).ID, WorkerID: "w1", Attempt: w.onlyItem(t.ID).Attempt})
		}
	}},
	{"an id that contains them is not found, never an internal error", func(w *fixture) {
		for _, id := range []string{"", "x", "a\x00b", "a\xffb", "' OR 1=1 --", "tsk_", "itm_%", strings.Repeat("z", 10_000),
			"tsk_01ARZ3NDEKTSV4RRFFQ69G5FAV:retry"} {
			for name, err := range w.byID(id) {
				if code := pawl.CodeOf(err); code != pawl.CodeNotFound && code != pawl.CodeInvalid {
					w.Errorf("%s of %.20q: %v", name, id, err)
				}
			}
			if ls, err := w.svc.Claim(w.ctx, pawl.ClaimRequest{WorkerID: "w1", ItemID: id, TaskID: id, Types: []string{id}}); len(ls) > 0 ||
				pawl.CodeOf(err) == pawl.CodeInternal {
				w.Errorf("claim of %.20q: %v, %v", id, ls, err)
			}
			if list, err := w.svc.ListEvents(w.ctx, pawl.EventFilter{TaskID: id, ItemID: id, Event: id}); len(list.Items) > 0 ||
				pawl.CodeOf(err) == pawl.CodeInternal {
				w.Errorf("events of %.20q: %v, %v", id, list, err)
			}
			if list, err := w.svc.ListItems(w.ctx, pawl.ItemFilter{IDs: []string{id}, TaskID: id, WorkerID: id, Types: []string{id}}); len(
				list.Items,
			) > 0 ||
				pawl.CodeOf(err) == pawl.CodeInternal {
				w.Errorf("items of %.20q: %v, %v", id, list, err)
			}
			if list, err := w.svc.ListTasks(w.ctx, pawl.TaskFilter{IDs: []string{id}, Types: []string{id}}); len(list.Items) > 0 ||
				pawl.CodeOf(err) == pawl.CodeInternal {
				w.Errorf("tasks of %.20q: %v, %v", id, list, err)
			}
		}
	}},
}}

// byID calls every verb that names a task or an item by id.
func (w *fixture) byID(id string) map[string]error {
	out := map[string]error{}
	_, out["get task"] = w.svc.GetTask(w.ctx, id)
	_, out["get item"] = w.svc.GetItem(w.ctx, id)
	_, out["result"] = w.svc.TaskResult(w.ctx, id)
	_, out["resume"] = w.svc.Resume(w.ctx, id)
	_, out["resume page"] = w.svc.ResumePage(w.ctx, id, "")
	_, out["cancel"] = first(w.svc.CancelTasks(w.ctx, []pawl.TaskCall{{TaskID: id}}))
	_, out["retry"] = first(w.svc.RetryTasks(w.ctx, []pawl.TaskCall{{TaskID: id}}))
	_, out["bury"] = first(w.svc.BuryTasks(w.ctx, []pawl.TaskCall{{TaskID: id}}))
	_, out["delete"] = first(w.svc.DeleteTasks(w.ctx, []pawl.TaskCall{{TaskID: id}}))
	_, out["restore"] = w.svc.RestoreArchive(w.ctx, id)
	_, out["add items"] = first(w.svc.AddItems(w.ctx, []pawl.AddItems{{TaskID: id, Items: []pawl.NewItem{{Input: raw(`1`)}}}}))
	_, out["checkpoint"] = first(
		w.svc.CheckpointTasks(
			w.ctx,
			[]pawl.TaskCheckpoint{{TaskID: id, NewCheckpoint: pawl.NewCheckpoint{Type: pawl.CustomCheckpoint, Snapshot: raw(`1`)}}},
		),
	)
	for _, v := range verbs {
		out["item's "+v.name] = v.call(w, pawl.Fence{ItemID: id, WorkerID: "w1", Attempt: 1})
	}
	return out
}
