package engine_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

// Many goroutines call all verbs that change tasks and items, through two engines on one
// database, while backends are killed. They work on few tasks with few items, so that
// calls conflict. After each round all work is ended and checked. PAWL_WALK is the
// duration. PAWL_WALK_SEED repeats the calls of an earlier run, but not the order in
// which they meet.
func TestConcurrentWalk(t *testing.T) {
	length, seed := walkSettings(t)
	t.Logf("PAWL_WALK_SEED=%d", seed)
	databases := pawltest.Databases
	if os.Getenv("PAWL_TEST_POOLED") == "1" {
		databases = append(slices.Clone(databases), pawltest.Pooled)
	}
	for _, which := range databases {
		t.Run(string(which), func(t *testing.T) {
			t.Parallel()
			w := newConcurrentWalk(t, which, seed)
			end := time.Now().Add(length)
			for time.Now().Before(end) && !t.Failed() {
				w.playRound()
			}
			w.stop()
			t.Logf("%d rounds, %d events, %d backends killed", w.round, w.events, w.kills)
			for n, v := range walkVerbs {
				t.Logf("%s: %d calls, %d refused", v.name, w.calls[n], w.refused[n])
				if w.calls[n] >= 200 && w.calls[n] == w.refused[n] {
					t.Errorf("%s was never accepted: the walk does not try it", v.name)
				}
			}
			if w.round == 0 {
				t.Error("nothing was tried")
			}
		})
	}
}

func walkSettings(t *testing.T) (length time.Duration, seed uint64) {
	t.Helper()
	length, seed = 10*time.Second, uint64(time.Now().UnixNano())
	if os.Getenv("PAWL_TORTURE") == "1" {
		length = time.Hour
	}
	var err error
	if text := os.Getenv("PAWL_WALK"); text != "" {
		if length, err = time.ParseDuration(text); err != nil {
			t.Fatalf("PAWL_WALK: %v", err)
		}
	}
	if text := os.Getenv("PAWL_WALK_SEED"); text != "" {
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("PAWL_WALK_SEED: %v", err)
		}
	}
	return length, seed
}

// walkTypes are the rules of the tasks; "plain" has none.
var walkTypes = []pawl.Type{
	{Name: "reviewed", Acceptance: true, Approval: pawl.Approval{Mode: pawl.ApprovalManual}, Backoff: pawl.Backoff{BaseSeconds: 5}},
	{Name: "applied", Acceptance: true, Approval: pawl.Approval{Mode: pawl.ApprovalManual}, Apply: pawl.Apply{Mode: pawl.ApplyItem}},
	{Name: "fragile", OnItemFailure: pawl.FailureCancel, Backoff: pawl.Backoff{BaseSeconds: 1}},
	{Name: "lenient", OnItemFailure: pawl.FailureIgnore},
	{Name: "planned", Plan: pawl.Plan{Mode: pawl.PlanItem}},
	{Name: "pieced", Parts: []pawl.PartRule{{Key: "a", Required: true}, {Key: "b", Repeatable: true}}},
	{Name: "hasty", Acceptance: true, Approval: pawl.Approval{Mode: pawl.ApprovalManual, ExpiresSeconds: 30, OnExpiry: pawl.ExpiryReject}},
	{Name: "brief", Retention: briefly},
	{Name: "family", Retention: briefly},
	{Name: "child", Retention: briefly},
	{Name: "limited"},
}

// briefly is the retention of the types that walkBrief names.
var briefly = pawl.Retention{TaskSeconds: 60, FailedSeconds: 60, DeadSeconds: 60}

func walkBrief(typ string) bool { return typ == "brief" || typ == "family" || typ == "child" }

// concurrentWalk is a walk in progress on one database.
type concurrentWalk struct {
	*testing.T
	p           *pawltest.Pawl
	seed        uint64
	theme       walkTheme // of the round
	record      *walkRecord
	blobs       [2]string // that a schedule and a signal refer to
	engines     [2]*engine.Engine
	feeds       [2]*walkFeed
	orders      *walkOrders
	sendLasting func()    // sends the signal with a blob
	killer      *pgx.Conn // nil on SQLite
	own         string    // where its own transactions are begun
	name        string    // of the engines' connections
	stop        func()

	round, events, kills int
	calls, refused       []int // of each of walkVerbs

	mu      sync.Mutex
	tasks   []string
	types   map[string]string // of the tasks
	items   []string
	claims  []walkClaim
	said    []pawl.MessageFence       // messages
	runs    []pawl.KeyDone            // of idempotency keys
	kept    map[string]string         // the tokens that idempotency keys were completed with
	keys    map[string][]string       // of items that others may wait for, by task
	ended   map[string]pawl.TaskState // tasks that an answer showed in a final state
	done    map[string]bool           // items whose completion was acknowledged
	whole   map[string]bool           // items whose parts were put together
	weights []int                     // of walkVerbs, in this round

	deleted  bool     // a task of this round was deleted
	doubtful []string // tasks whose deletion has no answer
}

func newConcurrentWalk(t *testing.T, which pawltest.Database, seed uint64) *concurrentWalk {
	t.Helper()
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil)) // killed backends are logged
	p := pawltest.OpenWith(t, which, engine.Options{Types: walkTypes, Log: quiet})
	w := &concurrentWalk{T: t, p: p, seed: seed, name: fmt.Sprint("pawl_walk_", os.Getpid()),
		calls: make([]int, len(walkVerbs)), refused: make([]int, len(walkVerbs))}
	if which != pawltest.SQLite {
		var err error
		if w.killer, err = pgx.Connect(t.Context(), pawltest.Server(t)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = w.killer.Close(context.Background()) })
		mark := "?"
		if strings.Contains(p.URL, "?") {
			mark = "&"
		}
		p.URL += mark + "application_name=" + w.name
		soonDeadlocked(t, p)
		if w.own = p.URL; which == pawltest.Pooled {
			w.own = pawltest.Server(t)
		}
	}
	w.orders = newWalkOrders(t, w)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for n := range w.engines {
		e := p.Another(engine.Options{Log: quiet})
		w.engines[n], w.feeds[n] = e, &walkFeed{items: map[string]string{}, tasks: map[string]string{}}
		running.Go(func() { _ = e.Run(ctx) })
		running.Go(func() { w.feeds[n].follow(ctx, e) })
	}
	w.stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	t.Cleanup(w.stop)
	w.makeLasting()
	return w
}

// soonDeadlocked lets engines that are opened from now on end a deadlock at once and not after a
// second, where PostgreSQL allows it.
func soonDeadlocked(t *testing.T, p *pawltest.Pawl) {
	t.Helper()
	if p.Database != pawltest.Postgres {
		return
	}
	conn := need[*pgx.Conn](t)(pgx.Connect(t.Context(), p.URL))
	defer conn.Close(t.Context())
	var super bool
	if err := conn.QueryRow(t.Context(), "SELECT rolsuper FROM pg_roles WHERE rolname = current_user").Scan(&super); err != nil {
		t.Fatal(err)
	}
	if u := need[*url.URL](t)(url.Parse(p.URL)); super {
		q := u.Query()
		q.Set("deadlock_timeout", "20ms")
		u.RawQuery = q.Encode()
		p.URL = u.String()
	}
}

// playRound creates tasks, makes all kinds of calls on them at once and checks the
// outcome.
func (w *concurrentWalk) playRound() {
	w.round++
	draw := rand.New(rand.NewPCG(w.seed, uint64(w.round)))
	w.tasks, w.items, w.claims, w.deleted, w.doubtful, w.said, w.runs = nil, nil, nil, false, nil, nil, nil
	w.theme, w.record = walkThemes[(w.round+int(w.seed%7))%len(walkThemes)], newWalkRecord()
	w.types, w.keys, w.ended, w.done = map[string]string{}, map[string][]string{}, map[string]pawl.TaskState{}, map[string]bool{}
	w.kept, w.whole = map[string]string{}, map[string]bool{}
	w.weights = make([]int, len(walkVerbs))
	for n, v := range walkVerbs { // each round prefers other verbs
		w.weights[n] = v.weight * []int{0, 1, 1, 4}[draw.IntN(4)]
		if slices.Contains(w.theme.verbs, v.name) {
			w.weights[n] = 4 * v.weight
		}
	}
	for range 1 + draw.IntN(3) {
		w.accept(w.create(w.Context(), draw, w.p.Service))
	}
	goroutines, calls := 4+draw.IntN(9), 3+draw.IntN(8)
	var players sync.WaitGroup
	start := make(chan struct{})
	for n := range goroutines {
		draw := rand.New(rand.NewPCG(w.seed, uint64(w.round)<<16|uint64(n+1)))
		players.Go(func() {
			<-start
			for range calls {
				w.call(draw)
			}
		})
	}
	close(start)
	players.Wait()
	for _, id := range w.doubtful {
		if _, err := first(w.p.Service.DeleteTasks(asOperator(w.Context()), []pawl.TaskCall{{TaskID: id, Force: true}})); !errors.Is(err,
			pawl.ErrNotFound) {
			w.accept(err)
		}
	}
	w.orders.resolve(draw)
	w.checkRules("after the calls")
	w.besideOpen(draw)
	w.checkAges(draw)
	w.settle(nil)
	if !w.Failed() {
		w.orders.check()
		w.checkEnds()
		w.checkKeys()
		w.checkMessages()
		w.checkFeeds()
		w.checkRecord("at the end")
		w.retire()
		w.checkLog()
	}
	if w.Failed() {
		w.Errorf("PAWL_WALK_SEED=%d, round %d (%s) on %s: verbs %v", w.seed, w.round, w.theme.name, w.p.Database, w.favoured())
		w.describe()
		return
	}
	w.forget()
	if w.round%len(walkThemes) == 1 {
		w.monthsPass()
	}
}

// call makes one call of a verb that is drawn by the round's weights.
func (w *concurrentWalk) call(draw *rand.Rand) {
	total := 0
	for _, n := range w.weights {
		total += n
	}
	if total == 0 {
		return
	}
	n, at := 0, draw.IntN(total)
	for at >= w.weights[n] {
		at -= w.weights[n]
		n++
	}
	ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
	defer cancel()
	err := walkVerbs[n].call(w, ctx, draw, w.engines[draw.IntN(2)])
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.calls[n]++; err != nil {
		w.refused[n]++
	}
	if err != nil && !w.foreseen(walkVerbs[n].name, err) {
		w.Errorf("%s: %v", walkVerbs[n].name, err)
	}
}

// foreseen reports whether an error can be explained by concurrent calls.
func (w *concurrentWalk) foreseen(verb string, err error) bool {
	var e *pawl.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code {
	case pawl.CodeConflict:
		unchecked := strings.Contains(e.Message, "not ready for approval") // of a task just submitted
		before := e.Op != "" && e.Op != verb                               // a call that led up to the verb, with a lease that others use too
		// A lease that may be revoked can belong to another attempt, or have expired.
		return before || verb == "retry" || verb == "revoke_lease" || unchecked ||
			!slices.Contains(e.Allowed, verb) // else the state allows what was refused
	case pawl.CodeLeaseLost, pawl.CodePrecondition, pawl.CodeKeyInFlight, pawl.CodeKeyReused:
		return true
	case pawl.CodeInvalid: // a whole result of an item whose parts are not accepted yet
		return strings.HasPrefix(verb, "complete") && len(e.Fields) > 0 &&
			!slices.ContainsFunc(e.Fields, func(f pawl.Field) bool { return !strings.HasPrefix(f.Pointer, "/parts/") })
	case pawl.CodeNotFound:
		return w.deleted || w.archives()
	case pawl.CodeUnavailable:
		return w.killer != nil
	}
	return false
}

func (w *concurrentWalk) accept(err error) {
	w.Helper()
	if err != nil {
		w.Error(err)
	}
}

func (w *concurrentWalk) favoured() (out []string) {
	for n, v := range walkVerbs {
		if w.weights[n] > 0 {
			out = append(out, fmt.Sprintf("%s:%d", v.name, w.weights[n]))
		}
	}
	return out
}

func (w *concurrentWalk) checkRules(when string) {
	w.Helper()
	breaches, err := w.p.Engine.Check(w.Context())
	w.accept(err)
	for _, b := range breaches {
		w.Errorf("%s: rule %q is broken by %s: %s", when, b.Rule, b.Subject, b.Found)
	}
}

// settle acts as a reliable operator and a reliable worker until all tasks have ended.
// Time advances as far as the longest back-off needs. Tasks that an open transaction holds are left.
func (w *concurrentWalk) settle(held *walkHeld) {
	ctx, svc := w.Context(), w.p.Service
	operator := asOperator(ctx)
	begun := time.Now() // processes know of limits that others set after a second of their own
	for pass := 0; pass < 40 || time.Since(begun) < 5*time.Second; pass++ {
		if w.Failed() {
			return
		}
		_, err := svc.Sweep(ctx)
		w.accept(err)
		if pass == 0 && held == nil {
			w.checkRules("at rest")
		}
		open := 0
		for _, task := range w.readTasks() {
			if held.has(w, task.ID) {
				continue
			}
			switch task.State {
			case pawl.TaskCompleted, pawl.TaskCancelled, pawl.TaskRejected:
				continue
			case pawl.TaskFailed, pawl.TaskDeadLettered:
				_, err = first(svc.RetryTasks(operator, []pawl.TaskCall{{TaskID: task.ID}}))
				if task.State == pawl.TaskDeadLettered && errors.Is(err, pawl.ErrConflict) { // an item that it depends on was cancelled
					_, err = first(svc.CancelTasks(operator, []pawl.TaskCall{{TaskID: task.ID}}))
				}
			case pawl.TaskSubmitted:
				_, err = first(svc.ApproveTasks(operator, []pawl.ApproveCall{{TaskID: task.ID}}))
			default:
				err = nil
			}
			open++
			if !walkBrief(w.types[task.ID]) || !errors.Is(err, pawl.ErrNotFound) { // it was archived after it was read
				w.accept(err)
			}
		}
		if open == 0 {
			if held == nil {
				w.checkRules("at the end")
			}
			return
		}
		for _, key := range walkSignals {
			_, err = first(svc.SendSignals(ctx, []pawl.SignalCall{{Name: w.signal(), Key: key}}))
			w.accept(err)
		}
		if w.finishAll(ctx, svc) == 0 {
			w.hoursPass(time.Hour)
		}
	}
	w.Errorf("tasks never end, though everything is retried, approved, signalled and worked on; held: %+v", held)
}

// finishAll completes everything that can be claimed.
func (w *concurrentWalk) finishAll(ctx context.Context, svc pawl.Service) (n int) {
	for _, types := range [][]string{nil, asideTypes} {
		got, err := svc.Claim(ctx, pawl.ClaimRequest{WorkerID: "last", Types: types, Limit: pawl.MaxClaim})
		w.accept(err)
		for i := range got {
			n++
			w.accept(deliver(ctx, svc, claimOf(&got[i])))
		}
	}
	return n
}

func (w *concurrentWalk) readItems(taskID string) []pawl.Item {
	w.Helper()
	list, err := w.p.Service.ListItems(w.Context(), pawl.ItemFilter{TaskID: taskID, Page: pawl.Page{Limit: pawl.MaxPage}})
	w.accept(err)
	return list.Items
}

// checkEnds compares the end of each task with its items and all answers.
func (w *concurrentWalk) checkEnds() {
	for _, task := range w.readTasks() {
		if was, known := w.ended[task.ID]; known && was != task.State {
			w.Errorf("task %s was answered as %s and is %s", task.ID, was, task.State)
		}
		if task.ItemsOpen != 0 {
			w.Errorf("task %s is %s and counts %d open items", task.ID, task.State, task.ItemsOpen)
		}
		completed := 0
		for _, i := range w.readItems(task.ID) {
			if i.State == pawl.ItemCompleted {
				completed++
			}
			failed := i.State == pawl.ItemFailed || i.State == pawl.ItemDeadLettered
			if !i.State.Ended() && !(failed && (task.State == pawl.TaskRejected || task.Type == "lenient")) {
				w.Errorf("item %s is %s in a task that is %s", i.ID, i.State, task.State)
			}
			if w.whole[i.ID] && i.State == pawl.ItemCompleted && len(i.AssembledResult) == 0 && !w.sentBack(i) {
				w.Errorf("item %s is completed without the result that its parts were put together to", i.ID)
			}
			if w.done[i.ID] && i.State != pawl.ItemCompleted {
				w.Errorf("the result of item %s was accepted and it is %s", i.ID, i.State)
			}
		}
		if task.State == pawl.TaskCompleted && completed == 0 {
			w.Errorf("task %s is completed and none of its items", task.ID)
		}
	}
}

// sentBack reports whether a result of the item was rejected: the next one may come in one piece.
func (w *concurrentWalk) sentBack(i pawl.Item) bool {
	w.Helper()
	list, err := w.p.Service.ListEvents(w.Context(), pawl.EventFilter{ItemID: i.ID, Event: "rejected"})
	w.accept(err)
	return len(list.Items) > 0
}

// checkFeeds waits until the feeds have all events of the database, except those that
// were in an archive when their turn came.
func (w *concurrentWalk) checkFeeds() {
	var ids []int64
	err := w.p.Engine.DB().View(w.Context(), func(ctx context.Context, tx store.Tx) error {
		rows, err := tx.Query(ctx, "SELECT id FROM pawl.event_rows WHERE task_id NOT IN (SELECT task_id FROM pawl.archives) ORDER BY id")
		if err != nil {
			return err
		}
		defer rows.Close()
		for ids = nil; rows.Next(); {
			var id int64
			if err := rows.Scan(&id); err != nil {
				return err
			}
			ids = append(ids, id)
		}
		return rows.Err()
	})
	w.accept(err)
	w.events += len(ids)
	mended := w.count("SELECT COUNT(*) FROM pawl.event_rows WHERE event = 'updated' AND message LIKE 'the count of%was wrong'")
	if mended > 0 {
		w.Errorf("%d items waited for a wrong number of others, until the sweep counted again", mended)
	}
	deadline := time.Now().Add(60 * time.Second)
	for n, f := range w.feeds {
		missing := f.missing(ids)
		for ; len(missing) > 0 && time.Now().Before(deadline); missing = f.missing(ids) {
			time.Sleep(5 * time.Millisecond)
		}
		if len(missing) > 0 {
			w.Errorf("feed of engine %d: the events %v never came", n, missing)
		}
		for _, fault := range f.takeFaults() {
			if !walkBrief(w.types[fault.task]) {
				w.Errorf("feed of engine %d: %s", n, fault.what)
			}
		}
	}
}

// count reads a number directly from the database.
func (w *concurrentWalk) count(query string, args ...any) (n int) {
	w.Helper()
	w.lookUp(&n, query, args...)
	return n
}

// lookUp reads a value directly from the database, if it is there.
func (w *concurrentWalk) lookUp(into any, query string, args ...any) {
	w.Helper()
	query, args = pawltest.SQL(query, args...)
	w.accept(w.p.Engine.DB().View(w.Context(), func(ctx context.Context, tx store.Tx) error {
		_, err := store.Row(ctx, tx, []any{into}, query, args...)
		return err
	}))
}

// forget deletes the round's tasks, so that checks stay fast.
func (w *concurrentWalk) forget() {
	calls := make([]pawl.TaskCall, len(w.tasks))
	for n, id := range w.tasks {
		calls[n].TaskID = id
	}
	results, err := w.p.Service.DeleteTasks(asOperator(w.Context()), calls)
	w.accept(err)
	for n, r := range results {
		if !walkBrief(w.types[w.tasks[n]]) || !errors.Is(r.Err, pawl.ErrNotFound) {
			w.accept(r.Err)
		}
	}
}

// describe logs what is known of the tasks that have a fault.
func (w *concurrentWalk) describe() {
	for _, task := range w.readTasks() {
		w.Logf("task %s %s is %s, version %d, %d of %d items open, answered as %q",
			task.Type, task.ID, task.State, task.Version, task.ItemsOpen, task.Items, w.ended[task.ID])
		for _, i := range w.readItems(task.ID) {
			w.Logf("  item %s %q is %s, attempt %d, failures %d, after %v, error %v", i.ID, i.Key, i.State, i.Attempt, i.Failures, i.After, i.Error)
		}
		list, err := w.p.Service.ListEvents(w.Context(), pawl.EventFilter{TaskID: task.ID, Asc: true, Page: pawl.Page{Limit: pawl.MaxPage}})
		w.accept(err)
		for _, ev := range list.Items {
			w.Logf("  %s %s %s %s→%s task %s→%s by %s %s %s",
				ev.ID, ev.Event, ev.ItemID, ev.FromState, ev.ToState, ev.TaskFrom, ev.TaskTo, ev.ActorType, ev.ActorID, ev.Data)
		}
	}
}
