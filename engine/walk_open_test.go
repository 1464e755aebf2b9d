package engine_test

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
)

// walkTx is a transaction of a caller's own.
type walkTx struct {
	in     *engine.TxEngine
	commit func() error
	end    func() // rolls back what was not committed
	cut    func(error) error
}

func (w *concurrentWalk) begin(ctx context.Context, e *engine.Engine) (*walkTx, error) {
	if file := w.orders.file; file != nil {
		tx, err := file.BeginTx(ctx, nil)
		if err != nil {
			return nil, err
		}
		return &walkTx{e.In(tx), tx.Commit, func() { _ = tx.Rollback() }, func(err error) error { return err }}, nil
	}
	c, err := pgx.Connect(ctx, w.p.URL)
	if err != nil {
		return nil, cut(c, err)
	}
	tx, err := c.Begin(ctx)
	if err != nil {
		_ = c.Close(context.WithoutCancel(ctx))
		return nil, cut(c, err)
	}
	return &walkTx{e.In(tx), func() error { return tx.Commit(ctx) }, func() { _ = c.Close(context.WithoutCancel(ctx)) },
		func(err error) error { return cut(c, err) }}, nil
}

// open makes some calls in one transaction, and others beside it. Then it commits or rolls back.
func (w *concurrentWalk) open(ctx context.Context, draw *rand.Rand, svc pawl.Service) error {
	tx, err := w.begin(ctx, w.engines[draw.IntN(2)])
	if err != nil {
		return err
	}
	defer tx.end()
	var made pawl.Task
	var got []pawl.Lease
	if draw.IntN(2) == 0 {
		if made, err = tx.in.Create(ctx, pawl.NewTask{Type: "limited", Payload: keyPayload(draw.IntN(3))}); err != nil {
			return tx.cut(err)
		}
	}
	if draw.IntN(3) > 0 {
		req := pawl.ClaimRequest{WorkerID: "w2", Limit: 1 + draw.IntN(2), LeaseSeconds: 30}
		if draw.IntN(2) == 0 {
			req.Types = []string{"limited"}
		}
		if got, err = tx.in.Claim(ctx, req); err != nil {
			return tx.cut(err)
		}
	}
	if w.killer != nil { // on SQLite the others have to wait
		for range draw.IntN(3) {
			other := []walkCall{(*concurrentWalk).claim, (*concurrentWalk).create, (*concurrentWalk).setLimits}[draw.IntN(3)]
			if err := other(w, ctx, draw, svc); err != nil {
				return err
			}
		}
	}
	if draw.IntN(3) == 0 {
		return nil
	}
	if err := tx.commit(); err != nil {
		return tx.cut(err)
	}
	if draw.IntN(2) == 0 {
		tx.in.Committed()
	}
	for n := range got {
		w.claimed(claimOf(&got[n]))
	}
	if made.ID == "" {
		return nil
	}
	return w.noted(nil, made, nil)
}

// walkHeld is what open transactions hold. Everything else goes on.
type walkHeld struct {
	tasks map[string]bool
	keys  map[string]bool // of the queue with limits
	txs   []*walkTx
}

// has reports whether a task cannot end as long as the transactions are open.
func (h *walkHeld) has(w *concurrentWalk, task string) bool {
	return h != nil && (h.tasks[task] || h.keys[w.record.limited[task]])
}

// besideOpen ends all tasks but those that open transactions hold, while these are open. SQLite has
// one writer, which waits for such a transaction.
func (w *concurrentWalk) besideOpen(draw *rand.Rand) {
	w.Helper()
	if w.killer == nil || w.Failed() {
		return
	}
	held := &walkHeld{tasks: map[string]bool{}, keys: map[string]bool{}}
	defer func() {
		for _, tx := range held.txs {
			tx.end()
		}
	}()
	var cancelled []string
	var late []walkClaim
	switch w.theme.name {
	case "families":
		cancelled = w.holdFamilies(draw, held)
	case "limits":
		late = w.holdLimited(draw, held)
	default:
		return
	}
	if w.Failed() {
		return
	}
	w.settle(held)
	for range 2 { // what is due is done before the transactions end
		_, err := w.p.Service.Sweep(w.Context())
		w.accept(err)
	}
	for n, tx := range held.txs {
		if n == 0 || draw.IntN(3) > 0 {
			w.accept(tx.commit())
		}
		tx.end()
	}
	_, err := w.p.Service.Sweep(w.Context())
	w.accept(err)
	if w.theme.name == "limits" {
		w.limited(0, 0, 0, 1, 1, 1)
		w.countLimits(draw)
	}
	for _, c := range late {
		if err := deliver(w.Context(), w.p.Service, c); pawl.CodeOf(err) != pawl.CodeLeaseLost { // it was rolled back
			w.accept(err)
		}
	}
	if len(cancelled) > 0 {
		w.checkRecord("after the transactions")
	}
}

// hold begins a transaction that stays open, and makes calls in it.
func (w *concurrentWalk) hold(held *walkHeld, calls func(ctx context.Context, in *engine.TxEngine) error) {
	w.Helper()
	tx, err := w.begin(w.Context(), w.engines[len(held.txs)%2])
	if err != nil {
		w.accept(err)
		return
	}
	held.txs = append(held.txs, tx)
	w.accept(calls(w.Context(), tx.in))
}

// holdFamilies holds a parent that waits for children, and a child of another one, which is then
// cancelled and due to be archived.
func (w *concurrentWalk) holdFamilies(draw *rand.Rand, held *walkHeld) (cancelled []string) {
	w.Helper()
	var parents []string
	for range 3 {
		id, err := w.raised(w.Context(), draw, w.p.Service)
		w.accept(err)
		parents = append(parents, id)
	}
	urgent := 7
	touch := func(id string) func(ctx context.Context, in *engine.TxEngine) error {
		held.tasks[id] = true
		return func(ctx context.Context, in *engine.TxEngine) error {
			_, err := first(in.UpdateTasks(ctx, []pawl.TaskUpdate{{TaskID: id, Priority: &urgent}}))
			return err
		}
	}
	w.hold(held, touch(parents[0]))
	child := w.record.children[parents[1]]["k0"]
	if child == "" {
		return nil
	}
	w.hold(held, touch(child))
	held.tasks[parents[1]] = true
	_, err := first(w.p.Service.CancelTasks(asOperator(w.Context()), []pawl.TaskCall{{TaskID: parents[1]}}))
	w.accept(err)
	w.p.Advance(2 * time.Minute)
	return parents[1:2]
}

// holdLimited holds the first items of a key, and a claim of another one. Half of the claims are
// older than the limits.
func (w *concurrentWalk) holdLimited(draw *rand.Rand, held *walkHeld) (late []walkClaim) {
	w.Helper()
	older := w.round%2 == 0
	w.finishAll(w.Context(), w.p.Service) // what the calls left
	if older {
		w.limitNow(0)
	} else {
		w.limitNow(1 + draw.IntN(2))
	}
	w.limited(0, 0, 0, 1, 1, 1, 1, 1, 1, 2, 2)
	var firsts []pawl.TaskUpdate
	for _, id := range w.tasks {
		urgent := 1
		if w.record.limited[id] == "b" && len(firsts) < 4 {
			held.tasks[id] = true
			firsts = append(firsts, pawl.TaskUpdate{TaskID: id, Priority: &urgent})
		}
	}
	w.hold(held, func(ctx context.Context, in *engine.TxEngine) error {
		_, err := in.UpdateTasks(ctx, firsts)
		return err
	})
	w.hold(held, func(ctx context.Context, in *engine.TxEngine) error {
		got, err := in.Claim(ctx, pawl.ClaimRequest{WorkerID: "open", Types: []string{"limited"}, LeaseSeconds: 86400})
		for n := range got {
			late = append(late, claimOf(&got[n]))
			held.tasks[got[n].TaskID] = true
			held.keys[keyOfPayload(got[n].Input)] = true
		}
		return err
	})
	if older {
		w.limitNow(1 + draw.IntN(2))
	}
	return late
}
