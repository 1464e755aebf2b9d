package engine_test

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/internal/idform"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

// Every exported method of the engine that takes the id of a task or an item takes a UUID: it
// calls package idform before it does anything else.
func TestEveryMethodTakesUUIDs(t *testing.T) {
	calls, named := methodsOfEngine(t)
	of := reflect.TypeFor[*engine.Engine]()
	for n := range of.NumMethod() {
		m := of.Method(n)
		has := slices.ContainsFunc(named[m.Name], func(name string) bool { return name == "taskID" || name == "itemID" || name == "id" }) &&
			!strings.Contains(m.Name, "Message") && !strings.Contains(m.Name, "APIKey") && !strings.Contains(m.Name, "Effect")
		for i := 1; i < m.Type.NumIn(); i++ {
			in := m.Type.In(i)
			if in.Kind() == reflect.Slice {
				in = in.Elem()
			}
			has = has || idform.Has(in)
			for f := 0; in.Kind() == reflect.Struct && f < in.NumField(); f++ {
				scope := in.Field(f).Type
				has = has || scope.Kind() == reflect.Pointer && idform.Has(scope.Elem())
			}
		}
		if has != calls[m.Name] {
			t.Errorf("Engine.%s: takes ids: %v, calls idform: %v", m.Name, has, calls[m.Name])
		}
	}
}

// methodsOfEngine returns which methods call package idform in their first statement, and the
// names of all methods' parameters.
func methodsOfEngine(t *testing.T) (calls map[string]bool, named map[string][]string) {
	t.Helper()
	calls, named = map[string]bool{}, map[string][]string{}
	files, err := filepath.Glob("*.go")
	rooms, errRooms := filepath.Glob("internal/*/*.go") // a room's type has the name of its folder
	if err := errors.Join(err, errRooms); err != nil {
		t.Fatal(err)
	}
	for _, name := range append(files, rooms...) {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv == nil || len(f.Body.List) == 0 {
				continue
			}
			star, ok := f.Recv.List[0].Type.(*ast.StarExpr)
			if !ok {
				continue
			}
			on, ok := star.X.(*ast.Ident)
			if !ok || on.Name != "Engine" && !strings.EqualFold(on.Name, filepath.Base(filepath.Dir(name))) {
				continue
			}
			for _, p := range f.Type.Params.List {
				for _, n := range p.Names {
					named[f.Name.Name] = append(named[f.Name.Name], n.Name)
				}
			}
			ast.Inspect(f.Body.List[0], func(n ast.Node) bool {
				if sel, ok := n.(*ast.SelectorExpr); ok {
					if id, ok := sel.X.(*ast.Ident); ok && id.Name == "idform" {
						calls[f.Name.Name] = true
					}
				}
				return true
			})
		}
	}
	return calls, named
}

// asUUID returns the UUID of an id, in upper case.
func asUUID(t *testing.T, id string) string {
	t.Helper()
	b, ok := store.TaskID(id).Bytes()
	if strings.HasPrefix(id, "itm_") {
		b, ok = store.ItemID(id).Bytes()
	}
	if !ok {
		t.Fatal(id)
	}
	h := strings.ToUpper(hex.EncodeToString(b[:]))
	return strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:]}, "-")
}

// A life with UUIDs alone: every answer has the texts.
func TestALifeWithUUIDs(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ctx, svc := t.Context(), p.Service
		task := must(pawl.Create(ctx, svc, pawl.NewTask{Type: "a", Items: []pawl.NewItem{{Key: "x"}, {Key: "y"}, {Key: "z"}}}))
		items := must(svc.ListItems(ctx, pawl.ItemFilter{TaskID: asUUID(t, task.ID)})).Items
		if len(items) != 3 || must(svc.GetTask(ctx, asUUID(t, task.ID))).ID != task.ID {
			t.Fatalf("%+v", items)
		}
		first := asUUID(t, items[0].ID)
		lease := must(svc.Claim(ctx, pawl.ClaimRequest{WorkerID: "w", ItemID: first}))
		if len(lease) != 1 || lease[0].ID != items[0].ID {
			t.Fatalf("%+v", lease)
		}
		// the same item in both forms is one item
		f := pawl.Fence{ItemID: items[0].ID, WorkerID: "w", Attempt: 1}
		u := f
		u.ItemID = first
		for _, r := range must(svc.Heartbeat(ctx, []pawl.HeartbeatCall{{Fence: f}, {Fence: u}})) {
			if r.Err != nil {
				t.Error(r.Err)
			}
		}
		rs := must(svc.Complete(ctx, []pawl.CompleteCall{{Fence: u, Result: json.RawMessage("1")}, {Fence: f}}))
		if rs[0].Err != nil || rs[0].Value.ID != items[0].ID || pawl.CodeOf(rs[1].Err) != pawl.CodeConflict {
			t.Errorf("%+v", rs)
		}
		given := []pawl.TaskCall{{TaskID: asUUID(t, task.ID), ItemIDs: []string{asUUID(t, items[1].ID)}}}
		if r := must(svc.CancelTasks(ctx, given))[0]; r.Err != nil || r.Value.ID != task.ID {
			t.Error(r)
		}
		if given[0].ItemIDs[0] != asUUID(t, items[1].ID) {
			t.Error("the caller's call was changed")
		}
		for n, want := range []pawl.ItemState{pawl.ItemCompleted, pawl.ItemCancelled, pawl.ItemQueued} {
			if it := must(svc.GetItem(ctx, asUUID(t, items[n].ID))); it.State != want || it.ID != items[n].ID {
				t.Errorf("%+v is to be %s", it, want)
			}
		}
		l := must(svc.ListItems(ctx, pawl.ItemFilter{IDs: []string{first, items[2].ID}}))
		if len(l.Items) != 2 {
			t.Errorf("%+v", l)
		}
		if _, err := svc.GetItem(ctx, asUUID(t, task.ID)); pawl.CodeOf(err) != pawl.CodeNotFound {
			t.Error(err)
		}
	})
}

func must[V any](v V, err error) V {
	if err != nil {
		panic(err)
	}
	return v
}
