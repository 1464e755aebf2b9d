package engine_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

// identified is a database with a row of random ids, and of the first and the last one, in a
// table that a view shows. The ids are in order.
func identified(t *testing.T, p *pawltest.Pawl) (ids []store.TaskID) {
	t.Helper()
	ids = []store.TaskID{store.FromTask(""), store.LastTask}
	for range 300 {
		var b [16]byte
		_, _ = rand.Read(b[:]) // never fails
		var id store.TaskID
		id.SetBytes(b)
		ids = append(ids, id)
	}
	for _, id := range ids {
		err := p.Exec("INSERT INTO pawl.task_results (task_id, namespace, payload, created_at) VALUES ($1, 'default', '1', 1)", id)
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { // before the rules are checked: there are no such tasks
		if err := p.Exec("DELETE FROM pawl.task_results"); err != nil {
			t.Error(err)
		}
	})
	slices.Sort(ids)
	return ids
}

// The text of an id that a view computes is the one that Go writes, and the database orders
// the bytes as Go orders the texts.
func TestIDsInViews(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ids := identified(t, p)
		var shown []string
		var kept []store.TaskID
		err := p.Engine.DB().View(t.Context(), func(ctx context.Context, tx store.Tx) error {
			rows, err := tx.Query(ctx, "SELECT task_id, task_uuid FROM pawl.v_task_results ORDER BY task_uuid")
			if err != nil {
				return err
			}
			defer rows.Close()
			for rows.Next() {
				var text string
				var id store.TaskID
				if err := rows.Scan(&text, &id); err != nil {
					return err
				}
				shown, kept = append(shown, text), append(kept, id)
			}
			return rows.Err()
		})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(kept, ids) {
			t.Errorf("the ids in the order of their bytes are %v, want %v", kept, ids)
		}
		if !slices.Equal(store.IDs[store.TaskID](shown), ids) {
			t.Errorf("the view shows %v, want %v", shown, ids)
		}
	})
}

// A look-up by the bytes of an id reads an index of the table under the view. On PostgreSQL
// pawl.id returns the bytes.
func TestViewsFindIDsByTheIndex(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		task, err := pawl.Create(t.Context(), p.Service, pawl.NewTask{Type: "a"})
		if err != nil {
			t.Fatal(err)
		}
		item := "itm_" + task.ID[len("tsk_"):]
		b, _ := store.ItemID(item).Bytes()
		explain, uuid, index := "EXPLAIN QUERY PLAN ", "x'"+hex.EncodeToString(b[:])+"'", "SEARCH"
		if p.Database == pawltest.Postgres {
			explain, uuid, index = "EXPLAIN ", "pawl.id('"+item+"')", "Index Cond: (id = "
		}
		for view, want := range map[string]string{"v_tasks": task.ID, "v_items": item} {
			query := "SELECT id FROM pawl." + view + " WHERE uuid = " + uuid
			err := p.Engine.DB().View(t.Context(), func(ctx context.Context, tx store.Tx) error {
				var found string
				if _, err := store.Row(ctx, tx, []any{&found}, query); err != nil || found != want {
					t.Errorf("%s finds %q, %v, want %s", query, found, err, want)
				}
				if p.Database == pawltest.Postgres { // the tables are small
					if _, err := tx.Exec(ctx, "SET LOCAL enable_seqscan = off"); err != nil {
						return err
					}
				}
				plan, err := lines(ctx, tx, explain+query)
				plan = strings.NewReplacer("SCAN digits", "", "SCAN CONSTANT ROW", "").Replace(plan) // of the text of the id
				if !strings.Contains(plan, index) || strings.Contains(plan, "SCAN") || strings.Contains(plan, "Seq Scan") {
					t.Errorf("%s:\n%s", query, plan)
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		}
	})
}

// lines returns the rows of a plan, one a line.
func lines(ctx context.Context, tx store.Tx, query string) (string, error) {
	rows, err := tx.Query(ctx, query)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	var b strings.Builder
	for rows.Next() {
		var id, parent, unused int
		var line string
		into := []any{&line}
		if strings.HasPrefix(query, "EXPLAIN QUERY PLAN") {
			into = []any{&id, &parent, &unused, &line}
		}
		if err := rows.Scan(into...); err != nil {
			return "", err
		}
		fmt.Fprintln(&b, line)
	}
	return b.String(), rows.Err()
}

// pawl.id reads the canonical text of the id of a task or item. Any other text is NULL.
func TestTheFunctionReadsIDs(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		if p.Database != pawltest.Postgres {
			return
		}
		ids := identified(t, p)
		err := p.Engine.DB().View(t.Context(), func(ctx context.Context, tx store.Tx) error {
			for _, id := range ids {
				var got store.TaskID
				if _, err := store.Row(ctx, tx, []any{&got}, "SELECT pawl.id($1)", string(id)); err != nil || got != id {
					t.Errorf("%s is read as %s, %v", id, got, err)
				}
			}
			for _, other := range []string{"", "tsk_none", string(ids[0][4:]), strings.ToLower(string(ids[9])), string(ids[9]) + "0",
				"tsk_80000000000000000000000000", "tsk_0000000000000000000000000I", "key_00000000000000000000000000"} {
				got := store.TaskID(store.LastTask)
				if _, err := store.Row(ctx, tx, []any{&got}, "SELECT pawl.id($1)", other); err != nil || got != "" {
					t.Errorf("%q is read as %s, %v", other, got, err)
				}
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}
