package matrix

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
)

// verb is something that happens to a whole task.
type verb struct {
	name string
	do   func(s *subject)
}

// verbs all leave the task, or what came of it, in a state from which drive ends it.
var verbs = []verb{
	{"goes on", func(*subject) {}},
	{"the workers die", func(s *subject) { s.p.Advance(2 * time.Hour) }},
	{"fail and retry", func(s *subject) {
		s.endLeases(s.failItem)
		_, _ = s.svc.RetryTasks(s.user, []pawl.TaskCall{{TaskID: s.task.ID}})
	}},
	{"revoke", func(s *subject) { s.endLeases(s.revoke) }},
	{"update", func(s *subject) {
		if title, priority := "another", 3; !s.get().State.Ended() {
			all(s.svc.UpdateTasks(s.user, []pawl.TaskUpdate{{TaskID: s.task.ID, Title: &title, Priority: &priority,
				Metadata: raw(`{"b":2}`)}}))
		}
	}},
	{"add items", func(s *subject) {
		if !s.get().State.Ended() {
			_, _ = s.svc.AddItems(s.user, []pawl.AddItems{{TaskID: s.task.ID, Items: []pawl.NewItem{{Key: "added", Input: raw("9")}}}})
		}
	}},
	{"a day passes", func(s *subject) { s.p.Advance(25 * time.Hour); s.sweep() }},
	{"another server goes on", func(s *subject) { s.svc = s.p.Another(engine.Options{}) }},
	{"bulk cancel", func(s *subject) { s.bulk(pawl.BulkCancel) }},
	{"bulk delete", func(s *subject) { s.bulk(pawl.BulkDelete) }},
	{"pause and resume", func(s *subject) {
		must(s.svc.PauseQueue(s.user, s.typ))
		must(0, s.svc.PauseNamespace(s.user))
		s.p.Advance(2 * time.Hour)
		s.sweep()
		must(0, s.svc.ResumeNamespace(s.user))
		must(s.svc.ResumeQueue(s.user, s.typ))
	}},
	{"prune checkpoints", func(s *subject) {
		if !s.get().State.Ended() {
			all(s.svc.PruneCheckpoints(s.user, []pawl.CheckpointPrune{{TaskID: s.task.ID, Rules: []pawl.PruneRule{{Keep: 0}}}}))
		}
	}},
	{"reject for rework", func(s *subject) {
		for range 3 {
			s.sweep()
			s.work()
		}
		if s.get().ReadyForApproval {
			why := []pawl.Complaint{{Code: "bad", Message: "bad"}}
			all(s.svc.RejectTasks(s.judge, []pawl.RejectCall{{TaskID: s.task.ID, Errors: why, AllowRework: true}}))
		}
	}},
	{"cancel", func(s *subject) { s.cancel() }},
	{"delete", func(s *subject) { s.remove() }},
	{"cancel and delete", func(s *subject) { s.cancel(); s.remove() }},
	{"replace", func(s *subject) {
		s.endLeases(s.revoke) // what a worker holds, or has failed, is not replaced
		_, err := pawl.Create(s.user, s.svc, pawl.NewTask{Type: s.typ,
			Unique: &pawl.Unique{By: pawl.UniqueByKey, Key: "k", OnConflict: pawl.OnConflictReplace}})
		if err != nil && pawl.CodeOf(err) != pawl.CodeConflict { // one that has begun is not replaced
			must(0, err)
		}
	}},
	{"fork", func(s *subject) { s.copies() }},
	{"archive and restore", func(s *subject) {
		s.drive()
		s.archive()
		s.copies()
		s.restore()
		s.copies()
	}},
	{"archive a restored one", func(s *subject) {
		for range 2 {
			s.drive()
			s.company()
			s.archive()
			s.restore()
		}
		s.remove()
	}},
}

func (s *subject) get() pawl.Task { return must(s.svc.GetTask(s.user, s.task.ID)) }

// endLeases ends each lease of the task.
func (s *subject) endLeases(end func(i pawl.Item)) {
	for _, i := range s.items() {
		if i.State.Leased() {
			end(i)
		}
	}
}

func (s *subject) items() []pawl.Item {
	return must(s.svc.ListItems(s.user, pawl.ItemFilter{TaskID: s.task.ID})).Items
}

// bulk changes all tasks of the type in the background.
func (s *subject) bulk(verb string) {
	must(s.svc.Bulk(s.user, pawl.BulkCall{Verb: verb, Force: verb == pawl.BulkDelete, Filter: pawl.BulkFilter{Type: pawl.Texts{s.typ}}}))
	must(0, s.p.Engine.RunBulks(s.ctx))
}

func (s *subject) revoke(i pawl.Item) {
	all(s.svc.RevokeLeases(s.user, []pawl.RevokeCall{{ItemID: i.ID, Reason: "no"}}))
}

func (s *subject) failItem(i pawl.Item) {
	s.fail(pawl.Lease{ID: i.ID, WorkerID: i.WorkerID, Attempt: i.Attempt}, false)
}

func (s *subject) cancel() {
	if !s.get().State.Ended() {
		all(s.svc.CancelTasks(s.user, []pawl.TaskCall{{TaskID: s.task.ID, Reason: "no"}}))
	}
}

func (s *subject) remove() {
	all(s.svc.DeleteTasks(s.user, []pawl.TaskCall{{TaskID: s.task.ID, Force: true}}))
	if _, err := s.svc.GetTask(s.user, s.task.ID); pawl.CodeOf(err) != pawl.CodeNotFound {
		s.Errorf("deleted, it answers %v", err)
	}
}

// copies forks and clones the task, with all its checkpoints and without. The original stays what it was.
func (s *subject) copies() {
	var newest int64
	before := map[string]json.RawMessage{}
	_, err := s.svc.GetTask(s.user, s.task.ID)
	archived := pawl.CodeOf(err) == pawl.CodeNotFound
	if !archived {
		before = s.everything()
		for _, c := range must(s.svc.ListCheckpoints(s.user, pawl.CheckpointFilter{TaskID: s.task.ID})).Items {
			newest = max(newest, c.Sequence)
		}
	}
	all(s.svc.ForkTasks(s.user, []pawl.TaskFork{{TaskID: s.task.ID, Checkpoint: newest}}))
	all(s.svc.CloneTasks(s.user, []pawl.TaskClone{{TaskID: s.task.ID, Checkpoints: true}}))
	if !archived {
		all(s.svc.CloneTasks(s.user, []pawl.TaskClone{{TaskID: s.task.ID}}))
		if diff := cmp.Diff(before, s.everything()); diff != "" {
			s.Errorf("its copies changed it:\n%s", diff)
		}
	}
}

// company ends another task, which goes into the same segment of the archive.
func (s *subject) company() {
	s.Helper()
	must(pawl.Create(s.user, s.svc, pawl.NewTask{Type: "company"}))
	for _, l := range s.claim(pawl.ClaimRequest{Types: []string{"company"}}, 1) {
		must(pawl.Complete(s.ctx, s.svc, l.Fence(), nil))
	}
}

// archive lets time pass until retention has removed the task, and notes what it was before.
func (s *subject) archive() {
	s.Helper()
	s.p.Advance(3 * 24 * time.Hour) // messages of ended tasks end, and failed tasks become dead-lettered
	s.sweep()
	s.kept = s.everything()
	for range 10 {
		s.p.Advance(30 * 24 * time.Hour)
		s.sweep()
		if _, err := s.svc.GetTask(s.user, s.task.ID); pawl.CodeOf(err) == pawl.CodeNotFound {
			return
		}
	}
	s.Fatalf("after 300 days it is %s and not archived", s.get().State)
}

// restore brings the task back, with its children, and compares it with what it was.
func (s *subject) restore() {
	s.Helper()
	for _, a := range must(s.svc.ListArchives(s.user, pawl.Page{})).Items {
		must(s.svc.RestoreArchive(s.user, a.TaskID))
	}
	if diff := cmp.Diff(s.kept, s.everything()); diff != "" {
		s.Errorf("restored, it is not what it was (-before +restored):\n%s", diff)
	}
}

// everything returns all that readers see of the task.
func (s *subject) everything() map[string]json.RawMessage {
	s.Helper()
	out := map[string]json.RawMessage{}
	add := func(what string, v any, err error) {
		text, errJSON := json.Marshal(v)
		if err != nil || errJSON != nil {
			text = fmt.Appendf(nil, "%q", pawl.CodeOf(err))
		}
		out[what] = text
	}
	id := s.task.ID
	task, err := s.svc.GetTask(s.user, id)
	add("task", task, err)
	result, err := s.svc.TaskResult(s.user, id)
	add("result", result, err)
	items := s.items()
	add("items", items, nil)
	for _, i := range items {
		item, err := s.svc.GetItem(s.user, i.ID)
		add("item "+i.Key, item, err)
		parts, err := s.svc.ListParts(s.user, pawl.PartFilter{ItemID: i.ID, All: true})
		add("parts of "+i.Key, parts.Items, err)
		state, err := s.svc.Resume(s.user, i.ID)
		add("resume "+i.Key, state, err)
	}
	checkpoints, err := s.svc.ListCheckpoints(s.user, pawl.CheckpointFilter{TaskID: id, Refs: true})
	add("checkpoints", checkpoints.Items, err)
	messages, err := s.svc.ListMessages(s.user, pawl.MessageFilter{TaskID: id})
	add("messages", messages.Items, err)
	events, err := s.svc.ListEvents(s.user, pawl.EventFilter{TaskID: id})
	add("events", slices.DeleteFunc(events.Items, func(e pawl.Event) bool { return e.Event == "restored" }), err)
	provenance, err := s.svc.ListProvenance(s.user, pawl.ProvenanceFilter{TaskID: id})
	add("provenance", provenance.Items, err)
	add("effects", s.effects(pawl.EffectFilter{TaskID: id}), nil)
	for _, b := range s.blobs {
		blob, content, err := s.svc.OpenBlob(s.user, b)
		add("blob "+b, blob.Size, err)
		if err == nil {
			text, err := io.ReadAll(content)
			add("bytes of "+b, string(text), err)
			_ = content.Close()
		}
	}
	return out
}
