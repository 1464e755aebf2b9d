package engine_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

var errUndo = errors.New("undo")

// columns lists the columns of a table and whether they hold text.
func columns(ctx context.Context, t *testing.T, p *pawltest.Pawl, tx store.Tx, table string) map[string]bool {
	t.Helper()
	query, args := "SELECT name, type = 'TEXT' FROM pragma_table_info($1)", []any{table}
	if p.Database == pawltest.Postgres {
		query, args = "SELECT column_name, data_type = 'text' FROM information_schema.columns WHERE table_name = $1 AND table_schema = $2",
			append(args, p.Schema)
	}
	rows := need[store.Rows](t)(tx.Query(ctx, query, args...))
	defer rows.Close()
	out := map[string]bool{}
	for rows.Next() {
		var name string
		var text bool
		if err := rows.Scan(&name, &text); err != nil {
			t.Fatal(err)
		}
		out[name] = text
	}
	return out
}

// Every column of an item's row stays as it is when the item gets another priority or
// when other items come to depend on it, except for the columns listed here.
func TestItemsKeepEveryColumn(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		s := newScene(t, p)
		changes := map[string]func(ctx context.Context, tx store.Tx, id string) error{
			"priority": func(ctx context.Context, tx store.Tx, id string) error {
				task := need[pawl.Item](t)(p.Service.GetItem(ctx, id)).TaskID
				_, err := store.Reprioritize(ctx, tx, []string{task}, 7)
				return err
			},
			"dependents": func(ctx context.Context, tx store.Tx, id string) error {
				_, err := store.DependencyAdded(ctx, tx, []string{id})
				return err
			},
		}
		for place, id := range s.ids {
			if place == "finished_items" {
				continue
			}
			for name, change := range changes {
				err := p.Engine.DB().Do(t.Context(), func(ctx context.Context, tx store.Tx) error {
					all := columns(ctx, t, p, tx, place)
					row := func() string {
						var b strings.Builder
						for _, column := range slices.Sorted(maps.Keys(all)) {
							if column == "priority" || column == "rank" || column == "feeds" {
								continue
							}
							var v string
							found, err := store.Row(ctx, tx, []any{&v},
								fmt.Sprintf("SELECT CAST(%s AS TEXT) FROM pawl.%s WHERE item_id = $1", column, place), store.ItemID(id))
							if err != nil || !found {
								t.Errorf("%s.%s: %v, %v", place, column, found, err)
							}
							fmt.Fprintf(&b, "%s=%s ", column, v)
						}
						return b.String()
					}
					for column, text := range all {
						if column == "item_id" || column == "task_id" { // never NULL
							continue
						}
						value := "1"
						if text {
							value = "'x'"
						}
						if _, err := tx.Exec(ctx, fmt.Sprintf("UPDATE pawl.%s SET %s = %s WHERE item_id = $1 AND %s IS NULL", place, column, value,
							column), store.ItemID(id)); err != nil {
							t.Errorf("%s.%s: %v", place, column, err)
						}
					}
					before := row()
					if err := change(ctx, tx, id); err != nil {
						t.Errorf("%s of an item in %s: %v", name, place, err)
					}
					if after := row(); after != before {
						t.Errorf("%s of an item in %s:\n%s\n%s", name, place, before, after)
					}
					return errUndo
				})
				if !errors.Is(err, errUndo) {
					t.Fatal(err)
				}
			}
		}
	})
}

// Wrong counts of the dependencies of an item are corrected by the sweep, whatever made
// them wrong. The sweep leaves an event about it.
func TestSweepMendsCountsOfWhatItemsWaitFor(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		create := func(typ string) (string, pawl.Lease) {
			task := need[pawl.Task](t)(pawl.Create(t.Context(), p.Service, pawl.NewTask{Type: typ, MaxAttempts: 1, Items: []pawl.NewItem{
				{Input: []byte(`1`), Key: "a"}, {Input: []byte(`2`), Key: "b", After: []string{"a"}}}}))
			return task.ID, leases(t, p.Service, pawl.ClaimRequest{WorkerID: "w", Types: []string{typ}}, 1)[0]
		}
		fed, l := create("completes")
		broken, f := create("fails")
		right, _ := create("runs")
		for _, q := range []string{"UPDATE pawl.waiting SET needs = needs + 1 WHERE queue_id = @queue('default', 'completes')",
			"UPDATE pawl.waiting SET broken = -1 WHERE queue_id = @queue('default', 'fails')"} {
			if err := p.Exec(q); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(finish(p.Service, l.Fence()), ruin(p.Service, f.Fence())); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{fed + " open completed waiting", broken + " open failed waiting"} {
			id, _, _ := strings.Cut(want, " ")
			if got := states(t, p.Service, id); !strings.HasSuffix(want, got[strings.Index(got, " "):]) {
				t.Errorf("before the sweep %s, want %s", got, want)
			}
		}
		need[pawl.SweepStats](t)(p.Service.Sweep(t.Context()))
		for id, want := range map[string]string{fed: "completed queued 1", broken: "failed failed 1", right: "leased waiting 0"} {
			_, got, _ := strings.Cut(states(t, p.Service, id), " ")
			events := need[pawl.List[pawl.Event]](t)(p.Service.ListEvents(t.Context(), pawl.EventFilter{TaskID: id, Event: "updated"}))
			if got = fmt.Sprint(got, " ", len(events.Items)); got != want {
				t.Errorf("%s, want %s", got, want)
			}
		}
	})
}
