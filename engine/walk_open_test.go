package engine_test

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
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
	c, err := pgx.Connect(ctx, w.own)
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
	key, limited := w.record.limited[task]
	return h != nil && (h.tasks[task] || limited && h.keys[key])
}

// besideOpen ends all tasks but those that open transactions hold, while these are open. SQLite has
// one writer, which waits for such a transaction.
func (w *concurrentWalk) besideOpen(draw *rand.Rand) {
	w.Helper()
	switch {
	case w.killer == nil || w.Failed():
	case w.theme.name == "families":
		w.besideHeld(draw, w.holdFamilies)
		w.checkRecord("after the transactions")
	case w.theme.name == "limits":
		for _, older := range []bool{true, false} {
			var claims []walkClaim
			w.besideHeld(draw, func(draw *rand.Rand, held *walkHeld) { claims = w.holdLimited(draw, held, older) })
			w.limited(0, 0, 0, 1, 1, 1)
			w.countLimits(draw)
			for _, c := range claims {
				if err := deliver(w.Context(), w.p.Service, c); pawl.CodeOf(err) != pawl.CodeLeaseLost { // it was rolled back
					w.accept(err)
				}
			}
		}
	}
}

// besideHeld ends all tasks but those that hold makes transactions for. Then these commit or roll back.
func (w *concurrentWalk) besideHeld(draw *rand.Rand, hold func(*rand.Rand, *walkHeld)) {
	w.Helper()
	held := &walkHeld{tasks: map[string]bool{}, keys: map[string]bool{}}
	defer func() {
		for _, tx := range held.txs {
			tx.end()
		}
	}()
	if hold(draw, held); w.Failed() {
		return
	}
	w.settle(held)
	for range 2 { // what is due is done before the transactions end
		_, err := w.p.Service.Sweep(w.Context())
		w.accept(err)
	}
	for n, tx := range held.txs {
		if n > 0 || draw.IntN(2) > 0 { // the first one holds no claim
			w.accept(tx.commit())
		}
		tx.end()
	}
	_, err := w.p.Service.Sweep(w.Context())
	w.accept(err)
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
// cancelled and due to be archived. The children of the first one and of a third one end in one call.
func (w *concurrentWalk) holdFamilies(draw *rand.Rand, held *walkHeld) {
	w.Helper()
	ctx, svc := w.Context(), w.p.Service
	var parents []string
	for range 3 {
		id, err := w.raised(ctx, draw, svc)
		w.accept(err)
		parents = append(parents, id)
	}
	child := w.record.children[parents[1]]["k0"]
	if w.Failed() || child == "" {
		return
	}
	for _, id := range []string{parents[0], child} {
		held.tasks[id] = true
		w.hold(held, func(ctx context.Context, in *engine.TxEngine) error {
			urgent := 7
			_, err := first(in.UpdateTasks(ctx, []pawl.TaskUpdate{{TaskID: id, Priority: &urgent}}))
			return err
		})
	}
	held.tasks[parents[1]] = true
	_, err := first(svc.CancelTasks(asOperator(ctx), []pawl.TaskCall{{TaskID: parents[1]}}))
	w.accept(err)
	w.endTogether(w.record.children[parents[0]], w.record.children[parents[2]])
	for try := range 3 { // a process that counts both may hold one while it waits for the other: the next pass counts it
		got, err := svc.Claim(ctx, pawl.ClaimRequest{WorkerID: "last", TaskID: parents[2]})
		if w.accept(err); len(got) > 0 {
			w.accept(deliver(ctx, svc, claimOf(&got[0])))
			break
		}
		if try == 2 {
			w.Errorf("the children of %s have ended beside those of a locked parent, and it waits", parents[2])
		}
		_, err = svc.Sweep(ctx)
		w.accept(err)
	}
	w.p.Advance(2 * time.Minute)
}

// endTogether completes children in one call, those of the first parent first.
func (w *concurrentWalk) endTogether(families ...map[string]string) {
	w.Helper()
	var ends []pawl.CompleteCall
	for _, children := range families {
		for _, id := range slices.Sorted(maps.Values(children)) {
			got, err := w.p.Service.Claim(w.Context(), pawl.ClaimRequest{WorkerID: "last", TaskID: id})
			w.accept(err)
			for _, l := range got {
				ends = append(ends, pawl.CompleteCall{Fence: l.Fence(), Result: walkResult})
			}
		}
	}
	rs, err := w.p.Service.Complete(w.Context(), ends)
	w.accept(err)
	for _, r := range rs {
		w.accept(r.Err)
	}
}

// holdLimited holds the first items of a key, and a claim of another one, which may be older than the
// limits.
func (w *concurrentWalk) holdLimited(draw *rand.Rand, held *walkHeld, older bool) (claims []walkClaim) {
	w.Helper()
	w.finishAll(w.Context(), w.p.Service) // what the calls left
	if older {
		w.limitNow(0)
		for _, e := range w.engines { // the claim of one that still knows of limits would share their row, and hold up their change
			e.ForgetLimits()
		}
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
			claims = append(claims, claimOf(&got[n]))
			held.tasks[got[n].TaskID] = true
			held.keys[w.record.limited[got[n].TaskID]] = true
		}
		return err
	})
	if older {
		w.limitNow(1 + draw.IntN(2))
	}
	return claims
}
