package feed_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/feed"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

// lagging is a database that returns an old snapshot while it lags, like a connection to a server
// that is behind.
type lagging struct {
	store.DB
	conn     *pgx.Conn
	used     sync.Mutex // held while conn is used
	snapshot string
	on       atomic.Bool
}

func (l *lagging) View(ctx context.Context, fn func(ctx context.Context, tx store.Tx) error) error {
	if !l.on.Load() {
		return l.DB.View(ctx, fn)
	}
	l.used.Lock()
	defer l.used.Unlock()
	return pgx.BeginTxFunc(ctx, l.conn, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET TRANSACTION SNAPSHOT '"+l.snapshot+"'"); err != nil {
			return err
		}
		return fn(ctx, l.Dialect().Wrap(tx))
	})
}

// A reader never passes a position that the answering database server does not have.
func TestALaggingServerSkipsNothing(t *testing.T) {
	for _, followed := range []bool{false, true} {
		t.Run(fmt.Sprintf("followed=%v", followed), func(t *testing.T) {
			p := pawltest.Open(t, pawltest.Postgres)
			for range 10 {
				p.Create(aTask)
			}
			before := read(t, p.Engine.Feed(), 0)
			old, err := connect(t, p, "").BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
			if err != nil {
				t.Fatal(err)
			}
			db := &lagging{DB: p.Engine.DB(), conn: connect(t, p, "")}
			if err := old.QueryRow(t.Context(), "SELECT pg_export_snapshot()").Scan(&db.snapshot); err != nil {
				t.Fatal(err)
			}
			for range 35 {
				p.Create(aTask)
			}
			f := feed.New(db, feed.Options{Poll: 10 * time.Millisecond})
			defer f.Close()
			if followed {
				defer f.Follow()()
			}
			if head, err := f.Head(t.Context()); err != nil || head != 45 {
				t.Fatal(head, err)
			}
			db.on.Store(true)
			at := pawl.FeedPosition{Position: before[9].Position}
			events, through, err := f.Page(t.Context(), at, 100)
			if err != nil || len(events) != 0 || through != at {
				t.Fatalf("from a server that lags: %v through %s, %v", ids(events), through, err)
			}
			if events, through, err = f.Page(t.Context(), pawl.FeedPosition{}, 100); err != nil || len(events) != 10 || through.Position != 10 {
				t.Fatalf("from its beginning: %v through %s, %v", ids(events), through, err)
			}
			db.on.Store(false)
			if got, err := f.ReadAt(t.Context(), at, 100); err != nil || len(got) != 35 {
				t.Errorf("%d events behind what the server had, %v", len(got), err)
			}
		})
	}
}

// A run whose commit failed leaves no state in the process.
func TestAPositionThatWasNotCommittedIsNotTheHead(t *testing.T) {
	p := pawltest.Open(t, pawltest.Postgres)
	p.Create(aTask)
	db := &failingCommits{DB: p.Engine.DB()}
	f := feed.New(db, feed.Options{})
	defer f.Close()
	db.failing.Store(true)
	if _, err := f.Head(t.Context()); err == nil {
		t.Fatal("it does not fail")
	}
	if n := f.Newest(); n != 0 {
		t.Errorf("the newest position is %d", n)
	}
}

// failingCommits is a database whose commits fail.
type failingCommits struct {
	store.DB
	failing atomic.Bool
}

func (u *failingCommits) Do(ctx context.Context, fn func(ctx context.Context, tx store.Tx) error) error {
	return u.DB.Do(ctx, func(ctx context.Context, tx store.Tx) error {
		if err := fn(ctx, tx); err != nil || !u.failing.Load() {
			return err
		}
		return errors.New("the commit failed")
	})
}

// goBackInTime takes the database back to a position, like a failover that lost commits: the
// events after it are removed, with all rows that refer to them.
func goBackInTime(t *testing.T, p *pawltest.Pawl, position int64, promoted bool) {
	t.Helper()
	c := connect(t, p, "")
	var ids []int64
	var text string
	if err := c.QueryRow(t.Context(), `SELECT detail FROM relay_cursors WHERE sink = 'feed'`).Scan(&text); err != nil {
		t.Fatal(err)
	}
	err := p.Engine.DB().View(t.Context(), func(ctx context.Context, tx store.Tx) error {
		pages, err := store.FeedPages(ctx, tx, 1, int(position), 1000)
		for _, page := range pages {
			ids = append(ids, page.IDs...)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	ids = ids[:position]
	top := slices.Max(ids)
	lost := ` IN (SELECT task_id FROM event_rows WHERE id > $1)`
	for _, table := range []string{"ready", "items"} {
		exec(t, c, `DELETE FROM `+table+` WHERE task_id`+lost, top)
	}
	exec(t, c, `DELETE FROM tasks WHERE id`+lost, top)
	exec(t, c, `SET session_replication_role = replica`) // the record is append-only otherwise
	exec(t, c, `DELETE FROM task_events WHERE id > $1`, top)
	exec(t, c, `SET session_replication_role = origin`)
	exec(t, c, `SELECT setval('task_events_id_seq', $1)`, top)
	exec(t, c, `DELETE FROM feed_pages`)
	exec(t, c, `INSERT INTO feed_pages (page, ids, count, low, high, created_at) VALUES (1, $1, $2, $3, $4, 0)`, store.Pack(ids), len(ids),
		slices.Min(ids), top)
	exec(t, c, `WITH log AS (DELETE FROM log_runs RETURNING first, leaves) INSERT INTO log_runs (first, leaves) `+
		`SELECT -1, substring(string_agg(leaves, ''::bytea ORDER BY first), 1, $1) FROM log`, 32*position)
	exec(t, c, `UPDATE log_runs SET first = 0 WHERE first < 0`)
	exec(t, c, `UPDATE relay_cursors SET position = least(position, $1) WHERE sink LIKE 'relay.%'`, position)
	exec(
		t,
		c,
		`UPDATE relay_cursors SET position = $1, detail = (detail::jsonb - 'loose' - 'pages' - 'ids' - 'gaps' || jsonb_build_object('top', `+
			`$2::bigint))::text WHERE sink = 'feed'`,
		position,
		top,
	)
	if promoted {
		promote(t, p)
	}
}

// promote has the database say that another server assigned the newest positions.
func promote(t *testing.T, p *pawltest.Pawl) {
	t.Helper()
	exec(t, connect(t, p, ""),
		`UPDATE relay_cursors SET detail = jsonb_set(detail::jsonb, '{server,timeline}', '77')::text WHERE sink = 'feed'`)
}

// A new primary that has everything that a process has read begins no epoch there: its readers go on.
// A process that has read nothing cannot tell.
func TestANewPrimaryThatLostNothingBeginsNoEpoch(t *testing.T) {
	for _, fresh := range []bool{false, true} {
		t.Run(fmt.Sprintf("fresh=%v", fresh), func(t *testing.T) {
			p := pawltest.Open(t, pawltest.Postgres)
			for range 300 { // more than a tile of the log
				p.Create(aTask)
			}
			read(t, p.Engine.Feed(), 0)
			e, want := p.Engine, int64(0)
			for round := range int64(3) {
				promote(t, p)
				if fresh {
					e, want = p.Another(engine.Options{}), want+1
				}
				id := p.Create(aTask).ID
				if _, err := e.Feed().Head(t.Context()); err != nil {
					t.Fatal(err)
				}
				got, err := e.Feed().ReadAt(t.Context(), pawl.FeedPosition{Epoch: want, Position: 300 + round}, 10)
				if err != nil || len(got) != 1 || got[0].TaskID != id || e.Feed().Epoch() != want {
					t.Fatalf("after promotion %d: %+v, %v, epoch %d", round, got, err, e.Feed().Epoch())
				}
			}
		})
	}
}

// A process that had read more than the one that takes over first finds out when it comes to the new
// primary, also when that has as many events again: the epoch begins after what both have.
func TestAProcessThatReadMoreBeginsTheEpoch(t *testing.T) {
	p := pawltest.Open(t, pawltest.Postgres)
	behind := p.Another(engine.Options{})
	for _, n := range []int{60, 40} {
		for range n {
			p.Create(aTask)
		}
		if _, err := p.Engine.Feed().Head(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n == 60 {
			read(t, behind.Feed(), 0)
		}
	}
	goBackInTime(t, p, 60, true)
	for range 100 {
		p.Create(aTask)
	}
	if got := read(t, behind.Feed(), 60); len(got) != 100 || behind.Feed().Epoch() != 0 {
		t.Fatalf("where nothing that was read is lost: %d events, epoch %d", len(got), behind.Feed().Epoch())
	}
	p.Engine.Feed().BeforePromotion()
	_, err := p.Engine.Feed().Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.Engine.Feed().ReadAt(t.Context(), pawl.FeedPosition{Position: 100}, 10)
	epoch := p.Engine.Feed().Epoch()
	if restart, ok := pawl.RestartOf(err); !ok || epoch == 0 || restart != (pawl.FeedPosition{Epoch: epoch, Position: 60}) {
		t.Fatalf("epoch %d, %v", epoch, err)
	}
	_, err = behind.Feed().Head(t.Context())
	if _, again := behind.Feed().ReadAt(t.Context(), pawl.FeedPosition{Position: 160}, 10); err != nil || !errors.Is(again,
		&pawl.Error{Code: pawl.CodeConflict, Reason: pawl.ReasonEpoch}) {
		t.Errorf("readers of the other process: %v, %v", err, again)
	}
}

// When the database has lost commits, no reader misses later events: readers get the position to
// restart from, on a server that saw the lost events and on one that did not.
func TestAnEpochBeginsWhenTheDatabaseWentBack(t *testing.T) {
	for _, fresh := range []bool{false, true} {
		t.Run(fmt.Sprintf("fresh=%v", fresh), func(t *testing.T) {
			p := pawltest.Open(t, pawltest.Postgres)
			for range 100 {
				p.Create(aTask)
			}
			all := read(t, p.Engine.Feed(), 0)
			goBackInTime(t, p, 60, fresh)
			e := p.Engine
			if fresh {
				e = p.Another(engine.Options{})
			}
			var later []string
			for range 100 { // the positions of those that were lost are given again
				later = append(later, p.Create(aTask).ID)
				if _, err := e.Feed().Head(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			epoch := e.Feed().Epoch()
			if epoch < 1 {
				t.Fatalf("the epoch is %d", epoch)
			}
			for _, at := range []int64{45, 60, 80, 100} {
				cursor := pawl.FeedPosition{Position: all[at-1].Position}
				_, err := e.Feed().ReadAt(t.Context(), cursor, 1000)
				restart, ok := pawl.RestartOf(err)
				if want := (pawl.FeedPosition{Epoch: epoch, Position: min(at, 60)}); !ok || restart != want {
					t.Fatalf("%s answers %v, want a restart at %s", cursor, err, want)
				}
				got, err := e.Feed().ReadAt(t.Context(), restart, 1000)
				if err != nil || len(got) != 100+int(60-restart.Position) {
					t.Fatalf("after the restart at %s: %d events, %v", restart, len(got), err)
				}
				for i, ev := range got[len(got)-100:] {
					if ev.TaskID != later[i] || ev.Epoch != epoch || ev.Position != int64(61+i) {
						t.Fatalf("the %dth new event is %+v", i, ev)
					}
				}
				if restart.Position < 60 && (got[0].ID != all[restart.Position].ID || got[0].Epoch != 0) {
					t.Errorf("what was kept comes as %+v", got[0])
				}
			}
			if got, err := e.Feed().ReadAt(t.Context(), pawl.FeedPosition{}, 1000); err != nil || len(got) != 160 {
				t.Errorf("from the beginning: %d events, %v", len(got), err)
			}
			if _, err := e.Feed().ReadAt(t.Context(), pawl.FeedPosition{Epoch: 99, Position: 10}, 10); !errors.Is(
				err,
				&pawl.Error{Code: pawl.CodeConflict, Reason: pawl.ReasonEpoch},
			) {
				t.Errorf("a position of an epoch that never was: %v", err)
			}
			if err := e.Feed().Log(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// A reader that follows the feed at that time gets the error, and misses nothing after the
// restart.
func TestAFollowerLearnsOfANewEpoch(t *testing.T) {
	p := pawltest.Open(t, pawltest.Postgres)
	for range 20 {
		p.Create(aTask)
	}
	begun := make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		seen := 0
		ended <- p.Service.FollowEvents(t.Context(), pawl.EventFilter{}, func(_ pawl.FeedPosition, events []pawl.Event) error {
			if seen += len(events); seen == 20 {
				close(begun)
			}
			return nil
		})
	}()
	<-begun
	goBackInTime(t, p, 12, false)
	restart, ok := pawl.RestartOf(<-ended)
	if want := (pawl.FeedPosition{Epoch: 1, Position: 12}); !ok || restart != want {
		t.Fatalf("it restarts at %s, want %s", restart, want)
	}
	id := p.Create(aTask).ID
	next, err := p.Service.ListEvents(t.Context(), pawl.EventFilter{After: &restart.Position, Epoch: restart.Epoch})
	if err != nil || len(next.Items) != 1 || next.Items[0].TaskID != id {
		t.Errorf("%+v, %v", next.Items, err)
	}
	for _, cursor := range []string{"pos_15", "pos_0-15"} {
		_, err := p.Service.ListEvents(t.Context(), pawl.EventFilter{After: &restart.Position, Page: pawl.Page{Cursor: cursor}})
		if at, ok := pawl.RestartOf(err); !ok || at != restart {
			t.Errorf("%s: %v", cursor, err)
		}
	}
}

// A relay that has sent lost events continues at the database's position.
func TestARelayRestartsInANewEpoch(t *testing.T) {
	p := pawltest.Open(t, pawltest.Postgres)
	for range 20 {
		p.Create(aTask)
	}
	read(t, p.Engine.Feed(), 0)
	r, ok, err := p.Engine.TakeRelay(t.Context(), "s", "webhook", "one", time.Minute)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	goBackInTime(t, p, 12, false)
	r.Position = 20 // it is saved before the loss is noticed
	if ok, err := p.Engine.KeepRelay(t.Context(), r, time.Minute); err != nil || !ok {
		t.Fatal(ok, err)
	}
	if _, err := p.Engine.Feed().Head(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r, ok, err = p.Engine.TakeRelay(t.Context(), "s", "webhook", "one", time.Minute); err != nil || !ok || r.Position != 12 ||
		r.Epoch != 1 {
		t.Errorf("it stands at %d-%d, %v %v", r.Epoch, r.Position, ok, err)
	}
	list, err := p.Engine.ListRelays(t.Context())
	if err != nil || list.Items[0].Epoch != 1 {
		t.Errorf("%+v, %v", list.Items, err)
	}
}

// Events without a position when another server takes over get one from it.
func TestAGapIsFilledByAnotherServer(t *testing.T) {
	p := pawltest.Open(t, pawltest.Postgres)
	task := p.Create(aTask).ID
	slow := begin(t, connect(t, p, ""))
	late := addEvent(t, slow, task, "late")
	p.Create(aTask)
	before := read(t, p.Engine.Feed(), 0)
	promote(t, p)
	end(t, slow.Commit(t.Context()))
	if _, err := p.Engine.Feed().Head(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := read(t, p.Engine.Feed(), before[1].Position)
	if len(got) != 1 || got[0].ID != late || got[0].Epoch != 0 || !strings.HasPrefix(got[0].ID, "evt_") {
		t.Errorf("%+v", got)
	}
}
