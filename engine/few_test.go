package engine_test

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

// fromEndToEnd matches a plan of SQLite that scans a large table.
var fromEndToEnd = regexp.MustCompile(`(?m)^SCAN [twei]( USING|$)`)

// A list of a small namespace's items or events reads no rows of another namespace, and
// finds what a deleted task has left.
func TestListsOfASmallNamespaceReadNoOther(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ctx, e := t.Context(), p.Engine
		small := pawl.As(ctx, pawl.Caller{Namespace: "tiny"})
		for range 3 {
			need[pawl.Task](t)(pawl.Create(small, e, pawl.NewTask{Type: "t", Items: []pawl.NewItem{{}, {}}}))
		}
		gone := need[pawl.Task](t)(pawl.Create(small, e, pawl.NewTask{Type: "t"}))
		need[[]pawl.Result[pawl.Task]](t)(e.CancelTasks(small, []pawl.TaskCall{{TaskID: gone.ID}}))
		need[[]pawl.Result[string]](t)(e.DeleteTasks(small, []pawl.TaskCall{{TaskID: gone.ID}}))
		for range 5 {
			for _, r := range need[[]pawl.Result[pawl.Task]](t)(e.CreateTasks(ctx, slices.Repeat([]pawl.NewTask{{Type: "t"}}, 1000))) {
				if r.Err != nil {
					t.Fatal(r.Err)
				}
			}
		}
		if err := p.Exec("ANALYZE"); err != nil {
			t.Fatal(err)
		}
		lite, at := p.Database == pawltest.SQLite, pawl.Page{Limit: 4}
		for name, read := range map[string]func(ctx context.Context, tx store.Tx) (int, error){
			"items": func(ctx context.Context, tx store.Tx) (int, error) {
				l, err := store.ListItems(ctx, tx, "tiny", pawl.ItemFilter{Page: at}, 1)
				return len(l.Items), err
			},
			"items newest": func(ctx context.Context, tx store.Tx) (int, error) {
				l, err := store.ListItems(ctx, tx, "tiny", pawl.ItemFilter{Desc: true, Page: at}, 1)
				return len(l.Items), err
			},
			"events": func(ctx context.Context, tx store.Tx) (int, error) {
				l, err := store.ListEvents(ctx, tx, "tiny", pawl.EventFilter{Page: at})
				return len(l.Items), err
			},
			"events oldest": func(ctx context.Context, tx store.Tx) (int, error) {
				l, err := store.ListEvents(ctx, tx, "tiny", pawl.EventFilter{Asc: true, Page: at})
				return len(l.Items), err
			},
		} {
			if err := e.DB().View(ctx, func(ctx context.Context, tx store.Tx) error {
				r := &recorder{Tx: tx}
				n, err := read(ctx, r)
				if err == nil && n != at.Limit {
					t.Errorf("%s: %d rows", name, n)
				}
				for i, q := range r.queries {
					plan, failed := explain(ctx, tx, lite, q, r.args[i])
					if failed != nil {
						return failed
					}
					if most := mostRead(plan); most > 100 || lite && fromEndToEnd.MatchString(strings.Join(plan, "\n")) {
						t.Errorf("%s: it reads %.0f rows:\n%s", name, most, strings.Join(plan, "\n"))
					}
				}
				return err
			}); err != nil {
				t.Error(name, err)
			}
		}
		events := need[pawl.List[pawl.Event]](t)(e.ListEvents(small, pawl.EventFilter{}))
		if events.Items[0].Event != "deleted" || len(events.Items) != 10 {
			t.Errorf("%d events, the newest %s", len(events.Items), events.Items[0].Event)
		}
	})
}
