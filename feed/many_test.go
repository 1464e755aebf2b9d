package feed_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/feed"
	"github.com/pawl-work/pawl/internal/watch"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

// counting counts the reads of a database.
type counting struct {
	store.DB
	views atomic.Int64
}

func (c *counting) View(ctx context.Context, fn func(ctx context.Context, tx store.Tx) error) error {
	c.views.Add(1)
	return c.DB.View(ctx, fn)
}

// A thousand readers read everything, and cost the database a few queries per refresh, not a
// thousand.
func TestAThousandReadersCostAsMuchAsOne(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		const readers, tasks = 1000, 100
		db := &counting{DB: p.Engine.DB()}
		const poll = 20 * time.Millisecond // as it is on SQLite anyway
		began := time.Now()
		hub := watch.New(watch.Options{})
		defer hub.Close()
		f := feed.New(db, feed.Options{Poll: poll, Hub: hub})
		defer f.Close()
		ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
		defer stop()
		var ready, done sync.WaitGroup
		ready.Add(readers)
		for range readers {
			done.Go(func() {
				defer f.Follow()()
				ready.Done()
				var after pawl.FeedPosition
				for n := 0; n < tasks; {
					events, through, err := f.Next(ctx, after, 1000)
					if err != nil {
						t.Error(err)
						return
					}
					after, n = through, n+len(events)
				}
			})
		}
		ready.Wait()
		for range tasks {
			p.Create(aTask)
			hub.Wake(watch.Commits())
		}
		done.Wait()
		if n := db.views.Load(); n > 10*tasks+2*int64(time.Since(began)/poll) {
			t.Errorf("%d readings of the database for %d events and %d readers", n, tasks, readers)
		}
	})
}

// Deleted events are skipped; no reader waits for them.
func TestWhatIsGoneIsPassedOver(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		f := p.Engine.Feed()
		var tasks []pawl.TaskCall
		for range 150 {
			tasks = append(tasks, pawl.TaskCall{TaskID: p.Create(aTask).ID, Force: true})
		}
		if got := read(t, f, 0); len(got) != 150 {
			t.Fatalf("%d events", len(got))
		}
		if _, err := p.Service.DeleteTasks(t.Context(), tasks); err != nil {
			t.Fatal(err)
		}
		last := int64(0)
		for after := range int64(3) {
			got := read(t, f, after)
			if len(got) != 150 || slices.ContainsFunc(got, func(e pawl.Event) bool { return e.Event != "deleted" }) {
				t.Fatalf("of what is gone there is more than that it was deleted: %v", ids(got))
			}
			last = got[149].Position
		}
		short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if err := f.Wait(short, last); err == nil {
			t.Error("there is nothing to wait for, and Wait says there is")
		}
		id := p.Create(aTask).ID
		if err := f.Wait(t.Context(), last); err != nil {
			t.Fatal(err)
		}
		if got := read(t, f, last); len(got) != 1 || got[0].TaskID != id {
			t.Fatalf("after what is gone: %v", ids(got))
		}
	})
}
