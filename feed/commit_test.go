package feed_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/feed"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

// connect returns a connection besides the engine's, to its schema or to another database.
func connect(t *testing.T, p *pawltest.Pawl, database string) *pgx.Conn {
	t.Helper()
	cfg, err := pgx.ParseConfig(p.URL)
	if err != nil {
		t.Fatal(err)
	}
	cfg.RuntimeParams["search_path"] = p.Schema
	if database != "" {
		cfg.Database = database
	}
	c, err := pgx.ConnectConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

func exec(t *testing.T, c interface {
	Exec(context.Context, string, ...any) (pgconn.CommandTag, error)
}, query string, args ...any) {
	t.Helper()
	if _, err := c.Exec(t.Context(), query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

const leaveEvent = `INSERT INTO task_events (namespace, task_id, move, actor, message, created_at) VALUES ('default', id($1), ` +
	`(SELECT code FROM moves WHERE event = 'stale'), 0, $2, 1769680800000000) RETURNING id`

// addEvent adds an event to a task within a transaction that stays open.
func addEvent(t *testing.T, tx pgx.Tx, task, message string) string {
	t.Helper()
	var id int64
	if err := tx.QueryRow(t.Context(), leaveEvent, task, message).Scan(&id); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("evt_%d", id)
}

func begin(t *testing.T, c *pgx.Conn) pgx.Tx {
	t.Helper()
	tx, err := c.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return tx
}

func end(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// read reads all events after a position.
func read(t *testing.T, f *feed.Feed, after int64) []pawl.Event {
	t.Helper()
	got, err := f.Read(t.Context(), after, 1000)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func ids(events []pawl.Event) (out []string) {
	for _, e := range events {
		out = append(out, e.ID)
	}
	return out
}

// An open transaction does not delay the feed. Its events appear when it has
// committed, however late.
func TestLateCommitsAreFoundAndBlockNobody(t *testing.T) {
	p := pawltest.Open(t, pawltest.Postgres)
	f := p.Engine.Feed()
	task := p.Create(aTask).ID
	slow, lost, held := begin(t, connect(t, p, "")), begin(t, connect(t, p, "")), begin(t, connect(t, p, ""))
	first, second := addEvent(t, slow, task, "slow"), addEvent(t, slow, task, "slow")
	addEvent(t, lost, task, "lost")
	other := addEvent(t, held, task, "held")
	var after int64
	for range 50 {
		id := p.Create(aTask).ID
		got := read(t, f, after)
		if last := got[len(got)-1]; last.TaskID != id {
			t.Fatalf("the feed stands at %+v", last)
		}
		after = got[len(got)-1].Position
	}
	end(t, lost.Rollback(t.Context()))
	if got := read(t, f, after); len(got) != 0 {
		t.Fatalf("from nowhere: %v", ids(got))
	}
	end(t, slow.Commit(t.Context()))
	got := read(t, f, after)
	if !slices.Equal(ids(got), []string{first, second}) {
		t.Fatalf("after the commit: %v, want %v and %v", ids(got), first, second)
	}
	// Another engine knows the gaps too: they are stored in the database.
	next := p.Another(engine.Options{}).Feed()
	end(t, held.Commit(t.Context()))
	if got := read(t, next, got[1].Position); !slices.Equal(ids(got), []string{other}) {
		t.Fatalf("another engine finds %v, want %v", ids(got), other)
	}
}

// gaps returns the stored gaps.
func gaps(t *testing.T, c *pgx.Conn) (text string) {
	t.Helper()
	err := c.QueryRow(t.Context(), `SELECT COALESCE(detail::json->>'gaps', '') FROM relay_cursors WHERE sink = 'feed'`).Scan(&text)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// A gap is kept until no transaction can fill it any more. Transactions in other databases do not
// count.
func TestStrangersDoNotMatter(t *testing.T) {
	p := pawltest.Open(t, pawltest.Postgres)
	f := p.Engine.Feed()
	task := p.Create(aTask).ID
	mine := connect(t, p, "")
	name := strings.Replace(p.Schema, "pawl_test", "pawl_stranger", 1)
	exec(t, mine, "CREATE DATABASE "+name)
	t.Cleanup(func() {
		cfg, _ := pgx.ParseConfig(p.URL)
		c, err := pgx.ConnectConfig(context.Background(), cfg)
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close(context.Background())
		if _, err := c.Exec(context.Background(), "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			t.Error(err)
		}
	})
	stranger := begin(t, connect(t, p, name))
	exec(t, stranger, "SELECT pg_current_xact_id()")
	lost, late := begin(t, mine), begin(t, connect(t, p, ""))
	addEvent(t, lost, task, "lost")
	kept := addEvent(t, late, task, "late")
	end(t, lost.Rollback(t.Context()))
	after := read(t, f, 0)[0].Position
	id := p.Create(aTask).ID
	got := read(t, f, after)
	if len(got) != 1 || got[0].TaskID != id {
		t.Fatalf("a stranger holds the feed up: %v", ids(got))
	}
	after = got[0].Position
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go p.Engine.Feed().Run(ctx)
	for range 30 { // the one that is open is looked for as long as it is
		read(t, f, after)
		time.Sleep(100 * time.Millisecond)
	}
	if gaps(t, mine) == "" {
		t.Fatal("a transaction that is open was given up")
	}
	end(t, late.Commit(t.Context()))
	if got := read(t, f, after); !slices.Equal(ids(got), []string{kept}) {
		t.Fatalf("what committed late is not found: %v", ids(got))
	}
	for gaps(t, mine) != "" {
		if ctx.Err() != nil {
			t.Fatal("what was rolled back is looked for for ever")
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// looking is a database with a function that is called before each look at the open transactions.
type looking struct {
	store.DB
	before func()
}

func (l *looking) Do(ctx context.Context, fn func(ctx context.Context, tx store.Tx) error) error {
	return l.DB.Do(ctx, func(ctx context.Context, tx store.Tx) error { return fn(ctx, lookingTx{tx, l.before}) })
}

type lookingTx struct {
	store.Tx
	before func()
}

func (l lookingTx) Query(ctx context.Context, query string, args ...any) (store.Rows, error) {
	if strings.Contains(query, "'virtualxid'") {
		l.before()
	}
	return l.Tx.Query(ctx, query, args...)
}

// A transaction may commit after the events were read and before the open transactions are looked for. Then
// it is no longer open, and only one more read finds its event.
func TestACommitBesideTheLookAtWhatIsOpenIsFound(t *testing.T) {
	p := pawltest.Open(t, pawltest.Postgres)
	task := p.Create(aTask).ID
	late := begin(t, connect(t, p, ""))
	kept := addEvent(t, late, task, "late")
	p.Create(aTask)
	looks := 0
	f := feed.New(&looking{DB: p.Engine.DB(), before: func() {
		if looks++; looks == 2 { // the first look finds it open
			if err := late.Commit(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}}, feed.Options{})
	defer f.Close()
	var found []string
	var after int64
	for end := time.Now().Add(time.Minute); !slices.Contains(found, kept) && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		for _, e := range read(t, f, after) {
			found, after = append(found, e.ID), e.Position
		}
		if looks > 2 && gaps(t, connect(t, p, "")) == "" {
			break
		}
	}
	if !slices.Contains(found, kept) {
		t.Errorf("%s was given up after %d looks; the feed has %v", kept, looks, found)
	}
}

// A process that dies while it assigns positions leaves no trace. One that hangs loses
// its connection, and another continues.
func TestAnotherTakesOver(t *testing.T) {
	p := pawltest.Open(t, pawltest.Postgres)
	p.Create(aTask)
	before := read(t, p.Engine.Feed(), 0)
	frozen := begin(t, connect(t, p, ""))
	// The sequencer's own have a longer one. This one is shorter than the wait for a lock.
	exec(t, frozen, "SET LOCAL idle_in_transaction_session_timeout = '300ms'")
	exec(t, frozen, "SELECT position FROM relay_cursors WHERE sink = 'feed' FOR UPDATE")
	exec(t, frozen, "INSERT INTO feed_pages (page, ids, count, low, high, created_at) VALUES (1000, '\\x00', 1, 1, 1, 0)")
	id := p.Create(aTask).ID
	got := read(t, p.Another(engine.Options{}).Feed(), before[0].Position)
	if len(got) != 1 || got[0].TaskID != id || got[0].Position != before[0].Position+1 {
		t.Fatalf("after a takeover: %+v", got)
	}
}

// There are many writers with long transactions, some of which are rolled back, and several
// engines that assign positions, one of which is closed in between. Every reader gets every event
// once, in one order, which is the order of commit for each task.
func TestOrderIsTheOrderOfCommit(t *testing.T) {
	p := pawltest.OpenReal(t, pawltest.Postgres)
	engines := []*engine.Engine{p.Engine, p.Another(engine.Options{}), p.Another(engine.Options{})}
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	running, halt := context.WithCancel(ctx)
	var work sync.WaitGroup
	for _, e := range engines {
		work.Go(func() { e.Feed().Run(running) })
	}
	const tasks, writers, each = 5, 12, 60
	var history [tasks]struct {
		sync.Mutex
		id     string
		commit []string
	}
	for i := range history {
		history[i].id = p.Create(aTask).ID
	}
	loose := p.Create(aTask).ID
	var total sync.Map
	var writing sync.WaitGroup
	for n := range writers {
		c := connect(t, p, "")
		writing.Go(func() {
			r := rand.New(rand.NewPCG(uint64(n), 1))
			for range each {
				h := &history[r.IntN(tasks)]
				pre := begin(t, c)
				if r.IntN(4) == 0 {
					addEvent(t, pre, history[0].id, "drawn early, rolled back")
					time.Sleep(time.Duration(r.IntN(20)) * time.Millisecond)
					end(t, pre.Rollback(ctx))
					continue
				}
				if r.IntN(3) == 0 { // its other events have higher numbers, and others commit in between
					total.Store(addEvent(t, pre, loose, "drawn early"), true)
				}
				func() {
					h.Lock()
					defer h.Unlock()
					id := addEvent(t, pre, h.id, "kept")
					time.Sleep(time.Duration(r.IntN(4)) * time.Millisecond)
					end(t, pre.Commit(ctx))
					h.commit = append(h.commit, id)
					total.Store(id, true)
				}()
			}
		})
	}
	written := make(chan struct{})
	go func() { writing.Wait(); close(written) }()
	work.Go(func() {
		time.Sleep(200 * time.Millisecond)
		end(t, engines[2].Close())
	})
	follow := func(f *feed.Feed) (out []pawl.Event) {
		var after int64
		for {
			last := false
			select {
			case <-written:
				last = true
			default:
			}
			got, err := f.Read(ctx, after, 50)
			if err != nil {
				t.Error(err)
				return out
			}
			if out = append(out, got...); len(got) > 0 {
				after = got[len(got)-1].Position
				continue
			}
			if last {
				return out
			}
			short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
			_ = f.Wait(short, after)
			cancel()
		}
	}
	var readings [3][]pawl.Event
	for i := range readings {
		work.Go(func() { readings[i] = follow(engines[i%2].Feed()); halt() })
	}
	work.Wait()
	halt()
	seen := map[string]bool{}
	order := map[string][]string{}
	for i, e := range readings[0] {
		if seen[e.ID] || e.Position != int64(i)+1 {
			t.Errorf("%s at %d is the %dth", e.ID, e.Position, i+1)
		}
		seen[e.ID] = true
		if e.Event == "stale" {
			order[e.TaskID] = append(order[e.TaskID], e.ID)
		}
	}
	total.Range(func(id, _ any) bool {
		if !seen[id.(string)] {
			t.Errorf("%s is lost", id)
		}
		return true
	})
	for i := range history {
		if h := &history[i]; !slices.Equal(order[h.id], h.commit) {
			t.Errorf("task %d: order %v, committed as %v", i, order[h.id], h.commit)
		}
	}
	for i := range readings {
		if !slices.Equal(ids(readings[i]), ids(readings[0])) {
			t.Errorf("reader %d saw another order", i)
		}
	}
}

// A page is removed when its events are deleted and old. The positions of other events stay.
func TestPagesGoWithTheirEvents(t *testing.T) {
	p := pawltest.Open(t, pawltest.Postgres)
	f := p.Engine.Feed()
	var tasks []pawl.TaskCall
	pages := func() (n int) {
		if err := connect(t, p, "").QueryRow(t.Context(), `SELECT count(*) FROM feed_pages`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for range 200 { // more than fit in loose pages
		tasks = append(tasks, pawl.TaskCall{TaskID: p.Create(aTask).ID, Force: true})
		if _, err := f.Head(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	before := read(t, f, 0)
	if n := pages(); n > 100 {
		t.Errorf("%d pages are not packed", n)
	}
	if _, err := p.Service.DeleteTasks(t.Context(), tasks[:150]); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Head(t.Context()); err != nil { // the events that tell of the deletions have their positions
		t.Fatal(err)
	}
	all := pages()
	if _, err := p.Service.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := pages(); n != all {
		t.Errorf("of %d young pages %d are left", all, n)
	}
	p.Advance(31 * 24 * time.Hour)
	if _, err := p.Service.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := pages(); n != all-2 {
		t.Errorf("of %d pages %d are left, want all but the two of 64 whose events are gone", all, n)
	}
	after := read(t, f, 0)
	if len(after) < 50 || after[0].ID != before[150].ID || after[0].Position != before[150].Position {
		t.Errorf("the feed begins with %+v, before it was %+v", after[0], before[150])
	}
}
