package sqlite

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/pawl-work/pawl/store"
)

// The whole life of tasks of one item, with one transaction for each verb of a batch.
func BenchmarkLife(b *testing.B) {
	for _, batch := range []int{1, 10, 100, 1000} {
		b.Run(fmt.Sprint(batch), func(b *testing.B) {
			db, err := Open(b.Context(), filepath.Join(b.TempDir(), "work.db"), Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer db.Close()
			if _, err := db.Dialect().Migrator.Up(b.Context()); err != nil {
				b.Fatal(err)
			}
			hot := db.Dialect().Hot
			n := 0
			for b.Loop() {
				tasks, items := make([]store.NewTask, batch), make([]store.NewItem, batch)
				for i := range batch {
					n++
					id := fmt.Sprintf("%026d", n)
					tasks[i] = store.NewTask{ID: "tsk_" + id, Namespace: "default", Type: "t", Solo: true, Metadata: "{}", Items: 1,
						Actor: store.Actor{Type: "api", ID: "someone"}, Data: "{}"}
					items[i] = store.NewItem{ID: "itm_" + id, Namespace: "default", TaskID: "tsk_" + id, Type: "t", Kind: "work", Solo: true,
						MaxAttempts: 3, Input: `{"url":"https://example.org/some/where","n":12345678,` +
							`"text":"about two hundred bytes of payload is what the measurements of others use, ` +
							`so that is what we do here as well"}`, Actor: tasks[i].Actor, Data: "{}"}
				}
				var got []store.Claimed
				for _, verb := range []func(ctx context.Context, tx store.Tx) error{
					func(ctx context.Context, tx store.Tx) error { _, err := hot.Create(ctx, tx, tasks, items); return err },
					func(ctx context.Context, tx store.Tx) (err error) {
						got, err = hot.Claim(ctx, tx, store.Claim{Namespace: "default",
							Claimants: []store.Claimant{{WorkerID: "w", Limit: batch, LeaseSeconds: 60}}, Queues: []store.Queue{{Type: "t", Rank: 0},
								{Type: "t", Rank: 1}}})
						return err
					},
					func(ctx context.Context, tx store.Tx) error {
						calls := make([]store.Complete, len(got))
						for i, c := range got {
							calls[i] = store.Complete{Ord: i, Fence: fence("w", c), Result: `{"ok":true}`}
						}
						moved, err := hot.Complete(ctx, tx, calls)
						if err == nil && len(moved) != batch {
							err = fmt.Errorf("%d of %d completed", len(moved), batch)
						}
						return err
					},
				} {
					if err := db.Auto(b.Context(), verb); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(b.N)*float64(batch)/b.Elapsed().Seconds(), "lives/s")
		})
	}
}
