package suite

import (
	"errors"
	"math"
	"sync"

	"github.com/pawl-work/pawl"
)

// putType registers a type.
func (w *fixture) putType(t pawl.Type) pawl.TypeRef {
	w.Helper()
	ref, err := first(w.svc.PutTypes(w.ctx, []pawl.Type{t}))
	w.ok(err, "put type")
	return ref
}

// getType reads a type; version 0 is the current one.
func (w *fixture) getType(name string, version int) pawl.Type {
	w.Helper()
	t, err := w.svc.GetType(w.ctx, name, version)
	w.ok(err, "get type")
	return t
}

// removeType removes a type from the registry.
func (w *fixture) removeType(name string) {
	w.Helper()
	_, err := first(w.svc.RemoveTypes(w.ctx, []string{name}))
	w.ok(err, "remove type")
}

// refusals returns an error's fields as "pointer message".
func refusals(err error) []string {
	var e *pawl.Error
	if !errors.As(err, &e) || e.Code != pawl.CodeInvalid {
		return []string{"not invalid"}
	}
	var out []string
	for _, f := range e.Fields {
		out = append(out, f.Pointer+" "+f.Message)
	}
	return out
}

var types = noun{"types", []promise{
	{"a definition is a version; the same again is the same version", func(w *fixture) {
		t := pawl.Type{
			Name:         "user.data.sync",
			Description:  "Sync users",
			ResultSchema: raw(`{"type": "object", "required": ["ok"]}`),
			MaxAttempts:  5,
		}
		w.same(w.putType(t), pawl.TypeRef{Name: "user.data.sync", Version: 1}, "the first")
		w.same(w.putType(t), pawl.TypeRef{Name: "user.data.sync", Version: 1, Unchanged: true}, "the same")
		t.ResultSchema = raw(`{"required":["ok"],"type":"object"}`)
		w.same(w.putType(t).Unchanged, true, "in another order of members")
		t.MaxAttempts = 6
		w.same(w.putType(t), pawl.TypeRef{Name: "user.data.sync", Version: 2}, "a change")
		now := w.getType("user.data.sync", 0)
		w.same([]any{now.Version, now.MaxAttempts, now.Description, now.CreatedAt}, []any{2, 6, "Sync users", ptr(w.now())}, "the one that holds")
		w.same(w.getType("user.data.sync", 1).MaxAttempts, 5, "the first, later")
		for _, version := range []int{3, math.MaxInt32 + 1} {
			_, err := w.svc.GetType(w.ctx, "user.data.sync", version)
			w.refused(err, pawl.CodeNotFound)
		}
		_, err := w.svc.GetType(w.ctx, "other", 0)
		w.refused(err, pawl.CodeNotFound)
		_, err = w.in("elsewhere").svc.GetType(w.in("elsewhere").ctx, "user.data.sync", 0)
		w.refused(err, pawl.CodeNotFound)
	}},
	{"concurrent changes each become one version", func(w *fixture) {
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				if _, err := first(w.svc.PutTypes(w.ctx, []pawl.Type{{Name: "t", Priority: i % 4}})); err != nil {
					w.Error(err)
				}
			})
		}
		wg.Wait()
		all := w.types(pawl.TypeFilter{Versions: true})
		for i, t := range all {
			w.same(t.Version, len(all)-i, "versions, newest first, without a gap")
		}
	}},
	{"types are listed by name, the current version or all", func(w *fixture) {
		for _, n := range []string{"b", "a", "c"} {
			w.putType(pawl.Type{Name: n})
		}
		w.putType(pawl.Type{Name: "b", Priority: 1})
		w.removeType("c")
		names := func(f pawl.TypeFilter) (out []any) {
			for _, t := range w.types(f) {
				out = append(out, t.Name, t.Version)
			}
			return out
		}
		w.same(names(pawl.TypeFilter{}), []any{"a", 1, "b", 2}, "those that hold")
		w.same(names(pawl.TypeFilter{Versions: true, Removed: true}), []any{"a", 1, "b", 2, "b", 1, "c", 1}, "all")
		w.same(names(pawl.TypeFilter{Names: []string{"b", "c"}}), []any{"b", 2}, "by name")
	}},
	{"a removed type has no effect on new tasks, and its versions can be read", func(w *fixture) {
		w.putType(pawl.Type{Name: "t", Priority: 1})
		w.removeType("t")
		_, err := w.svc.GetType(w.ctx, "t", 0)
		w.refused(err, pawl.CodeNotFound)
		w.same(w.getType("t", 1).RemovedAt, ptr(w.now()), "removed at")
		_, err = first(w.svc.RemoveTypes(w.ctx, []string{"t"}))
		w.refused(err, pawl.CodeNotFound)
		w.same(w.putType(pawl.Type{Name: "t", Priority: 1}), pawl.TypeRef{Name: "t", Version: 2}, "put again")
	}},
	{"a definition that is wrong is refused with pointers into it", func(w *fixture) {
		_, err := first(w.svc.PutTypes(w.ctx, []pawl.Type{{
			Name: "x.plan", MaxAttempts: -1, OnItemFailure: "panic", Plan: pawl.Plan{Mode: pawl.PlanSplit, Pointer: "ids", Number: "ids"},
			Parts:    []pawl.PartRule{{Key: "a"}, {Key: "a"}},
			Approval: pawl.Approval{Mode: "maybe", By: []string{"ana"}, OnExpiry: pawl.ExpiryEscalate},
			Limits:   pawl.TypeLimits{MaxItems: 1_000_000},
		}}))
		w.same(refusals(err), []string{
			`/approval/by/0 is "ana"; it must be type/id or type/*, with a type of user, agent, worker, system, api, and an id has no slash`,
			"/approval/escalate_to is required where on_expiry is escalate",
			"/approval/expires_seconds is required where on_expiry is given",
			`/approval/mode is "maybe"; it must be one of none, auto, manual`,
			"/limits/max_items is 1000000; it must lie between 0 and 100000",
			"/max_attempts is -1; it must lie between 0 and 1000",
			"/name ends in .plan, which is kept for items that Pawl makes",
			`/on_item_failure is "panic"; it must be one of wait, cancel, ignore`,
			"/parts/1/key is there already",
			"/plan/number is the member that the chunk is put in",
			`/plan/pointer is no JSON Pointer: it begins with "/"`,
			"/plan/size is 0; it must lie between 1 and 100000",
		}, "refusals")
		_, err = first(
			w.svc.PutTypes(
				w.ctx,
				[]pawl.Type{{Name: "t", ResultSchema: raw(`{"properties":{"a":{"minLength":"x"},"b":{"$ref":"https://example.org/b.json"}}}`)}},
			),
		)
		w.same(refusals(err), []string{"/result_schema/properties/a/minLength is a string; it must be an integer"}, "a schema that is none")
		_, err = first(
			w.svc.PutTypes(w.ctx, []pawl.Type{{Name: "t", Parts: []pawl.PartRule{{Key: "a", Schema: raw(`{"$ref":"file:///etc/passwd"}`)}}}}),
		)
		w.same(
			refusals(err),
			[]string{"/parts/0/schema/$ref refers to another document; schemas are never fetched: put the definition under $defs"},
			"a schema that leads out",
		)
		w.same(len(w.types(pawl.TypeFilter{})), 0, "types")
	}},
	{"a name with a comma is refused wherever work is made of it, and lists with commas are read", func(w *fixture) {
		w.putType(pawl.Type{Name: "planned", Plan: pawl.Plan{Mode: pawl.PlanItem}})
		w.create(pawl.NewTask{Type: "planned"})
		plan := w.claims(pawl.ClaimRequest{WorkerID: "w", Types: []string{"planned.plan"}})[0]
		batch := w.create(pawl.NewTask{Type: "a", Items: make([]pawl.NewItem, 2)})
		w.create(pawl.NewTask{Type: "b"})
		before, err := w.svc.Stats(w.ctx)
		w.ok(err, "stats")
		bad := []pawl.NewItem{{Input: raw(`1`)}, {Type: "a,b", Input: raw(`2`)}}
		_, put := first(w.svc.PutTypes(w.ctx, []pawl.Type{{Name: "a,b"}}))
		_, create := pawl.Create(w.ctx, w.svc, pawl.NewTask{Type: ","})
		_, items := pawl.Create(w.ctx, w.svc, pawl.NewTask{Type: "a", Items: bad})
		_, add := first(w.svc.AddItems(w.ctx, []pawl.AddItems{{TaskID: batch.ID, Items: bad}}))
		_, drawn := pawl.Complete(w.ctx, w.svc, plan.Fence(), raw(`{"items":[{"input":1},{"type":"a,b","input":2}]}`))
		for pointer, err := range map[string]error{"/name": put, "/type": create, "/items/1/type": items, "/result/items/1/type": drawn} {
			w.same(refusals(err), []string{pointer + " contains a comma, which separates the types in a list"}, "refusals")
		}
		w.same(refusals(add), refusals(items), "refusals of items that are added")
		after, err := w.svc.Stats(w.ctx)
		w.ok(err, "stats")
		w.same(after.Events, before.Events, "events after refusals")
		page, err := w.svc.ListItems(w.ctx, pawl.ItemFilter{Types: []string{"a", "b"}})
		w.ok(err, "list")
		w.same(len(page.Items), 3, "items of both types")
		w.same(len(w.claims(pawl.ClaimRequest{WorkerID: "w", Types: []string{"a", "b"}, Limit: 5})), 3, "claims of both types")
	}},
}}

// types returns all types of a filter.
func (w *fixture) types(f pawl.TypeFilter) []pawl.Type {
	w.Helper()
	f.Limit = 2
	var all []pawl.Type
	for {
		page, err := w.svc.ListTypes(w.ctx, f)
		w.ok(err, "list types")
		all = append(all, page.Items...)
		if f.Cursor = page.Next; f.Cursor == "" {
			return all
		}
	}
}
