package budgets

import (
	"context"
	"embed"
	"errors"
	"slices"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

//go:embed budget.sql
var sqlFile embed.FS

var texts = store.Texts(sqlFile, "budget.sql")

// errChanged refuses a change of a budget that another call has changed in the
// meantime.
var errChanged = errors.New("the budget was changed")

// Row is a budget as it is stored. Its numbers are those of the period PeriodNumber,
// which may be over: see roll.
type Row struct {
	ID, Namespace, Name, Unit   string
	Limit                       int64
	ForType, ForKey, ForTask    store.Text
	Period, OnExhausted, OnLost string
	PeriodNumber, Start         int64
	End                         *int64 // nil = never
	Spent, Reserved             int64
	CreatedAt, ChangedAt        int64
}

func (b *Row) targets() []any {
	return []any{&b.ID, &b.Name, &b.Unit, &b.Limit, &b.ForType, &b.ForKey, (*store.TaskID)(&b.ForTask), &b.Period, &b.OnExhausted, &b.OnLost,
		&b.PeriodNumber, &b.Start, &b.End, &b.Spent, &b.Reserved, &b.CreatedAt, &b.ChangedAt}
}

// Remaining is what can be reserved.
func (b *Row) Remaining() int64 { return b.Limit - b.Spent - b.Reserved }

// periodAt returns the bounds of the period of a kind that contains a time; end is nil for
// a period without an end, which begins at that time.
func periodAt(period string, now int64) (start int64, end *int64) {
	at := time.UnixMicro(now).UTC()
	y, m, d := at.Date()
	var from, to time.Time
	switch period {
	case pawl.PeriodDay:
		from, to = time.Date(y, m, d, 0, 0, 0, 0, time.UTC), time.Date(y, m, d+1, 0, 0, 0, 0, time.UTC)
	case pawl.PeriodMonth:
		from, to = time.Date(y, m, 1, 0, 0, 0, 0, time.UTC), time.Date(y, m+1, 1, 0, 0, 0, 0, time.UTC)
	default:
		return now, nil
	}
	until := to.UnixMicro()
	return from.UnixMicro(), &until
}

// roll begins the period that contains now, if the row's period is over. Nothing of it is
// spent or reserved: reservations of the old period are settled there. It reports whether it
// changed the row.
func (b *Row) roll(now int64) bool {
	if b.End == nil || now < *b.End {
		return false
	}
	b.PeriodNumber, b.Spent, b.Reserved = b.PeriodNumber+1, 0, 0
	b.Start, b.End = periodAt(b.Period, now)
	return true
}

// Budget returns the row as the interfaces show it.
func (b *Row) Budget() pawl.Budget {
	out := pawl.Budget{Name: b.Name, Spent: b.Spent, Reserved: b.Reserved, Remaining: b.Remaining(), PeriodStart: store.Stamp(b.Start),
		PeriodEnd: store.StampOf(b.End), CreatedAt: store.Stamp(b.CreatedAt), UpdatedAt: store.Stamp(b.ChangedAt)}
	out.NewBudget = pawl.NewBudget{Unit: b.Unit, Limit: b.Limit, Period: b.Period, OnExhausted: b.OnExhausted, OnLost: b.OnLost}
	if b.ForType != "" || b.ForKey != "" || b.ForTask != "" {
		out.AppliesTo = &pawl.BudgetScope{Type: string(b.ForType), Key: string(b.ForKey), TaskID: string(b.ForTask)}
	}
	return out
}

func read(ctx context.Context, tx store.Tx, namespace, query string, args ...any) ([]Row, error) {
	return store.All(ctx, tx, query, args, func(rows store.Rows, b *Row) error {
		b.Namespace = namespace
		return rows.Scan(b.targets()...)
	})
}

func one(ctx context.Context, tx store.Tx, namespace, query, name string, args ...any) (Row, error) {
	list, err := read(ctx, tx, namespace, query, args...)
	switch {
	case err != nil:
		return Row{}, err
	case len(list) == 0:
		return Row{}, pawl.NotFound("budget", name)
	}
	return list[0], nil
}

// Get reads a budget, with the numbers of the period that contains now.
func Get(ctx context.Context, tx store.Tx, namespace, name string, now int64) (Row, error) {
	b, err := one(ctx, tx, namespace, texts["budgets"]+"\nWHERE b.namespace = $1 AND b.name = $2", name, namespace, name)
	b.roll(now)
	return b, err
}

// list reads the budgets of a namespace by name.
func list(ctx context.Context, tx store.Tx, namespace string, page pawl.Page, now int64) (pawl.List[pawl.Budget], error) {
	query := texts["budgets"] + "\nWHERE b.namespace = $1 AND b.name > $2\nORDER BY b.name\nLIMIT $3"
	rows, err := read(ctx, tx, namespace, query, namespace, page.Cursor, page.Limit+1)
	if err != nil {
		return pawl.List[pawl.Budget]{}, err
	}
	list := store.Paged(rows, page.Limit, func(b Row) string { return b.Name })
	out := pawl.List[pawl.Budget]{Next: list.Next}
	for i := range list.Items {
		list.Items[i].roll(now)
		out.Items = append(out.Items, list.Items[i].Budget())
	}
	return out, nil
}

// lock locks a budget's row until the transaction ends. It begins the period of now,
// in memory. now is read after the lock.
func lock(ctx context.Context, tx store.Tx, namespace, name string) (b Row, now int64, err error) {
	return locked(ctx, tx, namespace, texts["lock budget"], name, namespace, name)
}

func locked(ctx context.Context, tx store.Tx, namespace, query, name string, args ...any) (b Row, now int64, err error) {
	if b, err = one(ctx, tx, namespace, query, name, args...); err != nil {
		return b, 0, err
	}
	if now, err = store.NowAgain(ctx, tx); err == nil {
		b.roll(now)
	}
	return b, now, err
}

// count writes the numbers of a locked budget, and its period.
func (b *Row) count(ctx context.Context, tx store.Tx) error {
	_, err := tx.Exec(ctx, texts["count budget"], b.ID, b.PeriodNumber, b.Start, b.End, b.Spent, b.Reserved)
	return err
}

// put makes a budget, with the given id, or changes it and queues the items that wait
// for the change. created reports that it was made. The signal's row is locked before the
// budget's, as by all who wait for the signal; if the budget was changed in between, the
// error is errChanged and the call is to be repeated.
func (r *Budgets) put(ctx context.Context, tx store.Tx, id, namespace, name string, n pawl.NewBudget, by store.Actor) (b Row,
	woken []store.DueItem, created bool, err error) {
	now, err := tx.Now(ctx)
	if err != nil {
		return b, nil, false, err
	}
	old, err := Get(ctx, tx, namespace, name, now)
	fresh := pawl.CodeOf(err) == pawl.CodeNotFound
	if err != nil && !fresh {
		return b, nil, false, err
	}
	if to := n.AppliesTo; to != nil && to.TaskID != "" && to.TaskID != string(old.ForTask) { // the stored one may be gone
		if _, err := store.TaskState(ctx, tx, namespace, to.TaskID); err != nil {
			return b, nil, false, err
		}
	}
	if fresh {
		b = Row{ID: id, Namespace: namespace, Name: name, PeriodNumber: 1, CreatedAt: now, ChangedAt: now}
		b.set(n)
		b.Start, b.End = periodAt(n.Period, now)
		made, err := tx.Exec(ctx, texts["insert budget"], id, namespace, name, b.Unit, b.Limit, b.ForType, b.ForKey, store.TaskID(b.ForTask),
			b.Period, b.OnExhausted, b.OnLost, b.Start, b.End, now)
		if err == nil && made == 0 {
			err = errChanged
		}
		return b, nil, true, err
	}
	if b, now, woken, err = r.lockAndWake(ctx, tx, &old, "", by); err != nil {
		return b, nil, false, err
	}
	if n.Unit != b.Unit {
		var one int
		if used, err := store.Row(ctx, tx, []any{&one}, texts["has reservations"], b.ID); err != nil || used {
			return b, nil, false, errors.Join(err, unitOf(&b, n.Unit))
		}
	}
	if n.Period != b.Period {
		start, end := periodAt(n.Period, now)
		b.Start, b.End = min(b.Start, start), end
	}
	b.set(n)
	return b, woken, false, b.change(ctx, tx, now)
}

// change writes a locked budget that an operator has changed.
func (b *Row) change(ctx context.Context, tx store.Tx, now int64) error {
	b.ChangedAt = max(now, b.ChangedAt+1)
	_, err := tx.Exec(ctx, texts["change budget"], b.ID, b.Unit, b.Limit, b.ForType, b.ForKey, store.TaskID(b.ForTask), b.Period,
		b.OnExhausted, b.OnLost, b.PeriodNumber, b.Start, b.End, b.Spent, b.Reserved, b.ChangedAt)
	return err
}

func (b *Row) set(n pawl.NewBudget) {
	b.Unit, b.Limit, b.Period, b.OnExhausted, b.OnLost = n.Unit, n.Limit, n.Period, n.OnExhausted, n.OnLost
	b.ForType, b.ForKey, b.ForTask = "", "", ""
	if a := n.AppliesTo; a != nil {
		b.ForType, b.ForKey, b.ForTask = store.Text(a.Type), store.Text(a.Key), store.Text(a.TaskID)
	}
}

func unitOf(b *Row, unit string) error {
	return &pawl.Error{Code: pawl.CodeConflict, Op: "put",
		Message: "the budget has reservations in " + b.Unit + ": make another budget for " + unit}
}

// lockAndWake locks a budget, which was read before, and queues the items that wait for it: all
// of them, or the one that asks by a task. The signals stay, for those that were refused
// before and wait only now.
func (r *Budgets) lockAndWake(ctx context.Context, tx store.Tx, old *Row, asks string, by store.Actor) (b Row, now int64,
	woken []store.DueItem, err error) {
	asking, err := store.TaskIDs(ctx, tx, texts["questions of budget"], old.ID)
	if err != nil {
		return b, 0, nil, err
	}
	tasks := []string{asks}
	if asks == "" {
		tasks = append(tasks, asking...)
	}
	for _, task := range tasks {
		key := pawl.BudgetSignalKey(old.Name, store.Stamp(old.ChangedAt), task)
		queued, err := r.k.Signals.Tell(ctx, tx, old.Namespace, pawl.BudgetSignal, key, by)
		if err != nil {
			return b, 0, nil, err
		}
		woken = append(woken, queued...)
	}
	if b, now, err = lock(ctx, tx, old.Namespace, old.Name); err != nil {
		return b, 0, nil, err
	}
	again, err := store.TaskIDs(ctx, tx, texts["questions of budget"], b.ID)
	if err == nil && (b.ID != old.ID || b.ChangedAt != old.ChangedAt || !slices.Equal(asking, again)) {
		err = errChanged
	}
	return b, now, woken, err
}

// remove removes a budget and queues the items that wait for it. Its reservations are
// removed by the sweep. The error may be errChanged, as of put.
func (r *Budgets) remove(ctx context.Context, tx store.Tx, namespace, name string, by store.Actor) ([]store.DueItem, error) {
	now, err := tx.Now(ctx)
	if err != nil {
		return nil, err
	}
	old, err := Get(ctx, tx, namespace, name, now)
	if err != nil {
		return nil, err
	}
	b, _, woken, err := r.lockAndWake(ctx, tx, &old, "", by)
	if err != nil {
		return nil, err
	}
	_, err = tx.Exec(ctx, texts["delete budget"], b.ID)
	return woken, err
}

// LongestSilent returns the item that holds a reservation of the budget in its current period, and
// whose worker is stalled or has been silent longest; "" if there is none.
func (b *Row) LongestSilent(ctx context.Context, tx store.Tx, now int64) (held string, err error) {
	_, err = store.Row(ctx, tx, []any{(*store.ItemID)(&held)}, texts["longest silent"], b.ID, b.PeriodNumber, now,
		pawl.HeartbeatsPerLease, pawl.DefaultStaleBeats)
	return held, err
}
